"""The embedded cluster: real processes, restarts, locks, and who ends with whom."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import dlog
from dlog.errors import StandaloneError
from dlog.local import supervisor
from ledger.errors import ConfigurationError, MetadataUnavailableError, NotEnoughBookiesError
from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, add_answer
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.integration


def wait_until(condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.02)


def alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return _state(process_id) != "Z"


def processes_with(path: Path) -> list[int]:
    """The processes that have this path in an argument, other than this one."""
    found = []
    for arguments in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            if str(path).encode() in arguments.read_bytes():
                found.append(int(arguments.parent.name))
    return [one for one in found if one != os.getpid()]


def test_what_is_in_the_directory_is_there_again(tmp_path: Path) -> None:
    """Addresses and messages survive a clean stop and start; nothing runs in between."""
    with dlog.standalone(tmp_path / "data", bookies=3) as cluster, dlog.connect(cluster.uri) as client:
        with client.open_writer("orders", create=True) as writer:
            first = writer.append(b"payload", key=b"42", headers=[(b"source", b"web")])
            writer.append_many([b"a", b"b", b"c"])
        before = cluster.bookies
    assert not any(bookie.process_id and alive(bookie.process_id) for bookie in before)
    assert cluster.bookies == []
    with dlog.standalone(tmp_path / "data", bookies=1) as cluster, dlog.connect(cluster.uri) as client:
        assert [bookie.bookie_id for bookie in cluster.bookies] == [bookie.bookie_id for bookie in before]
        found = list(client.reader("orders", until="latest"))
        assert [message.payload for message in found] == [b"payload", b"a", b"b", b"c"]
        assert (found[0].id, found[0].key, found[0].headers) == (first, b"42", ((b"source", b"web"),))


@pytest.mark.parametrize(
    "stray", [None, 2**62], ids=["", "and a client has stored an entry of a ledger of its own"]
)
def test_nothing_acknowledged_is_lost_after_metadata_were_restored_from_a_backup(
    tmp_path: Path, stray: int | None
) -> None:
    """Bookies hold entries of ledgers that the backup does not have: what is appended now must not get their ids."""
    metadata, backup = tmp_path / "meta.db", tmp_path / "backup.db"

    def append(client: dlog.Client, *payloads: bytes) -> list[dlog.MessageId]:
        with client.open_writer("orders", create=True) as writer:
            return [writer.append(payload) for payload in payloads]

    with dlog.standalone(tmp_path, bookies=3) as cluster, dlog.connect(cluster.uri) as client:
        append(client, b"in the backup")
        with contextlib.closing(sqlite3.connect(metadata)) as connection:
            connection.execute(f"VACUUM INTO '{backup}'")
        append(client, b"later", b"later")
        append(client, b"later")
        for bookie in cluster.bookies if stray else []:
            with RawClient(int(bookie.bookie_id.rpartition(":")[2])) as client_of_its_own:
                assert add_answer(client_of_its_own.ask(add(stray, 0))).status is Status.EOK
    Path(f"{metadata}-journal").unlink()
    shutil.copy(backup, metadata)
    with dlog.standalone(tmp_path, bookies=3) as cluster, dlog.connect(cluster.uri) as client:
        ids = append(client, b"anew 1", b"anew 2", b"anew 3")
        found = {message.id: message.payload for message in client.reader("orders", until="latest")}
    assert list(found.values()) == [b"in the backup", b"anew 1", b"anew 2", b"anew 3"]
    assert list(found)[1:] == ids


def test_all_data_is_in_the_directory_also_if_its_name_has_a_percent_sign(tmp_path: Path) -> None:
    """An address has escapes, a name has none: `a%20b` is not `a b`, which may be that of another cluster."""
    other = tmp_path / "a b"
    other.mkdir()
    with dlog.standalone(tmp_path / "a%20b", bookies=1) as cluster, dlog.connect(cluster.uri) as client:
        client.create("orders")
    assert (tmp_path / "a%20b" / "meta.db").is_file()
    assert list(other.iterdir()) == []


def test_a_bookie_that_dies_is_reported_and_restarted(tmp_path: Path) -> None:
    """kill -9 from outside: two sentences, a new process, the same address."""
    said: list[str] = []
    with dlog.standalone(tmp_path / "data", bookies=1, report=said.append) as cluster:
        (before,) = cluster.bookies
        assert before.process_id is not None
        os.kill(before.process_id, signal.SIGKILL)
        wait_until(lambda: len(said) == 2)
        (after,) = cluster.bookies
        assert after.process_id not in (None, before.process_id)
        assert after.bookie_id == before.bookie_id
    assert said == [
        f"bookie 1 ({before.bookie_id}) was ended by SIGKILL; restarting it",
        f"bookie 1 ({before.bookie_id}) is running again",
    ]


def test_a_bookie_is_restarted_although_the_report_of_its_death_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(event: str) -> None:
        raise OSError("nothing can be written")

    with dlog.standalone(tmp_path / "data", bookies=1, report=fail) as cluster:
        (before,) = cluster.bookies
        assert before.process_id is not None
        os.kill(before.process_id, signal.SIGKILL)
        wait_until(lambda: cluster.bookies[0].process_id not in (None, before.process_id))
    assert f"failed: bookie 1 ({before.bookie_id}) was ended by SIGKILL; restarting it" in caplog.text


def test_a_restart_that_the_system_refuses_is_reported_and_tried_again(tmp_path: Path) -> None:
    """A bookie whose log cannot be opened is no end of watching it: it is back once the reason has gone."""
    said: list[str] = []
    log = tmp_path / "data" / "log" / "bookie-1.log"
    with dlog.standalone(tmp_path / "data", bookies=1, report=said.append) as cluster:
        (before,) = cluster.bookies
        assert before.process_id is not None
        log.rename(log.with_suffix(".away"))
        log.mkdir()
        os.kill(before.process_id, signal.SIGKILL)
        wait_until(lambda: any("bookie 1 cannot be started: " in line for line in said))
        log.rmdir()
        wait_until(lambda: said[-1] == f"bookie 1 ({before.bookie_id}) is running again")


def test_a_killed_bookie_stays_dead_until_it_is_restarted(tmp_path: Path) -> None:
    """For failure tests: the log goes on without it, and it comes back at its address."""
    with dlog.standalone(tmp_path / "data", bookies=3) as cluster, dlog.connect(cluster.uri) as client:
        with client.open_writer("orders", create=True) as writer:
            writer.append(b"before")
            cluster.kill(0)
            assert cluster.bookies[0].process_id is None
            writer.append(b"while it is dead")
            cluster.restart(0)
            assert cluster.bookies[0].process_id is not None
            writer.append(b"after")
        found = [message.payload for message in client.reader("orders", until="latest")]
        assert found == [b"before", b"while it is dead", b"after"]
        with pytest.raises(ConfigurationError, match="already running"):
            cluster.restart(0)
        with pytest.raises(ConfigurationError, match="no bookie 7"):
            cluster.kill(7)


def test_a_paused_bookie_stays_silent_until_it_is_resumed(tmp_path: Path) -> None:
    with dlog.standalone(tmp_path / "data", bookies=1) as cluster:
        process_id = cluster.bookies[0].process_id
        cluster.pause(0)
        assert _state(process_id) == "T"
        cluster.resume(0)
        wait_until(lambda: _state(process_id) != "T")
        with pytest.raises(ConfigurationError):
            cluster.pause(1)


def _state(process_id: int | None) -> str:
    return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]


def test_one_cluster_a_directory(tmp_path: Path) -> None:
    """The second one is refused, names the process of the first, and leaves it alone."""
    with dlog.standalone(tmp_path / "data", bookies=1) as cluster:
        with (
            pytest.raises(StandaloneError, match=rf"is already running in .* \(process {os.getpid()}\)"),
            dlog.standalone(tmp_path / "data", bookies=1),
        ):
            pass
        assert cluster.bookies[0].process_id is not None
        assert repr(cluster) == f"<Standalone {tmp_path / 'data'}, bookies running: 1>"
        client = dlog.connect(cluster.uri)
        assert repr(client) == f"<Client {cluster.uri} namespace default>"
        client.close()
        assert repr(client) == f"<Client {cluster.uri} namespace default closed>"
    assert repr(cluster) == f"<Standalone {tmp_path / 'data'}, bookies running: 0>"
    with pytest.raises(ConfigurationError, match="not running"):
        cluster.kill(0)


def test_a_process_that_the_program_has_forked_does_not_keep_the_directory(tmp_path: Path) -> None:
    """A worker of multiprocessing, for example, which lives on when the cluster has stopped."""
    program = (
        "import dlog, multiprocessing, sys, time\n"
        "with dlog.standalone(sys.argv[1], bookies=1):\n"
        "    worker = multiprocessing.get_context('fork').Process(target=time.sleep, args=(600,), daemon=True)\n"
        "    worker.start()\n"
        "with dlog.standalone(sys.argv[1], bookies=1) as cluster:\n"
        "    print(worker.is_alive(), len(cluster.bookies))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
    )
    assert done.stdout == "True 1\n", done.stderr


def test_a_bookie_that_cannot_start_reports_why(tmp_path: Path) -> None:
    """The error carries the end of its log; the other bookies are stopped again; the directory is free."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "bookie-2").mkdir()
    (data / "bookie-2" / "journal").write_text("not a directory")
    with (
        pytest.raises(StandaloneError, match=r"bookie 2 ended with exit code .*bookie-2\.log"),
        dlog.standalone(data),
    ):
        pass
    (data / "bookie-2" / "journal").unlink()
    with dlog.standalone(data, bookies=1) as cluster:
        assert len(cluster.bookies) == 3


def test_bookies_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    """Also when it is killed with -9 and cannot say goodbye."""
    program = (
        "import dlog, sys\n"
        "with dlog.standalone(sys.argv[1], bookies=2) as cluster:\n"
        "    print(*(bookie.process_id for bookie in cluster.bookies), flush=True)\n"
        "    cluster.wait()\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "data")], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert parent.stdout is not None
        children = [int(word) for word in parent.stdout.readline().split()]
        assert len(children) == 2 and all(map(alive, children))
        parent.kill()
        parent.wait()
        # A new cluster there waits for the old bookies to drain, and does not start beside them.
        with dlog.standalone(tmp_path / "data", bookies=2) as cluster:
            assert not any(map(alive, children))
            assert len(cluster.bookies) == 2
    finally:
        parent.kill()
        parent.communicate()
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)


def test_ctrl_c_stops_the_cluster_cleanly(tmp_path: Path) -> None:
    """SIGINT to the whole terminal: the bookies do not see it, `wait` ends, everything is stopped in order."""
    program = (
        "import dlog, sys\n"
        "with dlog.standalone(sys.argv[1], bookies=2, report=print) as cluster:\n"
        "    try:\n"
        "        print(*(bookie.process_id for bookie in cluster.bookies), flush=True)\n"
        "        cluster.wait()\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted', flush=True)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "data")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    assert parent.stdout is not None
    children = [int(word) for word in parent.stdout.readline().split()]
    os.killpg(parent.pid, signal.SIGINT)
    said, _ = parent.communicate(timeout=60)
    assert (said, parent.returncode) == ("interrupted\n", 0)
    assert not any(map(alive, children))


def test_a_store_without_bookies_names_the_command(tmp_path: Path) -> None:
    """connect starts nothing; opening a writer says what to do, and so does an address with nothing behind it."""
    with dlog.standalone(tmp_path / "data", bookies=1) as cluster:
        uri = cluster.uri
    with (
        dlog.connect(uri) as client,
        pytest.raises(NotEnoughBookiesError, match="dlog standalone"),
    ):
        client.open_writer("orders", create=True)
    with pytest.raises(MetadataUnavailableError, match="dlog standalone"):
        dlog.connect(f"sqlite:///{tmp_path}/nothing/meta.db")


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    """Before anything is started."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StandaloneError, match="cannot use directory"), dlog.standalone(tmp_path / "file"):
        pass
    for name in ("log", "bookie-1"):
        taken = tmp_path / "taken" / name
        taken.parent.mkdir(exist_ok=True)
        taken.write_text("")
        with (
            pytest.raises(StandaloneError, match=rf"cannot start .*/{name}: File exists; correct that"),
            dlog.standalone(taken.parent, bookies=1),
        ):
            pass
        taken.unlink()
    with pytest.raises(ConfigurationError, match="directory must not be empty"):
        dlog.standalone("")
    with pytest.raises(ConfigurationError, match="1 to 64, got 0"):
        dlog.standalone(tmp_path, bookies=0)
    with pytest.raises(ConfigurationError, match="without"):
        dlog.standalone(tmp_path / "what?")
    for name in ("a\0b", "a\ud800b"):
        with pytest.raises(ConfigurationError, match="cannot be used"):
            dlog.standalone(name)
    with pytest.raises(ConfigurationError, match="restart must be True or False, got 'no'"):
        dlog.standalone(tmp_path, restart="no")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="report must be a function or None, got 1"):
        dlog.standalone(tmp_path, report=1)  # type: ignore[arg-type]


async def test_the_same_in_asyncio(tmp_path: Path) -> None:
    """`dlog.aio.standalone` on the caller's own loop."""
    async with dlog.aio.standalone(tmp_path / "data", bookies=1) as cluster:
        config = dlog.LogConfig(quorum=dlog.QuorumSizes(ensemble=1, write=1, ack=1))
        async with dlog.aio.connect(cluster.uri, config=config) as client:
            async with client.open_writer("orders", create=True) as writer:
                message_id = await writer.append(b"payload")
            async with client.reader("orders", until="latest") as reader:
                assert [message.id async for message in reader] == [message_id]


async def test_a_bookie_that_is_restarted_twice_at_a_time_runs_once(tmp_path: Path) -> None:
    async with dlog.aio.standalone(tmp_path / "data", bookies=1) as cluster:
        await cluster.kill(0)
        first, second = await asyncio.gather(cluster.restart(0), cluster.restart(0), return_exceptions=True)
        assert first is None
        assert isinstance(second, ConfigurationError) and "already running" in str(second)
        assert processes_with(tmp_path) == [cluster.bookies[0].process_id]
    assert processes_with(tmp_path) == []


async def test_a_bookie_that_is_being_restarted_stops_with_its_cluster(tmp_path: Path) -> None:
    async with dlog.aio.standalone(tmp_path / "data", bookies=1) as cluster:
        await cluster.kill(0)
        restarted, _ = await asyncio.gather(cluster.restart(0), cluster.stop(), return_exceptions=True)
        assert isinstance(restarted, StandaloneError)
        assert processes_with(tmp_path) == []


def test_a_bookie_that_keeps_dying_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Restarting for ever would bury the reason: `wait` raises it."""
    monkeypatch.setattr(supervisor, "_QUICK_DEATHS_MAX", 1)
    said: list[str] = []

    def kill_again(event: str) -> None:
        said.append(event)
        if event.endswith("is running again"):
            os.kill(cluster.bookies[0].process_id or 0, signal.SIGKILL)

    with dlog.standalone(tmp_path / "data", bookies=1, report=kill_again) as cluster:
        os.kill(cluster.bookies[0].process_id or 0, signal.SIGKILL)
        with pytest.raises(
            StandaloneError, match=r"ended by SIGKILL, 2 times in a row, and is not restarted any more: .*log"
        ):
            cluster.wait()
        assert cluster.bookies[0].process_id is None
    assert [event.split(") ")[1][:12] for event in said] == ["was ended by", "is running a", "was ended by"]
