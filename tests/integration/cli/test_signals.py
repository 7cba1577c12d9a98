"""Ctrl-C ends with 130, SIGTERM with 143 and SIGHUP with 129, after a sentence that says what was done.

What has no end of its own (`tail -f`, `standalone`, `bookie start`) is done when it is told to stop, and ends with 0.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dlog.local.embedded import Standalone
from dlog.local.signalling import pause_process
from ledger.errors import RecordNotFoundError
from ledger.metadata.drivers import open_store
from ledger.printing import counted
from tests.helpers.processes.bookie import eventually
from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
INTERRUPT = pytest.mark.parametrize(
    "number",
    [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)],
    ids=lambda number: number.name,
)
"""Where the command waits until a timeout."""
WITH_HANGUP = pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
WORDS = {
    signal.SIGINT: "dlog: interrupted",
    signal.SIGTERM: "dlog: terminated",
    signal.SIGHUP: "dlog: hung up",
}


@WITH_HANGUP
def test_append_reports_what_is_there(dlog: Command, number: signal.Signals) -> None:
    """The input is still open: what was read is acknowledged, and the ids that are printed hold it."""
    log = f"ended-{number.name}"
    dlog("create", log).must_succeed()
    with dlog.start("append", log) as process, dlog.start("tail", log, "-f") as tail:
        assert process.stdin is not None and tail.stdout is not None
        process.stdin.write(b"one\ntwo\n")
        process.stdin.flush()
        first = tail.stdout.readline().decode().split("\t")[0]
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        tail.send_signal(signal.SIGINT)
        tail.communicate(timeout=20)
    assert (process.returncode, out) == (CODES[number], b"")
    *_, said, last = err.decode().splitlines()  # perhaps after what it waits for
    assert said.startswith(f"dlog: stopped early: 2 messages acknowledged, {first} to "), err
    assert last == WORDS[number]
    assert dlog("read", log, "-o", "raw").must_succeed() == "one\ntwo\n"


@INTERRUPT
def test_append_that_waits_for_bookies(tmp_path: Path, number: signal.Signals) -> None:
    """A second signal ends the wait for what is on its way, and the command; the summary says how much that is."""
    with Standalone(tmp_path / "data", restart=False) as cluster:
        dlog = Command(cluster.uri)
        dlog("create", "stuck").must_succeed()
        append = dlog.start("append", "stuck", "--timeout", "300")
        with append as process, dlog.start("tail", "stuck", "-f", "-o", "raw") as tail:
            assert process.stdin is not None and process.stderr is not None and tail.stdout is not None
            for each in (b"one\n", b"two\n"):
                process.stdin.write(each)
                process.stdin.flush()
                assert tail.stdout.readline() == each
            tail.kill()
            bookies = [found.process_id for found in cluster.bookies]
            for each in bookies:
                pause_process(each or 0)
            try:
                process.stdin.write(b"perhaps\n")
                process.stdin.flush()
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(timeout=1)
                process.send_signal(number)
                # A reader sees a message as soon as one bookie knows that it is confirmed, its writer once two do: then
                # the first is acknowledged, and the second perhaps not yet.
                wait = "dlog: waiting for the outcome of %s; Ctrl-C again: stop without it\n"
                expected = {wait % counted(each, "message"): each for each in (1, 2)}
                unanswered = expected[process.stderr.readline().decode()]
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(timeout=2)
                process.send_signal(number)
                _, err = process.communicate(timeout=30)
                # A machine that is slow to come here has a warning that the append has waited for 5 s.
                said, last = (line for line in err.decode().splitlines() if "has waited" not in line)
                assert f"{counted(3 - unanswered, 'message')} acknowledged" in said
                assert f"{unanswered} more may or may not have been appended" in said
                assert (process.returncode, last) == (CODES[number], WORDS[number])
            finally:
                process.kill()
                for each in bookies:
                    os.kill(each or 0, signal.SIGCONT)


@SIGNALS
def test_read_that_is_cut_short(dlog: Command, number: signal.Signals) -> None:
    """Nobody takes its output, so it waits in the middle."""
    log = f"read-{number.name}"
    dlog("append", log, "--create", stdin=b"x" * 99 + b"\n" + (b"y" * 99 + b"\n") * 20_000).must_succeed()
    with dlog.start("read", log) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err.decode()) == (CODES[number], WORDS[number] + "\n")


@SIGNALS
def test_a_read_that_waits_on_the_terminal_question(dlog: Command, number: signal.Signals) -> None:
    """Ctrl-C at a question is no answer to it."""
    log = f"asked-{number.name}"
    dlog("create", log).must_succeed()
    with dlog.start("delete", log) as process:
        assert process.stderr is not None
        question = b""
        while b"?" not in question:
            question += process.stderr.read(1)
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert process.returncode == CODES[number]
    assert err.decode().splitlines()[-1] == WORDS[number]
    assert log in dlog("ls").must_succeed()


@WITH_HANGUP
def test_following_has_no_other_end(dlog: Command, number: signal.Signals) -> None:
    log = f"followed-{number.name}"
    dlog("append", log, "--create", stdin=b"x\n").must_succeed()
    with dlog.start("tail", log, "-f", "-o", "raw") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"x\n"
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, b"")


@WITH_HANGUP
def test_what_serves_stops_when_asked(dlog: Command, tmp_path: Path, number: signal.Signals) -> None:
    """`dlog standalone`, and a bookie on its own."""
    arguments = ["start", "--metadata", dlog.uri, "--data", str(tmp_path / "one"), "--port", "0"]
    bookie = subprocess.Popen(
        [sys.executable, "-m", "bookie_server", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    cluster = Command().start("standalone", "--bookies", "1", "--data", str(tmp_path / "many"))
    for process in (bookie, cluster):
        with process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(number)
            _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (0, b"")


def test_hung_up_twice_an_append_still_waits_for_what_is_in_flight(tmp_path: Path) -> None:
    """A terminal that closes sends SIGHUP, and so does its shell; only a second Ctrl-C asks to stop without waiting."""
    with Standalone(tmp_path / "data", restart=False) as cluster:
        dlog = Command(cluster.uri)
        dlog("create", "slow").must_succeed()
        with dlog.start("append", "slow") as process, dlog.start("tail", "slow", "-f") as tail:
            assert process.stdin is not None and process.stderr is not None and tail.stdout is not None
            bookies = [found.process_id or 0 for found in cluster.bookies]
            process.stdin.write(b"first\n")
            process.stdin.flush()
            assert tail.stdout.readline()
            tail.kill()
            for each in bookies:
                pause_process(each)
            try:
                process.stdin.write(b"second\n")
                process.stdin.flush()
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(timeout=1)
                process.send_signal(signal.SIGHUP)
                assert b"waiting for the outcome of 1 message" in process.stderr.readline()
                process.send_signal(signal.SIGHUP)
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(timeout=1)
            finally:
                for each in bookies:
                    os.kill(each, signal.SIGCONT)
            _, err = process.communicate(timeout=60)
    assert process.returncode == CODES[signal.SIGHUP]
    assert b"2 messages acknowledged" in err


def test_nohup_is_heeded(dlog: Command) -> None:
    """SIGHUP is ignored where the command starts, and stays ignored."""
    dlog("append", "kept", "--create", stdin=b"x\n").must_succeed()
    process = subprocess.Popen(
        ["nohup", sys.executable, "-m", "dlog.cli.main", "append", "kept"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dlog.environment(),
    )
    with process, dlog.start("tail", "kept", "-f", "-o", "raw") as tail:
        assert process.stdin is not None and tail.stdout is not None
        assert tail.stdout.readline() == b"x\n"
        process.stdin.write(b"y\n")
        process.stdin.flush()
        assert tail.stdout.readline() == b"y\n"
        process.send_signal(signal.SIGHUP)
        process.stdin.write(b"z\n")
        process.stdin.flush()
        assert tail.stdout.readline() == b"z\n"
        tail.kill()
        process.communicate(timeout=30)
    assert process.returncode == 0


@SIGNALS
@pytest.mark.parametrize("until", [b"three bookies", b"bookies are running"])
def test_demo_leaves_nothing(number: signal.Signals, until: bytes, tmp_path: Path) -> None:
    """Neither a process nor its directory."""
    environment = {**Command().environment(), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-m", "dlog.cli.main", "demo", "--no-spark"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    with process:
        assert process.stdout is not None
        while until not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    # Not the whole of it: Python says so if the signal meets the constructor of an event loop.
    assert (process.returncode, err.decode().splitlines()[0]) == (CODES[number], WORDS[number])
    assert list(tmp_path.glob("dlog-demo-*")) == []
    assert [line for line in running() if str(tmp_path) in line] == []


@SIGNALS
@pytest.mark.parametrize("started", [False, True])
def test_demo_leaves_nothing_in_the_store(number: signal.Signals, started: bool, tmp_path: Path) -> None:
    """Interrupted while its bookies start, and once they run."""
    uri = f"sqlite:///{tmp_path}/meta.db"
    process = subprocess.Popen(
        [sys.executable, "-m", "dlog.cli.main", "demo", "--no-spark", "--metadata", uri],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**Command().environment(), "TMPDIR": str(tmp_path)},
    )
    with process:
        assert process.stdout is not None
        if started:
            while b"bookies are running" not in process.stdout.readline():
                assert process.poll() is None
        else:
            eventually(lambda: any(tmp_path.glob("dlog-demo-*/cluster/bookie-*/ledgers/VERSION")))
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.decode().splitlines()[0]) == (CODES[number], WORDS[number])

    async def cluster_id() -> str:
        store = await open_store(uri)
        try:
            return await store.instance_id()
        finally:
            await store.close()

    with pytest.raises(RecordNotFoundError):
        asyncio.run(cluster_id())


def running() -> list[str]:
    return [
        path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.exists()
    ]


def test_sigterm_ends_a_job_that_ignores_ctrl_c(dlog: Command) -> None:
    """A shell without job control starts background jobs so."""
    dlog("append", "background", "--create", stdin=b"x\n").must_succeed()
    process = subprocess.Popen(
        [sys.executable, "-m", "dlog.cli.main", "append", "background"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dlog.environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    with process, dlog.start("tail", "background", "-f", "-o", "raw") as tail:
        assert process.stdin is not None and tail.stdout is not None
        assert tail.stdout.readline() == b"x\n"
        process.stdin.write(b"y\n")
        process.stdin.flush()
        assert tail.stdout.readline() == b"y\n"
        tail.kill()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 143
    assert b"1 message acknowledged" in err


def stopped_while_connected(
    process: subprocess.Popen[bytes], silent: socket.socket, number: signal.Signals
) -> tuple[bytes, bytes]:
    """What the process prints, which gets the signal while it waits for an answer on its first connection."""
    silent.settimeout(30)
    connection, _ = silent.accept()
    with connection:
        process.send_signal(number)
        return process.communicate(timeout=30)


@INTERRUPT
def test_tail_that_waits_for_the_metadata_store(number: signal.Signals) -> None:
    """A ZooKeeper that accepts connections and never answers. Following ends with 0, as it does later."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dlog = Command(f"zk://127.0.0.1:{silent.getsockname()[1]}/ledgers")
        with dlog.start("tail", "orders", "-f") as process:
            out, err = stopped_while_connected(process, silent, number)
    assert (process.returncode, out, err) == (0, b"", b"")


@INTERRUPT
def test_standalone_that_is_starting(tmp_path: Path, number: signal.Signals) -> None:
    """Its metadata store accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"zk://127.0.0.1:{silent.getsockname()[1]}/ledgers"
        with Command(address).start(
            "standalone", "--data", str(tmp_path / "data"), "--metadata", address
        ) as process:
            out, err = stopped_while_connected(process, silent, number)
    assert (process.returncode, out, err) == (0, b"stopping\n", b"")
