"""Addresses: what is understood, and what is said about the rest."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ledger.environment import Environment
from ledger.errors import ConfigurationError
from ledger.metadata import drivers
from ledger.metadata.drivers import open_store, register_driver
from ledger.metadata.memory import open_memory
from ledger.metadata.store import MetadataStore
from ledger.metadata.uri import MetadataUri, parse_uri


async def canonical(uri: str) -> str:
    store = await open_store(uri)
    await store.close()
    return store.uri


def test_an_address_is_scheme_rest_and_options() -> None:
    uri = parse_uri("zk+hierarchical://h1:2181;h2:2181/ledgers?root=/x&y=%20")
    assert (uri.scheme, uri.driver) == ("zk+hierarchical", "zk")
    assert uri.rest == "//h1:2181;h2:2181/ledgers"
    assert (uri.option("root"), uri.option("y"), uri.option("z")) == ("/x", " ", None)


@pytest.mark.parametrize("text", ["", "sqlite", "sqlite:", ":x", "/a/b.db", "sq lite:///x", "memory:"])
def test_malformed_addresses_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        asyncio.run(open_store(text))


def test_an_unknown_scheme_lists_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"'etcd'.*memory.*sqlite.*zk"):
        asyncio.run(open_store("etcd://h/x"))


@pytest.mark.parametrize(
    "text", ["sqlite:x.db", "sqlite://h/x.db", "sqlite:///", "sqlite:///a/", "sqlite:///a%00b"]
)
def test_malformed_sqlite_addresses_show_the_right_form(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"sqlite:///relative/file\.db"):
        asyncio.run(open_store(text))


@pytest.mark.parametrize("address", ["memory:x", "sqlite:///x.db", "zk://h/x"])
@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("rooot=/x", "has the unknown option 'rooot', known are: .*root"),
        ("root=/x&timeout", "has the unknown option 'timeout'"),
        ("root=%ff", "its options are not UTF-8"),
        ("root=", "the option 'root' without a value"),
        ("root", "the option 'root' without a value"),
        ("root=/x&root=/y", "the option 'root' more than once"),
        ("root=/x&root=/x", "the option 'root' more than once"),
        ("root=x", "root=x, .* /part/part .*for example root=/dlog"),
        ("root=/x/", "root=/x/, .* /part/part .*for example root=/dlog"),
        ("root=/a%20b", "root=/a b, .* /part/part .*for example root=/dlog"),
    ],
)
def test_an_option_without_effect_is_refused(address: str, query: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        asyncio.run(open_store(f"{address}?{query}"))


@pytest.mark.parametrize("name", ["auth_file", "session_timeout_ms", "request_timeout_ms"])
def test_an_option_of_zookeeper_has_one_value(name: str) -> None:
    """An `auth_file` without a file was none, and the cluster that was made with it was open to all."""
    for query, why in ((f"{name}=", "without a value"), (f"{name}=300&{name}=400", "more than once")):
        with pytest.raises(ConfigurationError, match=f"the option '{name}' {why}"):
            asyncio.run(open_store(f"zk://127.0.0.1:1/ledgers?{query}"))


def test_an_auth_file_whose_name_no_file_can_have() -> None:
    with pytest.raises(ConfigurationError, match=r"auth_file .* cannot be read: embedded null byte"):
        asyncio.run(open_store("zk://127.0.0.1:1/ledgers?auth_file=/srv/%00"))


def test_a_sqlite_path_that_is_not_utf8_is_refused() -> None:
    """Two such names would both become that of a third file."""
    with pytest.raises(ConfigurationError, match="is not UTF-8"):
        asyncio.run(open_store("sqlite:///%ff.db"))


def test_a_directory_is_no_sqlite_address(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="directory"):
        asyncio.run(open_store(f"sqlite:///{tmp_path}"))


def test_what_a_store_calls_itself_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths, odd characters, links and options all end in one address that works elsewhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    assert asyncio.run(canonical("sqlite:///d/m.db")) == f"sqlite:///{tmp_path}/d/m.db"
    assert asyncio.run(canonical("sqlite:///link/m.db")) == f"sqlite:///{tmp_path}/m.db"
    assert (
        asyncio.run(canonical("sqlite:///a%20%3Fb.db?root=/x")) == f"sqlite:///{tmp_path}/a%20%3Fb.db?root=/x"
    )
    assert asyncio.run(canonical("memory:n?root=/x")) == "memory:n?root=/x"


def test_odd_file_names_work(tmp_path: Path) -> None:
    async def run() -> None:
        store = await open_store(f"sqlite:///{tmp_path}/a%3Fb%23c%25d%20e.db")
        await store.init_cluster()
        await store.close()

    asyncio.run(run())
    assert (tmp_path / "a?b#c%d e.db").exists()


def test_a_third_party_adds_a_scheme(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[MetadataUri] = []

    async def factory(uri: MetadataUri, environment: Environment) -> MetadataStore:
        seen.append(uri)
        return await open_memory("third", "", environment)

    monkeypatch.setattr(drivers, "_drivers", dict(drivers._drivers))
    register_driver("etcd", factory)
    assert asyncio.run(canonical("etcd+v3://h:1/x")) == "memory:third"
    assert seen[0].rest == "//h:1/x"
