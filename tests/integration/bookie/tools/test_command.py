"""The `bookie` command as its users meet it: right answers, short errors, no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.processes.bookie import LOG_LINE, BookieProcess, run_bookie

pytestmark = pytest.mark.integration


def test_help_lists_the_commands() -> None:
    done = run_bookie("--help")
    assert done.returncode == 0
    for command in ("start", "init-cluster", "ls", "info"):
        assert command in done.stdout


def test_help_loads_nothing_heavy() -> None:
    """That, not this machine's speed, is what makes it quick."""
    heavy = ("rocksdict", "google.protobuf", "kazoo", "msgpack", "uvloop", "asyncio", "rich")
    program = (
        "import sys, contextlib; from bookie_server.__main__ import main; sys.argv = ['bookie', '--help']\n"
        "with contextlib.suppress(SystemExit): main()\n"
        f"print([each for each in {heavy} if each in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stderr == "[]\n"


def test_a_start_loads_no_repair_unless_it_is_asked_for() -> None:
    """A fifth of the time that a start takes."""
    repair = ("ledger.client", "ledger.repair.autorecovery")
    program = f"""
import asyncio, sys, bookie_server.process
from pathlib import Path
from bookie_server.autorecovery import autorecovery
from bookie_server.config import BookieConfig
from bookie_server.storage.config import StorageConfig

async def run():
    storage = StorageConfig(journal_directory=Path("journal"), ledger_directory=Path("ledgers"))
    config = BookieConfig(metadata="memory:x", storage=storage)
    async with autorecovery(config, None, None):
        print([each for each in {repair} if each in sys.modules])

asyncio.run(run())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["start"], "--metadata"),
        (["start", "--metadata", "memory:x"], "--data"),
        (["start", "--metadata", "memory:x", "--data", "/nowhere", "--port", "99999"], "0..65535"),
        (["start", "--metadata", "memory:x", "--data", "/nowhere", "--host", "0.0.0.0"], "--advertised"),
        (["start", "--config", "/nowhere.toml"], "/nowhere.toml"),
        (["ls", "--metadata", "gopher:x"], "gopher"),
        (["info", "nowhere"], "HOST:PORT"),
        (["info", "127.0.0.1:99999"], "1..65535"),
        (["info", "--data", "/nowhere"], "/nowhere/journal does not exist: give the directories"),
        (["read-ledger", "1", "--data", "/nowhere"], "/nowhere/journal does not exist"),
        (["read-ledger", str(2**63), "--data", "/nowhere"], f"{2**63} is not in the range"),
        (["read-ledger", "1", "--data", "/nowhere", "--last", str(2**64)], f"{2**64} is not in the range"),
        (["read-log", "--data", "/nowhere", "--entry", str(2**63)], f"{2**63} is not in the range"),
        (
            ["read-ledger", "1", "--metadata", "memory:x", "--first", "5", "--last", "2"],
            "--first 5 is after --last 2",
        ),
        (
            ["read-ledger", "1", "--data", "/nowhere", "--bookie", "b"],
            "--bookie b does not go with directories",
        ),
        (
            ["placement", "--metadata", "memory:x", "--ledgers", "--exclude", "b"],
            "--exclude b does not go with",
        ),
        (["start", "--metadata", "memory:x", "--data", "/nowhere", "--http-host", "::1"], "http_port"),
        (["read-journal", "--data", "/nowhere"], "/nowhere/journal does not exist"),
        (["format", "--metadata", "memory:x", "--data", "", "--yes", "--force"], "--data is empty"),
        (["start", "--metadata", "memory:x", "--data", ""], "--data is empty"),
        (["read-journal", "--journal-dir", "", "--ledger-dir", "/nowhere"], "--journal-dir is empty"),
        (["read-journal", "--journal-dir", "/nowhere", "--ledger-dir", ""], "--ledger-dir is empty"),
        (["recover", "a b", "--metadata", "memory:x"], "bookie id 'a b' is not valid"),
        (["decommission", "readonly", "--metadata", "memory:x"], "bookie id 'readonly' is not valid"),
        (["autorecovery", "--metadata", "memory:x", "--config", "/nowhere.toml"], "/nowhere.toml"),
        (["autorecovery", "--metadata", "memory:x", "--rate", "-1"], "--rate"),
        (["frobnicate"], "frobnicate"),
    ],
)
def test_wrong_use_is_exit_code_2_and_one_sentence(arguments: list[str], says: str) -> None:
    done = run_bookie(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ("check_percentage = 101", "check_percentage must be 0 to 100, got 101"),
        ("poll_s = 0", "poll_s must be positive and finite, got 0"),
        ("ledgers_at_once = true", "setting ledgers_at_once must be a whole number, got True"),
        ("bandwidth = 7", "unknown name 'bandwidth' in the table [repair]"),
    ],
)
def test_wrong_settings_of_repair_are_refused(tmp_path: Path, table: str, says: str) -> None:
    file = tmp_path / "bookie.toml"
    file.write_text(f"[repair]\n{table}\n")
    for verb in (["autorecovery"], ["start", "--data", str(tmp_path)]):
        done = run_bookie(*verb, "--metadata", "memory:x", "--config", str(file))
        assert done.returncode == 2
        assert says in done.stderr and "Traceback" not in done.stderr


def test_autorecovery_of_no_cluster_says_what_to_do(tmp_path: Path) -> None:
    done = run_bookie("autorecovery", "--metadata", f"sqlite:///{tmp_path}/meta.db")
    assert done.returncode == 1
    assert "there is no metadata store at" in done.stderr and "Traceback" not in done.stderr


def test_init_cluster_twice_is_refused(metadata: str) -> None:
    done = run_bookie("init-cluster", "--metadata", metadata)
    assert done.returncode == 1
    assert "holds a cluster already: use it" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_address_may_come_from_the_environment(
    bookie: BookieProcess, metadata: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DLOG_METADATA", metadata)
    assert f":{bookie.port}" in run_bookie("ls").stdout


def test_info_asks_a_running_bookie(bookie: BookieProcess) -> None:
    done = run_bookie("info", f"127.0.0.1:{bookie.port}", "-o", "json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["total_bytes"] > facts["free_bytes"] > 0
    assert facts["in_limbo"] is False


def test_info_takes_an_address_or_directories(tmp_path: Path) -> None:
    done = run_bookie("info", "127.0.0.1:3181", "--data", str(tmp_path))
    assert done.returncode == 2 and "not both" in done.stderr
    done = run_bookie("info")
    assert done.returncode == 2 and "give its HOST:PORT" in done.stderr and "--data DIR" in done.stderr
    done = run_bookie("info", str(tmp_path))
    assert done.returncode == 2 and f"give it as --data {tmp_path}" in done.stderr


def test_info_of_an_unknown_bookie_fails_clearly(bookie: BookieProcess, tmp_path: Path) -> None:
    bookie.terminate()
    done = run_bookie("info", f"127.0.0.1:{bookie.port}")
    assert done.returncode == 1
    assert "no bookie answers" in done.stderr
    assert "start the bookie" in done.stderr


def test_a_log_has_time_and_level_and_shows_what_is_asked_for(metadata: str, tmp_path: Path) -> None:
    """A scrub that finds nothing is INFO."""
    shown = BookieProcess(metadata, tmp_path / "shown")
    hidden = BookieProcess(metadata, tmp_path / "hidden", log_level="warning")
    for each in (shown, hidden):
        each.start()
        assert run_bookie("scrub", "--data", str(each.data)).returncode == 0
        assert each.terminate() == 0
    lines = [LOG_LINE.fullmatch(line) for line in shown.errors.splitlines()]
    assert lines and all(line is not None and line[1] == "INFO" for line in lines), shown.errors
    assert hidden.errors == ""
