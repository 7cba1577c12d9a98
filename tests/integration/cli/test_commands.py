"""The commands against a real cluster: what goes in comes out, and what is printed can be used."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from dlog.local.embedded import Standalone
from ledger.metadata.drivers import open_store
from ledger.model import LedgerState
from tests.helpers.processes.command import Command

pytestmark = pytest.mark.integration


def test_lines_go_in_and_come_out(dlog: Command) -> None:
    text = b"one\n\nthree, \xff and \xc3\xa9\n"
    assert dlog("append", "lines", "--create", stdin=text).must_succeed().startswith("3 messages appended, ")
    with dlog.start("read", "lines", "-o", "raw") as process:
        out, _ = process.communicate()
    assert out == text


def test_printed_ids_bound_a_later_read(dlog: Command) -> None:
    """First and last id of an append, used as --from and --until."""
    dlog("append", "bounds", "--create", stdin=b"before\n").must_succeed()
    printed = dlog("append", "bounds", stdin=b"".join(b"%d\n" % n for n in range(3000))).must_succeed()
    first, last = printed.strip().rsplit(", ", 1)[1].split(" to ")
    dlog("append", "bounds", stdin=b"after\n").must_succeed()
    rows = dlog.here("read", "bounds", "--from", first, "--until", last).must_succeed().splitlines()
    assert [row.split("\t")[2] for row in rows] == [str(n) for n in range(2999)]
    assert rows[0].split("\t")[0] == first


def test_times_bound_a_read(dlog: Command) -> None:
    """Times as `read` prints them, ids and times mixed, and a time ago."""
    for line in (b"one", b"two", b"three"):
        dlog("append", "times", "--create", stdin=line + b"\n").must_succeed()
    rows = [json.loads(line) for line in dlog.here("read", "times", "-o", "json").must_succeed().splitlines()]
    times = [row["time"] for row in rows]

    def payloads(*bounds: str) -> list[str]:
        return dlog.here("read", "times", "-o", "raw", *bounds).must_succeed().splitlines()

    assert payloads("--from", times[1]) == ["two", "three"]
    assert payloads("--from", times[1], "--until", times[2]) == ["two"]
    assert payloads("--from", rows[0]["id"], "--until", times[1]) == ["one"]
    assert payloads("--from", "1h") == ["one", "two", "three"]
    assert payloads("--from", "0s") == []
    assert payloads("--until", "1h") == []
    dlog.here("read", "times", "--from", times[2], "--until", times[1]).must_fail(2, "is before --from")
    dlog.here("read", "times", "--from", "yesterday").must_fail(2, "'yesterday' is no position")
    dlog.here("read", "absent", "--from", "1h").must_fail(1, "log default/absent does not exist")


def test_an_end_that_was_trimmed_is_refused(dlog: Command, tmp_path: Path) -> None:
    """Without a start, too: what it would have read is no longer there, and that must not look like a success."""
    for _ in range(2):
        dlog("append", "trimmed", "--create", stdin=b"a\nb\nc\n").must_succeed()
    ids = [line.split("\t")[0] for line in dlog.here("read", "trimmed").must_succeed().splitlines()]
    assert dlog.here("read", "trimmed", "--until", "0:0:0").must_succeed() == ""  # nothing is trimmed yet
    dlog.here("shrink", "trimmed", ids[4]).must_succeed()
    sentence = f"--until {ids[2]} is before --from earliest: message {ids[2]} comes before {ids[4]}"
    dlog.here("read", "trimmed", "--until", ids[2]).must_fail(2, sentence)
    file = tmp_path / "trimmed.jsonl"
    dlog.here("export", "trimmed", "--to", "jsonl", "--until", ids[2], str(file)).must_fail(2, sentence)
    assert not file.exists()
    assert dlog.here("read", "trimmed", "--until", ids[5], "-o", "raw").must_succeed() == "b\n"


def test_a_producer_appends_each_line_once(dlog: Command) -> None:
    """Again with the same input, with more of it, and with one line less."""
    lines = [b"%d\n" % number for number in range(2500)]

    def append(count: int) -> str:
        found = dlog("append", "sequenced", "--create", "--producer", "import", stdin=b"".join(lines[:count]))
        return found.must_succeed()

    assert append(1800).startswith("1,800 messages appended, ")
    assert append(1800) == "no messages were appended; 1,800 were in the log before\n"
    printed = append(2500)
    assert printed.startswith("700 messages appended, ") and printed.endswith(
        "; 1,800 were in the log before\n"
    )
    assert append(2499) == "no messages were appended; 2,499 were in the log before\n"
    assert dlog.here("read", "sequenced", "-o", "raw").must_succeed() == b"".join(lines).decode()
    last = printed.partition(" to ")[2].partition(";")[0]
    found = json.loads(dlog.here("explain", "sequenced", last, "-o", "json").must_succeed())
    assert (found["sequence"], len(found["producer_id"])) == (2500, 32)
    shown = dlog.here("explain", "sequenced", last).must_succeed()
    assert "sequence" in shown and found["producer_id"] in shown
    dlog("append", "sequenced", "--producer", "not valid", stdin=b"x\n").must_fail(2, "is not valid")


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_messages_are_compressed_if_asked(dlog: Command, codec: str) -> None:
    """The entry takes less room, and is read back as it was."""
    text = b"".join(b'{"carrier": "AA", "flight": %d}\n' % number for number in range(1000))
    for log, more in ((f"plain-{codec}", ()), (f"packed-{codec}", ("--codec", codec))):
        dlog("append", log, "--create", *more, stdin=text).must_succeed()
        assert dlog.here("read", log, "-o", "raw").must_succeed().encode() == text
    plain, packed = (
        sum(row["bytes"] for row in json.loads(dlog.here("ledgers", log, "-o", "json").must_succeed()))
        for log in (f"plain-{codec}", f"packed-{codec}")
    )
    assert 0 < packed < plain / 3


def test_a_codec_whose_package_is_missing_is_named_before_the_takeover(dlog: Command) -> None:
    code = "import sys; sys.modules['zstandard'] = None; from dlog.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "append", "unpacked", "--create", "--codec", "zstd"],
        input=b"x\n",
        capture_output=True,
        env=dlog.environment(),
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and b"compression" in done.stderr and b"Traceback" not in done.stderr
    assert "unpacked" not in dlog.here("ls").must_succeed()


def test_csv_rows_get_their_key(dlog: Command, tmp_path: Path) -> None:
    file = tmp_path / "in.csv"
    file.write_bytes(b"day,carrier\n1,AA\n2,UA\n")
    dlog("append", "csv", str(file), "--create", "--format", "csv", "--key-column", "carrier").must_succeed()
    found = [json.loads(line) for line in dlog.here("read", "csv", "-o", "json").must_succeed().splitlines()]
    assert [(row["key"], row["payload"]) for row in found] == [("AA", "1,AA"), ("UA", "2,UA")]


def test_tail_follows_a_slow_writer(dlog: Command) -> None:
    """Lines come out while the writer still runs; Ctrl-C ends the tail without an error."""
    dlog("append", "slow", "--create", stdin=b"a\nb\nc\n").must_succeed()
    with (
        dlog.start("tail", "slow", "-n", "2", "-f", "-o", "raw") as tail,
        dlog.start("append", "slow") as writer,
    ):
        assert tail.stdout is not None and writer.stdin is not None
        assert [tail.stdout.readline() for _ in range(2)] == [b"b\n", b"c\n"]
        for line in (b"d\n", b"e\n"):
            writer.stdin.write(line)
            writer.stdin.flush()
            assert tail.stdout.readline() == line
        writer.communicate()
        tail.send_signal(signal.SIGINT)
        _, err = tail.communicate(timeout=20)
    assert (tail.returncode, writer.returncode, err) == (0, 0, b"")


def test_tail_without_follow_ends(dlog: Command) -> None:
    dlog("append", "short", "--create", stdin=b"a\nb\nc\n").must_succeed()
    assert dlog("tail", "short", "-n", "2", "-o", "raw").must_succeed() == "b\nc\n"
    assert dlog("tail", "short", "-n", "0").must_succeed() == ""
    assert dlog("tail", "short", "-n", "99", "-o", "raw").must_succeed() == "a\nb\nc\n"


def test_a_broken_pipe_is_not_an_error(dlog: Command) -> None:
    dlog("append", "pipe", "--create", stdin=b"".join(b"%d\n" % n for n in range(50_000))).must_succeed()
    with dlog.start("read", "pipe") as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
    assert (process.returncode, err) == (0, b"")


def without_streams(
    dlog: Command, closed: str, *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Started from its file: a forked one takes its streams over from Python."""
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" "$@" {closed}', sys.executable, "-m", "dlog.cli.main", *arguments],
        input=stdin,
        env=dlog.environment(),
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_closed_streams_are_not_taken_by_sockets(dlog: Command, closed: str) -> None:
    """A service manager may start a command without them; the first socket would become standard output."""
    done = without_streams(dlog, closed, "append", "closed", "--create", stdin=b"x\n")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_a_closed_stdin_is_not_taken_for_an_empty_one(dlog: Command, closed: str) -> None:
    """Wrong usage, before the log is taken from its writer or made."""
    log = f"unmade-{len(closed)}"
    done = without_streams(dlog, closed, "append", log, "--create")
    assert done.returncode == 2
    assert done.stderr.startswith(b"dlog: stdin is closed: pass the name of a file") or "2>" in closed
    assert log not in dlog.here("ls").must_succeed()


def test_a_cursor_stays_where_it_was_if_stdout_is_closed(dlog: Command) -> None:
    dlog("append", "unprinted", "--create", stdin=b"a\nb\n").must_succeed()
    done = without_streams(dlog, ">&-", "read", "unprinted", "--cursor", "nightly")
    assert (done.returncode, done.stderr) == (1, b"dlog: cannot write the output: stdout is closed\n")
    assert dlog("read", "unprinted", "--cursor", "nightly", "-o", "raw").must_succeed() == "a\nb\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["ls"],
        ["info", "LOG", "-o", "json"],
        ["info", "LOG"],
        ["ledgers", "LOG"],
        ["tail", "LOG"],
        ["export", "LOG", "--to", "jsonl", "-"],
        ["verify", "LOG"],
        ["top", "-n", "1", "-d", "0.1"],
    ],
    ids=lambda arguments: " ".join(arguments),
)
def test_nothing_is_printed_into_a_closed_stdout(dlog: Command, arguments: list[str]) -> None:
    dlog("append", "unprinted", "--create", stdin=b"a\n").must_succeed()
    there = ["unprinted" if each == "LOG" else each for each in arguments]
    done = without_streams(dlog, ">&-", *there)
    assert (done.returncode, done.stderr) == (1, b"dlog: cannot write the output: stdout is closed\n")


def test_logs_are_created_listed_described_and_deleted(dlog: Command) -> None:
    dlog.here("create", "life", "--namespace", "other").must_succeed()
    assert dlog.here("ls", "--namespace", "other").must_succeed() == "life\n"
    assert "life" not in dlog.here("ls").must_succeed()
    dlog("append", "life", "--namespace", "other", stdin=b"a\nb\n").must_succeed()
    dlog.here("rotate", "life", "--namespace", "other").must_succeed()
    dlog("append", "life", "--namespace", "other", stdin=b"c\n").must_succeed()
    rows = json.loads(dlog.here("ledgers", "life", "--namespace", "other", "-o", "json").must_succeed())
    assert [(row["state"], row["messages"]) for row in rows if row["entries"]] == [
        ("sealed", 2),
        ("sealed", 1),
    ]
    first, kept = (f"{rows[at]['ledger']}:0:0" for at in (0, -1))
    shrunk = dlog.here("shrink", "life", "0:0:0", "--namespace", "other").must_succeed()
    assert shrunk == f"log life begins at {first}\n", "as `dlog info` prints it"
    assert (
        dlog.here("shrink", "life", kept, "--namespace", "other").must_succeed()
        == f"log life begins at {kept}\n"
    )
    dlog.here("cursor", "set", "life", "late", "0:0:0", "--namespace", "other").must_fail(
        2, "position 0:0:0 of log life was trimmed: it begins at", "earliest"
    )
    assert dlog.here("read", "life", "--namespace", "other", "-o", "raw").must_succeed() == "c\n"
    info = json.loads(dlog.here("info", "life", "--namespace", "other", "-o", "json").must_succeed())
    assert (info["log"], info["first"], info["state"]) == ("other/life", kept, "active")
    assert (info["sealed_messages"], info["copies"]["ack"]) == (1, 2)
    dlog.here("delete", "life", "--yes", "--namespace", "other").must_succeed()
    dlog.here("info", "life", "--namespace", "other").must_fail(1, "`dlog ls --namespace other` lists them")
    assert dlog.here("ls", "--namespace", "other").must_succeed() == ""


def test_a_sealed_log_is_read_and_takes_no_more_appends(dlog: Command) -> None:
    """Its writer is fenced; to seal it again is no error."""
    here = ("ended", "--namespace", "sealing")
    with dlog.start("append", *here, "--create") as writer, dlog.start("tail", *here, "-f") as tail:
        assert writer.stdin is not None and tail.stdout is not None
        writer.stdin.write(b"last\n")
        writer.stdin.flush()
        first = dlog.here("read", *here)
        while not first.out:
            first = dlog.here("read", *here)
        ledger = first.out.split(":")[0]
        assert dlog.here("seal", *here).must_succeed() == (
            f"sealed ended: its writer is fenced, and it ends before {ledger}:1:0; "
            "it can be read, and takes no more appends\n"
        )
        out, err = writer.communicate(b"too late\n", timeout=60)
        assert (writer.returncode, out) == (1, b"") and b"was sealed by" in err.splitlines()[-1]
        tail.kill()
    again = dlog.here("seal", *here).must_succeed()
    assert again == f"ended was sealed already, and ends before {ledger}:1:0\n"
    assert dlog.here("read", *here, "-o", "raw").must_succeed() == "last\n"
    dlog("append", *here, stdin=b"x\n").must_fail(2, "is sealed")
    info = json.loads(dlog.here("info", *here, "-o", "json").must_succeed())
    assert info["state"] == "sealed"


def test_a_question_comes_before_a_deletion(dlog: Command) -> None:
    dlog.here("create", "asked").must_succeed()
    for answer in (b"n\n", b"\n", b"", b"yes please\n", b"\xff\n"):
        found = dlog("delete", "asked", stdin=answer)
        assert (found.code, found.out) == (1, "")
        line_end = "" if answer else "\n"  # else it is in what the user types, which is not on stderr
        assert found.err.endswith(f"permanently? [y/N]: {line_end}dlog: nothing was deleted\n"), found.err
    assert "asked" in dlog.here("ls").must_succeed()
    assert dlog("delete", "asked", stdin=b"Y\n").must_succeed() == "deleted asked\n"
    missing = dlog("delete", "asked", stdin=b"Y\n")
    assert missing.must_fail(1, "log default/asked does not exist") == missing.err.rstrip("\n")


def test_standalone_runs_until_it_is_interrupted_and_keeps_the_data(tmp_path: Path) -> None:
    """The printed address works; after Ctrl-C nothing runs; the second start has the log again."""
    arguments = ("standalone", "--bookies", "3", "--data", str(tmp_path / "data"))
    for expected in ("", "kept\n"):
        with Command().start(*arguments) as process:
            assert process.stdout is not None
            printed = [process.stdout.readline().decode() for _ in range(7)]
            uri = printed[2].partition("DLOG_METADATA=")[2].strip()
            assert uri.startswith("sqlite:////"), printed
            dlog = Command(uri)
            assert dlog.here("ls").must_succeed() == expected
            if not expected:
                dlog("append", "kept", "--create", stdin=b"x\n").must_succeed()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=30)
        assert (process.returncode, out.decode().splitlines()[-1], err) == (0, "stopping", b"")
    dlog("append", "kept", stdin=b"y\n").must_fail(1, "no bookie is registered", "dlog standalone")


def test_a_cluster_that_is_too_small_for_its_commands_is_described_so(tmp_path: Path) -> None:
    with Command().start("standalone", "--bookies", "1", "--data", str(tmp_path / "data")) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline().decode() for _ in range(4)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert printed[0].startswith("1 bookie is running")
    assert printed[1] == (
        "appends need 2 writable bookies, and have 3 copies with 3: nothing can be appended now, with 1\n"
    )
    assert printed[2] == "\n" and "DLOG_METADATA" in printed[3]


def test_gc_frees_what_a_crashed_takeover_left(dlog: Command, cluster: Standalone) -> None:
    """A ledger tagged as the log's and not in its list goes; the listed ones stay."""
    here = ("--namespace", "collected")  # other tests damage logs of the cluster's default one
    dlog("append", "swept", "--create", *here, stdin=b"kept\n").must_succeed()
    listed = json.loads(dlog.here("ledgers", "swept", "-o", "json", *here).must_succeed())[0]["ledger"]

    async def leave_an_orphan() -> int:
        store = await open_store(cluster.uri)
        try:
            tagged = (await store.read_ledger(listed)).value
            orphan, _ = await store.create_new_ledger(replace(tagged, state=LedgerState.OPEN))
            return orphan
        finally:
            await store.close()

    dlog.here("gc", "--age", "0", *here).must_succeed()  # what other tests have left is not counted below
    orphan = asyncio.run(leave_an_orphan())
    assert dlog.here("gc", *here).must_succeed() == "0 ledgers deleted\n"
    assert dlog.here("gc", "--age", "0", *here).must_succeed() == "1 ledger deleted\n"
    assert dlog.here("gc", "--age", "0", *here).must_succeed() == "0 ledgers deleted\n"
    assert dlog.here("read", "swept", "-o", "raw", *here).must_succeed() == "kept\n"
    assert orphan > listed


def test_help_is_quick_to_load(cluster: Standalone) -> None:
    """Nothing heavy is imported before a command runs; the time itself is measured by hand, machines differ."""
    code = (
        "import sys, dlog.cli.main; "
        "print([m for m in ('rich', 'google.protobuf', 'msgpack', 'uvloop', 'pyspark', 'asyncio') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=Command().environment(), check=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(("package", "command"), [("dlog", "dlog"), ("bookie_server", "bookie")])
def test_python_m_runs_the_command_of_a_package(package: str, command: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", package, "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"Usage: {command} " in done.stdout
