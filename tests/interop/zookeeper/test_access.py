"""Digest authentication: who may touch the nodes, and what everybody else is told."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from ledger.errors import ConfigurationError, UnauthorizedError, UnavailableError
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from ledger.model import LedgerId
from tests.helpers.metadata.drivers import B1, bookie, eventually, eventually_async, new_metadata
from tests.helpers.processes.command import Command
from tests.helpers.processes.zookeeper import ZooKeeperProcess

STRICT = "enforce.auth.enabled=true\nenforce.auth.schemes=digest\n"


async def test_nodes_of_an_owner_are_closed_to_others(zookeeper: ZooKeeperProcess, tmp_path: Path) -> None:
    plain = f"zk://{zookeeper.address}{zookeeper.new_root()}"
    (tmp_path / "owner").write_text("owner:pass:word\n")
    (tmp_path / "other").write_text("owner:wrong")
    store = await open_store(f"{plain}?auth_file={tmp_path}/owner")
    await store.init_cluster()
    ledger_id, _ = await store.create_new_ledger(new_metadata())
    await store.create_record("/a", b"")
    await store.register_bookie(bookie(B1))
    root = store.uri.partition("?")[0].removeprefix(f"zk://{zookeeper.address}")
    owner = KazooClient(zookeeper.address, auth_data=[("digest", "owner:pass:word")])
    owner.start()
    for path in ("", "/LAYOUT", "/00/0000/L0000", f"/available/{B1}", "-records/a"):
        acls, _ = owner.get_acls(root + path)
        assert acls == [make_digest_acl("owner", "pass:word", all=True)], path
    owner.stop()
    owner.close()
    for address in (plain, f"{plain}?auth_file={tmp_path}/other"):
        stranger = await open_store(address)
        with pytest.raises(UnauthorizedError, match="auth_file"):
            await stranger.read_ledger(ledger_id)
        with pytest.raises(UnauthorizedError, match="auth_file"):
            await stranger.create_ledger(LedgerId(7), new_metadata())
        with pytest.raises(UnauthorizedError, match="auth_file"):
            await stranger.glance_at_ledgers([ledger_id])
        await stranger.close()
    again = await open_store(store.uri)
    assert (await again.read_ledger(ledger_id)).version == 0
    await again.close()
    await store.close()


async def test_a_client_needs_no_permission_above_its_root(zookeeper: ZooKeeperProcess) -> None:
    store = await open_store(f"zk://{zookeeper.address}{zookeeper.new_root()}")
    await store.init_cluster()
    admin = KazooClient(zookeeper.address, auth_data=[("digest", "admin:secret")])
    admin.start()
    admin.set_acls("/", [make_digest_acl("admin", "secret", all=True)])
    try:
        assert await store.instance_id()
    finally:
        admin.set_acls("/", OPEN_ACL_UNSAFE)
        admin.stop()
        admin.close()
        await store.close()


async def test_the_address_of_a_handle_names_the_file_from_any_directory(
    zookeeper: ZooKeeperProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is passed to the bookies of a local cluster, to Spark's tasks, and printed for other shells."""
    monkeypatch.chdir(tmp_path)
    directory = tmp_path / "a+b c"
    directory.mkdir()
    (directory / "owner").write_text("owner:password\n")
    root = f"{zookeeper.address}{zookeeper.new_root()}"
    store = await open_store(f"zk://{root}?root=/x%2By&auth_file=a%2Bb%20c/owner")
    assert store.uri == f"zk://{root}?root=/x%2By&auth_file={tmp_path}/a%2Bb%20c/owner"
    await store.init_cluster()
    await store.close()
    monkeypatch.chdir("/")
    again = await open_store(store.uri)
    assert await again.instance_id()
    await again.close()


async def test_a_server_that_requires_digest_names_the_way_in(tmp_path: Path) -> None:
    """To try again is of no use: the error says what is missing, and with it the server can be used."""
    strict = ZooKeeperProcess(tmp_path, settings=STRICT)
    strict.start()
    try:
        (tmp_path / "auth").write_text("owner:password\n")
        plain = f"zk://{strict.address}{strict.new_root()}"
        stranger = await open_store(plain)
        with pytest.raises(UnauthorizedError, match=r"digest.*\?auth_file=FILE"):
            await stranger.init_cluster()
        await stranger.close()
        owner = await open_store(f"{plain}?auth_file={tmp_path}/auth")
        await owner.init_cluster()
        await owner.close()
    finally:
        strict.kill()


async def test_whatever_a_client_asks_first_a_server_that_requires_digest_names_the_way_in(
    tmp_path: Path,
) -> None:
    """The server answers the first request with the reason, which may be a watch that no caller waits for, and closes
    the connection on all others."""
    strict = ZooKeeperProcess(tmp_path, settings=STRICT)
    strict.start()
    try:
        plain = f"zk+hierarchical://{strict.address}{strict.new_root()}"
        for first in (
            lambda store: store.read_ledger(LedgerId(0)),
            lambda store: store.create_new_ledger(new_metadata()),
            lambda store: store.bookies(),
            lambda store: store.read_record("/a"),
            lambda store: store.register_bookie(bookie(B1)),
            lambda store: store.instance_id(),
        ):
            stranger = await open_store(plain)
            stranger.watch_bookies(lambda: None)
            stranger.watch_ledger(LedgerId(0), lambda: None)
            stranger.watch_record("/a", lambda: None)
            for _ in range(2):
                with pytest.raises(UnauthorizedError, match=r"digest.*\?auth_file=FILE"):
                    await first(stranger)
            await stranger.close()
        result = await asyncio.to_thread(Command(plain), "ls")
        result.must_fail(2, "?auth_file=FILE")
    finally:
        strict.kill()


async def test_a_bookie_that_must_authenticate_now_does_not_storm_the_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that was started again with other settings turns each connection away: it and the log are spared."""
    server = ZooKeeperProcess(tmp_path)
    server.start()
    try:
        store = await open_store(f"zk://{server.address}{server.new_root()}?session_timeout_ms=2000")
        await store.init_cluster()
        await store.register_bookie(bookie(B1))
        store.watch_bookies(lambda: None)
        server.kill()
        server.settings(STRICT)
        server.start()
        await eventually(lambda: any("auth_file" in record.getMessage() for record in caplog.records), 30.0)
        caplog.clear()
        await asyncio.sleep(3)
        assert len(caplog.records) <= 3, [record.getMessage() for record in caplog.records]
        with pytest.raises(UnauthorizedError, match="auth_file"):
            await store.bookies()
        server.kill()
        server.settings("")
        server.start()
        await eventually_async(lambda: _is_registered(store), 30.0)
        await store.close()
    finally:
        server.kill()


async def _is_registered(store: MetadataStore) -> bool:
    with suppress(UnavailableError, UnauthorizedError):
        return (await store.bookies()).is_registered(B1)
    return False


@pytest.mark.parametrize("content", [None, "", "word", "user:", "a:b\nc:d", b"\xff:\xff"])
async def test_a_file_without_a_credential_is_refused(content: str | bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "auth").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError, match="one line, user:password"):
        await open_store(f"zk://127.0.0.1:1/ledgers?auth_file={tmp_path}/auth")
