"""Settings from file and flags, and what wrong ones are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bookie_server.config import DEFAULT_PORT, BookieConfig, Limits
from bookie_server.config_file import make_config, make_repair_config, read_settings
from ledger.errors import ConfigurationError, InvalidNameError

BASE: dict[str, Any] = {"metadata": "memory:m", "data": "/bookie"}


def config(**settings: object) -> BookieConfig:
    return make_config({**BASE, **settings}, {})


def test_one_directory_holds_journal_and_ledgers() -> None:
    storage = config().storage
    assert storage.journal_directory == Path("/bookie/journal")
    assert storage.ledger_directory == Path("/bookie/ledgers")


def test_the_parts_can_be_elsewhere() -> None:
    storage = config(journal_dir="/fast/journal").storage
    assert storage.journal_directory == Path("/fast/journal")
    assert storage.ledger_directory == Path("/bookie/ledgers")


def test_flags_win_over_the_file() -> None:
    made = make_config({**BASE, "port": 1, "host": "10.0.0.1"}, {"port": 2, "host": None})
    assert (made.port, made.host) == (2, "10.0.0.1")


def test_data_on_the_command_line_replaces_the_places_of_the_file() -> None:
    file = {"metadata": "memory:m", "journal_dir": "/a", "ledger_dir": "/b"}
    assert make_config(file, {"data": "/c"}).storage.journal_directory == Path("/c/journal")


def test_several_ledger_directories_are_a_list_and_the_first_one_has_the_index() -> None:
    file = {
        "metadata": "memory:x",
        "journal_dir": "/j",
        "ledger_dir": ["/a", "/b"],
        "lost_ledger_dir": ["/c"],
    }
    storage = make_config(file, {"ledger_dir": [], "lost_ledger_dir": None}).storage
    assert storage.ledger_directories == (Path("/a"), Path("/b"))
    assert storage.lost_ledger_directories == (Path("/c"),)
    given = {"data": Path("/d"), "ledger_dir": [Path("/e"), Path("/f")]}
    storage = make_config(file, given).storage
    assert storage.journal_directory == Path("/d/journal"), "--data is in place of both kinds in the file"
    assert storage.ledger_directories == (Path("/e"), Path("/f")), "and not of what is given next to it"
    assert storage.lost_ledger_directories == (Path("/c"),)
    storage = make_config(file, {"data": Path("/d")}).storage
    assert storage.ledger_directories == (Path("/d/ledgers"),)


def test_relative_places_become_absolute() -> None:
    assert config(data="here").storage.ledger_directory == Path.cwd() / "here" / "ledgers"


def test_the_bookie_id_is_the_advertised_address_unless_given() -> None:
    assert config().identity(3181) == "127.0.0.1:3181"
    assert config(host="0.0.0.0", advertised="store1").identity(4000) == "store1:4000"
    assert config(bookie_id="left-rack").identity(4000) == "left-rack"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"metadata": ""}, "--metadata"),
        ({"port": 65536}, "0..65535"),
        ({"port": -1}, "0..65535"),
        ({"http_port": 65536}, "http_port must be in 0..65535"),
        ({"http_port": -1}, "http_port must be in 0..65535"),
        ({"http_port": "80"}, "setting http_port must be a whole number, got '80'"),
        ({"http_port": DEFAULT_PORT}, f"port and http_port are both {DEFAULT_PORT}: give another http_port"),
        ({"port": 80, "http_port": 80, "http_host": "0.0.0.0"}, "port and http_port are both 80"),
        ({"http_host": ""}, "http_host is empty"),
        ({"http_host": "a" * 64}, "is no host name or address"),
        ({"host": "0.0.0.0"}, "--advertised"),
        ({"gc_interval_s": 0}, "gc_interval_s"),
        ({"network_location": "r1"}, "location 'r1' is not valid: write /rack or /zone/rack"),
        ({"placement": {"racks_min": 0}}, "racks_min must be 1 to 255"),
        ({"placement": {"racks": 2}}, r"unknown name 'racks' in the table \[placement\]"),
        ({"repair": {"placement": {}}}, r"unknown name 'placement' in the table \[repair\]"),
        ({"prot": 1}, "unknown name 'prot'"),
        ({"limits": {"frame_byte_max": 1}}, "unknown name 'frame_byte_max'"),
        ({"limits": 3}, "must be a table"),
        ({"limits": {"idle_s": 0}}, "idle_s"),
        ({"storage": {"journal_directory": "/x"}}, "unknown name 'journal_directory'"),
        ({"journal_dir": "/x", "ledger_dir": "/x"}, "different directories"),
        ({"port": "eighty"}, "setting port must be a whole number, got 'eighty'"),
        ({"port": True}, "setting port must be a whole number, got True"),
        ({"port": 80.0}, "setting port must be a whole number, got 80.0"),
        ({"host": 5}, "setting host must be a string, got 5"),
        ({"bookie_id": 5}, "setting bookie_id must be a string, got 5"),
        ({"metadata": ["a"]}, "setting metadata must be a string"),
        ({"data": 7}, "setting data must be the path of a directory, got 7"),
        ({"ledger_dir": ""}, "setting ledger_dir must be the path of a directory, got ''"),
        ({"data": "/a\0b"}, r"setting data must be the path of a directory, got '/a\\x00b'"),
        ({"ledger_dir": ["/a", ""]}, "setting ledger_dir must be the path of a directory, got ''"),
        ({"ledger_dir": [["/a"]]}, r"setting ledger_dir must be the path of a directory, got \['/a'\]"),
        ({"journal_dir": ["/a"]}, r"setting journal_dir must be the path of a directory, got \['/a'\]"),
        ({"ledger_dir": ["/a", "/b", "/a"]}, "two of them are /a"),
        ({"gc_interval_s": float("nan")}, "setting gc_interval_s must be a number, got nan"),
        ({"gc_interval_s": 10**400}, "setting gc_interval_s must be a number, got 1000"),
        (
            {"limits": {"reads_max": 10**400}},
            "setting reads_max must be a whole number of at most 64 bits, got 1000",
        ),
        ({"limits": {"idle_s": "long"}}, "setting idle_s must be a number, got 'long'"),
        ({"storage": {"limbo_on_damage": 1}}, "setting limbo_on_damage must be true or false, got 1"),
        ({"storage": {"write_cache_bytes_max": -5}}, "write_cache_bytes_max must be above 0, got -5"),
        ({"storage": {"reserve_bytes": -1}}, "reserve_bytes must be at least 0, got -1"),
        (
            {"storage": {"block_bytes_max": 2**33, "write_cache_bytes_max": 2**34}},
            "block_bytes_max must be at most 1073741824, got 8589934592",
        ),
        (
            {"storage": {"journal_segment_bytes": 2**28 + 1}},
            "journal_segment_bytes must be from 65536 to 268435456, got 268435457",
        ),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, object], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        config(**settings)


def test_whole_numbers_are_numbers() -> None:
    """TOML writes a second as 1 or as 1.0."""
    assert config(gc_interval_s=1, limits={"idle_s": 2}).limits.idle_s == 2


def test_a_missing_store_or_place_is_named() -> None:
    with pytest.raises(ConfigurationError, match="--metadata"):
        make_config({"data": "/x"}, {})
    with pytest.raises(ConfigurationError, match="--data"):
        make_config({"metadata": "memory:m"}, {})


def test_an_impossible_bookie_id_is_refused() -> None:
    with pytest.raises(InvalidNameError):
        config(bookie_id="../../etc/passwd")


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bookie.toml"
    with pytest.raises(ConfigurationError, match="cannot read settings file"):
        read_settings(path)
    path.write_text("port = = 1")
    with pytest.raises(ConfigurationError, match="is not valid TOML"):
        read_settings(path)


def test_a_file_with_a_misspelt_table_is_refused_whatever_is_read_of_it(tmp_path: Path) -> None:
    """`bookie autorecovery`, `placement` and `compact` read one or two tables of it."""
    path = tmp_path / "bookie.toml"
    path.write_text("[repiar]\nbytes_per_s = 5\n")
    with pytest.raises(
        ConfigurationError, match=f"unknown name 'repiar' in the settings file {path}; known are"
    ):
        read_settings(path)
    path.write_text("http_port = 80\ndata = '/x'\n[repair]\nbytes_per_s = 5\n")
    assert make_repair_config(read_settings(path), {}).bytes_per_s == 5


def test_every_limit_is_positive() -> None:
    with pytest.raises(ConfigurationError, match="frame_bytes_max"):
        Limits(frame_bytes_max=0)


def test_the_table_of_placement_is_that_of_repair() -> None:
    assert config(placement={"racks_min": 3, "enforce": True}).repair.placement.racks_min == 3
    assert make_repair_config({"placement": {"zones_min": 2}}, {"bytes_per_s": 5}).placement.zones_min == 2


@pytest.mark.parametrize("name", ["a..b", "a" * 64])
@pytest.mark.parametrize("setting", ["host", "advertised"])
def test_a_name_that_no_host_can_have_is_refused(setting: str, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{name}' is no host name or address"):
        config(**{setting: name})
    assert config(**{setting: "bücher.example"}) and config(**{setting: "::1"})


def test_one_port_at_two_addresses_is_accepted() -> None:
    assert config(port=80, http_port=80, host="192.0.2.1").http_port == 80
    assert config(port=80, http_port=80, http_host="::").http_port == 80
    assert config(port=0, http_port=0).http_port == 0
