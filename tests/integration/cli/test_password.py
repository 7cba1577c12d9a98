"""Logs with a password from the command line: the file that DLOG_PASSWORD_FILE names."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dlog.cli.password import password_explained
from dlog.client import connect
from dlog.config import LogConfig
from dlog.local.embedded import Standalone
from ledger.errors import UnauthorizedError
from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration

PASSWORD = b"secret \xff"
"""Not only text."""
WHAT_NEEDS_IT = (
    "read",
    "read --from 1h",
    "tail",
    "export {out} --to csv",
    "append",
    "explain {first}",
    "verify",
    "seal",
    "delete --yes",
)


@pytest.fixture
def password_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "password"
    path.write_bytes(PASSWORD + b"\n")
    monkeypatch.setenv("DLOG_PASSWORD_FILE", str(path))
    return path


def locked_log(cluster: Standalone, log: str) -> str:
    """Make a log with a password; the id of its only message."""

    async def make() -> str:
        async with (
            connect(cluster.uri, config=LogConfig(password=PASSWORD)) as client,
            await client.open_writer(log, create=True) as writer,
        ):
            return str(await writer.append(b"x"))

    return asyncio.run(make())


@pytest.fixture(scope="module")
def first(cluster: Standalone) -> str:
    return locked_log(cluster, "locked")


@pytest.mark.parametrize("arguments", WHAT_NEEDS_IT)
def test_without_a_file(dlog: Command, first: str, tmp_path: Path, arguments: str) -> None:
    verb, *rest = arguments.format(first=first, out=tmp_path / "out.csv").split()
    dlog(verb, "locked", *rest).must_fail(2, "has a password", "set DLOG_PASSWORD_FILE to the name of a file")


@pytest.mark.parametrize("arguments", WHAT_NEEDS_IT)
def test_with_another_password(
    dlog: Command, first: str, tmp_path: Path, password_file: Path, arguments: str
) -> None:
    password_file.write_bytes(PASSWORD.removesuffix(b"\xff"))
    verb, *rest = arguments.format(first=first, out=tmp_path / "out.csv").split()
    dlog(verb, "locked", *rest).must_fail(2, "does not have the password in", str(password_file))


@pytest.mark.usefixtures("password_file")
def test_every_command_takes_it(cluster: Standalone, dlog: Command, tmp_path: Path) -> None:
    first = locked_log(cluster, "open")
    dlog("append", "open", stdin=b"y\n").must_succeed()
    for arguments in ("read", "read --from 1h", "tail -n 2"):
        verb, *rest = arguments.split()
        assert dlog(verb, "open", *rest, "-o", "raw").must_succeed() == "x\ny\n"
    dlog("export", "open", str(tmp_path / "out.csv"), "--to", "csv").must_succeed()
    dlog("explain", "open", first).must_succeed()
    dlog("verify", "open").must_succeed()
    dlog("cursor", "set", "open", "c", first).must_succeed()
    assert '"messages_behind": 2' in dlog("cursor", "ls", "open", "-o", "json").must_succeed()
    dlog("rotate", "open", "--force").must_succeed()
    dlog("seal", "open").must_succeed()
    dlog("delete", "open", "--yes").must_succeed()


@pytest.mark.usefixtures("password_file")
def test_a_new_log_gets_it(cluster: Standalone, dlog: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    dlog("append", "new", "--create", stdin=b"x\n").must_succeed()
    monkeypatch.delenv("DLOG_PASSWORD_FILE")
    dlog("read", "new").must_fail(2, "has a password")


@pytest.mark.usefixtures("password_file")
def test_a_log_without_a_password_refuses_it(dlog: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as without:
        without.delenv("DLOG_PASSWORD_FILE")
        dlog("append", "plain", "--create", stdin=b"x\n").must_succeed()
    dlog("append", "plain", stdin=b"y\n").must_fail(2, "does not have the password in")


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), (b"", "has none"), (b"\n", "has none"), (b"x" * 5000, "has more")],
)
def test_a_file_without_a_password(
    dlog: Command, password_file: Path, content: bytes | None, reason: str
) -> None:
    if content is None:
        password_file.unlink()
    else:
        password_file.write_bytes(content)
    dlog.here("ls").must_fail(2, "DLOG_PASSWORD_FILE", reason)


@pytest.mark.parametrize(
    "error",
    [
        UnauthorizedError("bookie b1 refuses this client", ledger_id=7, bookie_id="b1"),
        UnauthorizedError("ZooKeeper does not accept the credential of ?auth_file"),
    ],
)
def test_other_refusals_keep_their_sentence(error: UnauthorizedError) -> None:
    with pytest.raises(UnauthorizedError) as caught, password_explained():
        raise error
    assert caught.value is error
