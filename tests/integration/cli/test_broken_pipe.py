"""A reader of the output that has seen enough is no error, whatever the command: exit code 0, nothing on stderr.

The reader's end is closed before the command starts, so its first write already fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from bookie_server.tools.cli import app as bookie_app
from dlog.cli.main import app as dlog_app
from dlog.local.embedded import Standalone
from ledger.errors import AlreadyExistsError, MetadataUnavailableError
from ledger.metadata.drivers import open_store
from ledger.model import BookieId
from tests.helpers.processes.bookie import eventually
from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration

MODULES = {"dlog": "dlog.cli.main", "bookie": "bookie_server"}
APPS = {"dlog": dlog_app, "bookie": bookie_app}


@dataclass(frozen=True)
class Place:
    """A running cluster with the log `pipes`, and the directory of a bookie that was stopped."""

    uri: str
    bookie: str
    stopped_uri: str
    stopped: Path
    scratch: Path
    first: str
    """The id of the first message of `pipes`."""

    @property
    def ledger(self) -> str:
        """That of this message: other tests of the cluster delete ledgers."""
        return self.first.partition(":")[0]

    def unused_uri(self) -> str:
        """Of a cluster without bookies, which may be removed."""
        uri = f"sqlite:///{self.scratch / 'unused.db'}"

        async def init() -> None:
            store = await open_store(uri)
            with suppress(AlreadyExistsError):
                await store.init_cluster()
            await store.close()

        asyncio.run(init())
        return uri

    def idle_bookie(self, bookie_id: str) -> str:
        """Its id, after it got a cookie in the stopped cluster. No ledger names it."""

        async def write_cookie() -> None:
            store = await open_store(self.stopped_uri)
            await store.write_cookie(BookieId(bookie_id), b"cookie", None)
            await store.close()

        asyncio.run(write_cookie())
        return bookie_id


CASES: dict[tuple[str, str], list[Callable[[Place], list[str]]]] = {
    ("dlog", "create"): [lambda place: [f"new-{os.getpid()}"]],
    ("dlog", "ls"): [lambda _: [], lambda _: ["-o", "json"]],
    ("dlog", "info"): [lambda _: ["pipes"], lambda _: ["pipes", "-o", "json"]],
    ("dlog", "ledgers"): [lambda _: ["pipes"], lambda _: ["pipes", "-o", "json"]],
    ("dlog", "rotate"): [lambda _: ["rotated"]],
    ("dlog", "seal"): [lambda _: ["sealed"]],
    ("dlog", "shrink"): [lambda _: ["pipes", "0:0:0"]],
    ("dlog", "delete"): [lambda _: ["deleted", "--yes"]],
    ("dlog", "gc"): [lambda _: []],
    ("dlog", "retention"): [lambda _: ["pipes"], lambda _: ["pipes", "-o", "json"]],
    ("dlog", "properties"): [lambda _: ["pipes", "a=b"], lambda _: ["pipes", "a=b", "-o", "json"]],
    ("dlog", "cursor"): [
        lambda _: ["set", "pipes", "reader", "earliest"],
        lambda _: ["ls", "pipes"],
        lambda _: ["ls", "pipes", "-o", "json"],
        lambda _: ["rm", "pipes", "unused"],
    ],
    ("dlog", "append"): [lambda _: ["pipes"]],
    ("dlog", "read"): [
        lambda _: ["pipes"],
        lambda _: ["pipes", "-o", "json"],
        lambda _: ["pipes", "-o", "raw"],
    ],
    ("dlog", "export"): [
        lambda _: ["pipes", "--to", "jsonl", "-"],
        lambda _: ["pipes", "--to", "csv", "-"],
        lambda _: ["pipes", "--to", "parquet", "-"],
        lambda place: ["pipes", "--to", "csv", "--force", str(place.scratch / "exported.csv")],
    ],
    ("dlog", "tail"): [lambda _: ["pipes", "-f"], lambda _: ["pipes", "-o", "json"]],
    ("dlog", "history"): [lambda _: ["pipes"], lambda _: ["pipes", "-o", "json"]],
    ("dlog", "explain"): [
        lambda place: ["pipes", place.first],
        lambda place: ["pipes", place.first, "-o", "json"],
    ],
    ("dlog", "verify"): [lambda _: ["pipes"], lambda _: ["pipes", "-o", "json"]],
    ("dlog", "top"): [
        lambda _: ["-n", "1", "-d", "0.1", "--namespace", "pipes"],
        lambda _: ["-n", "1", "-d", "0.1", "--namespace", "pipes", "-o", "json"],
    ],
    ("dlog", "demo"): [lambda _: ["--no-spark"]],
    ("bookie", "init-cluster"): [lambda place: ["--metadata", f"sqlite:///{place.scratch / 'new.db'}"]],
    ("bookie", "ls"): [lambda _: [], lambda _: ["-o", "json"]],
    ("bookie", "info"): [
        lambda place: [place.bookie],
        lambda place: [place.bookie, "-o", "json"],
        lambda place: ["--data", str(place.stopped)],
    ],
    ("bookie", "read-journal"): [
        lambda place: ["--data", str(place.stopped)],
        lambda place: ["--data", str(place.stopped), "-o", "json"],
    ],
    ("bookie", "read-log"): [
        lambda place: ["--data", str(place.stopped)],
        lambda place: ["--data", str(place.stopped), "-o", "json"],
    ],
    ("bookie", "list-ledgers"): [
        lambda place: ["--metadata", place.uri],
        lambda place: ["--meta", "--metadata", place.uri, "-o", "json"],
    ],
    ("bookie", "read-ledger"): [
        lambda place: [place.ledger, "--metadata", place.uri],
        lambda place: [place.ledger, "--metadata", place.uri, "-o", "json"],
        lambda place: ["1", "--data", str(place.stopped)],
    ],
    ("bookie", "space"): [
        lambda place: ["--data", str(place.stopped)],
        lambda place: ["--data", str(place.stopped), "--ledgers", "-o", "json"],
    ],
    ("bookie", "compact"): [
        lambda place: ["--data", str(place.stopped), "--dry-run"],
        lambda place: ["--data", str(place.stopped)],
    ],
    ("bookie", "rebuild-index"): [
        lambda place: ["--data", str(place.stopped)],
        lambda place: ["--data", str(place.stopped), "-o", "json"],
    ],
    ("bookie", "scrub"): [
        lambda place: ["--data", str(place.stopped)],
        lambda place: ["--data", str(place.stopped), "--status"],
        lambda place: ["--data", str(place.stopped), "--status", "-o", "json"],
    ],
    ("bookie", "format"): [
        lambda place: [
            *("--metadata", place.stopped_uri, "--data", str(place.stopped.with_name("bookie-2"))),
            *("--yes", "--force"),
        ]
    ],
}
"""Arguments for every command that ends by itself. Those that serve are below."""

CASES |= {
    ("bookie", "instance-id"): [lambda _: []],
    ("bookie", "format-cluster"): [lambda place: ["--metadata", place.unused_uri(), "--yes"]],
    ("bookie", "nuke-cluster"): [lambda place: ["--metadata", place.unused_uri(), "--force"]],
    ("bookie", "under-replicated"): [
        lambda place: ["--metadata", place.uri],
        lambda place: ["--metadata", place.uri, "-o", "json"],
    ],
    ("bookie", "recover"): [
        lambda place: [place.idle_bookie("127.0.0.1:1"), "--metadata", place.stopped_uri],
        lambda place: [place.idle_bookie("127.0.0.1:2"), "--metadata", place.stopped_uri, "-o", "json"],
    ],
    ("bookie", "decommission"): [
        lambda place: [place.idle_bookie("127.0.0.1:3"), "--metadata", place.stopped_uri]
    ],
    ("bookie", "trigger-audit"): [lambda place: ["--metadata", place.uri]],
    ("bookie", "check-copies"): [lambda place: ["--metadata", place.uri, "-o", "json"]],
    ("bookie", "placement"): [
        lambda place: ["--ensemble", "1", "--write", "1", "--ack", "1", "--metadata", place.uri],
        lambda place: ["--ledgers", "--metadata", place.uri, "-o", "json"],
    ],
    ("bookie", "repair-settings"): [
        lambda place: ["--metadata", place.uri],
        lambda place: ["--metadata", place.uri, "-o", "json"],
    ],
}

SHOWS_PROGRESS = {("bookie", "rebuild-index")}
"""On stderr, which is read here."""

SERVING = {("dlog", "standalone"), ("bookie", "start"), ("bookie", "autorecovery")}


def names(program: str) -> set[str]:
    import typer.main

    return set(typer.main.get_group(APPS[program]).commands)


@pytest.mark.parametrize("program", ["dlog", "bookie"])
def test_every_command_has_a_case(program: str) -> None:
    assert {name for owner, name in CASES.keys() | SERVING if owner == program} == names(program)


@pytest.fixture(scope="module")
def place(cluster: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Place:
    scratch = tmp_path_factory.mktemp("pipes")
    lines = b"".join(b"%d\n" % n for n in range(2000))
    with Standalone(scratch / "stopped", bookies=2) as own:
        Command(own.uri)("append", "pipes", "--create", stdin=lines).must_succeed()
    dlog = Command(cluster.uri)
    for log in ("pipes", "rotated", "sealed", "deleted"):
        dlog("append", log, "--create", stdin=lines).must_succeed()
    dlog("cursor", "set", "pipes", "unused", "earliest").must_succeed()
    stopped = scratch / "stopped" / "bookie-1"
    [message] = map(json.loads, dlog("read", "pipes", "-n", "1", "-o", "json").must_succeed().splitlines())
    return Place(
        cluster.uri, cluster.bookies[0].bookie_id, own.uri, stopped, scratch, first=str(message["id"])
    )


def start(program: str, arguments: list[str], uri: str) -> subprocess.Popen[bytes]:
    """The command, with a pipe for its output that nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", MODULES[program], *arguments],
            stdin=subprocess.PIPE,
            stdout=writing,
            stderr=subprocess.PIPE,
            env=Command(uri).environment(),
        )
    finally:
        os.close(writing)


def outcome(process: subprocess.Popen[bytes], stdin: bytes = b"") -> tuple[int, str]:
    with process:
        try:
            _, err = process.communicate(stdin, timeout=60)
        finally:
            process.kill()
    return process.returncode, err.decode()


@pytest.mark.parametrize(
    ("program", "name", "number"),
    [
        pytest.param(*command, number, marks=[pytest.mark.nightly] if number else [])
        for command, cases in CASES.items()
        for number in range(len(cases))
    ],
)
def test_a_closed_pipe_is_not_an_error(place: Place, program: str, name: str, number: int) -> None:
    arguments = [name, *CASES[program, name][number](place)]
    code, err = outcome(start(program, arguments, place.uri), b"line\n" * 10)
    if (program, name) in SHOWS_PROGRESS:
        assert "Traceback" not in err and "pipe" not in err
        err = ""
    assert (code, err) == (0, "")


@pytest.mark.parametrize(
    ("program", "arguments"),
    [(program, [option]) for program in APPS for option in ("--help", "--version")]
    + [
        pytest.param(program, [name, "--help"], marks=pytest.mark.nightly)
        for program in APPS
        for name in sorted(names(program))
    ],
)
def test_nor_is_it_for_help(program: str, arguments: list[str]) -> None:
    assert outcome(start(program, arguments, "")) == (0, "")


def bookies_of(uri: str) -> int:
    """Number of registered bookies; 0 while there is no cluster."""

    async def count() -> int:
        store = await open_store(uri)
        try:
            return len((await store.bookies()).writable)
        finally:
            await store.close()

    try:
        return asyncio.run(count())
    except MetadataUnavailableError:
        return 0


def test_a_bookie_serves_on_when_its_ready_line_is_not_read(place: Place, tmp_path: Path) -> None:
    """What waits for the ready line may end after it; the bookie is there for its clients."""
    arguments = ["start", "--metadata", place.uri, "--data", str(tmp_path / "data"), "--port", "0"]
    before = bookies_of(place.uri)
    process = start("bookie", arguments, "")
    try:
        eventually(lambda: bookies_of(place.uri) > before)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
    finally:
        process.send_signal(signal.SIGTERM)
        ended = outcome(process)
    assert ended == (0, "")


def test_a_cluster_runs_on_when_its_messages_are_not_read(tmp_path: Path) -> None:
    process = start("dlog", ["standalone", "--bookies", "1", "--data", str(tmp_path / "data")], "")
    database = tmp_path / "data" / "meta.db"
    try:
        eventually(lambda: database.exists() and bookies_of(f"sqlite:///{database}") == 1)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
    finally:
        process.send_signal(signal.SIGTERM)
        ended = outcome(process)
    assert ended == (0, "")


def test_following_ends_with_its_reader(place: Place) -> None:
    """Nothing more comes, so there is no write that could fail."""
    with Command(place.uri).start("tail", "pipes", "-n", "1", "-f") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        process.stdout = None
        assert outcome(process) == (0, "")


@pytest.mark.parametrize(
    "arguments", [["read", "pipes"], ["ls"], ["info", "pipes", "-o", "json"], ["--help"], ["--version"]]
)
def test_a_full_disk_is_named(place: Place, arguments: list[str]) -> None:
    """One sentence, once, and a failure: what was asked for is not there."""
    done = _on_a_full_disk(place, arguments)
    assert (done.returncode, done.stderr) == (1, b"dlog: cannot write the output: No space left on device\n")


def test_what_was_appended_is_named_on_a_full_disk(place: Place) -> None:
    """Who repeats the command would append it twice."""
    done = _on_a_full_disk(place, ["append", "full", "--create"], b"one\ntwo\n")
    assert done.returncode == 1
    assert done.stderr.startswith(b"dlog: 2 messages appended, ")
    assert done.stderr.endswith(b"\ndlog: cannot write the output: No space left on device\n")


def _on_a_full_disk(
    place: Place, arguments: list[str], stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    with Path("/dev/full").open("wb") as full:
        return subprocess.run(
            [sys.executable, "-m", "dlog.cli.main", *arguments],
            input=stdin,
            stdout=full,
            stderr=subprocess.PIPE,
            env=Command(place.uri).environment(),
            check=False,
        )
