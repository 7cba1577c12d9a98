"""`dlog standalone` under kills and signals at any time: it leaves no process, no traceback, and loses nothing."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random

import pytest

import dlog
from ledger.errors import LogStoreError
from tests.helpers.processes.bookie import eventually
from tests.helpers.processes.command import Command

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@contextmanager
def started(data: Path) -> Iterator[subprocess.Popen[bytes]]:
    """It has begun: before, a signal meets Python itself. Whatever is left of it is killed at the end."""
    program = "from dlog.cli.entry import main; print('begun', flush=True); main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "standalone", "--bookies", "2", "--data", str(data)],
        env=Command().environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        yield process
    finally:
        process.kill()
        process.communicate()
        end_all(data)


def processes_of(data: Path) -> list[int]:
    """Those that have the directory in their command line."""
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                line = (each / "cmdline").read_bytes()
                state = (each / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue  # it has ended
            if str(data).encode() in line and state != "Z":
                found.append(int(each.name))
    return found


def bookies_of(data: Path) -> list[int]:
    return [pid for pid in processes_of(data) if b"bookie_server" in command_line(pid)]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def end_all(data: Path) -> None:
    for pid in processes_of(data):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda it: it.name)
def test_a_signal_while_it_starts_leaves_no_process(number: signal.Signals, tmp_path: Path) -> None:
    random, data = Random(number), tmp_path / "data"
    for pause_s in (0.15, 0.4, 0.7, 1.0, random.uniform(0.3, 1.5)):
        with started(data) as process:
            time.sleep(pause_s)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        assert b"Traceback" not in err, err.decode()
        assert process.returncode in (0, 128 + number, -signal.SIGTERM), (pause_s, err.decode())
        eventually(lambda: not processes_of(data))


def test_what_is_acknowledged_outlives_kills_of_everything(tmp_path: Path) -> None:
    """Bookies are killed and restarted, then the supervisor is killed: its bookies end, and the next one goes on."""
    random, data = Random(1), tmp_path / "data"
    uri = f"sqlite:///{data / 'meta.db'}"
    config = dlog.LogConfig(quorum=dlog.QuorumSizes(ensemble=2, write=2, ack=1))
    acked: list[bytes] = []
    for turn in range(2):
        with started(data) as process:
            # A bookie that dies before the others run ends the start of the whole cluster.
            assert process.stdout is not None and process.stdout.readline()
            with dlog.connect(uri, config=config) as client:
                for number in range(3):
                    # A takeover needs both bookies, and the supervisor pauses before it starts one again.
                    eventually(partial(_append, client, b"%d:%d" % (turn, number), acked), within_s=60)
                    os.kill(random.choice(bookies_of(data)), signal.SIGKILL)
                    time.sleep(random.uniform(0.0, 0.5))
            process.kill()
            process.communicate(timeout=60)
        eventually(lambda: not processes_of(data))
    with started(data) as process:
        assert process.stdout is not None and process.stdout.readline()  # it runs
        with dlog.connect(uri) as client:
            eventually(lambda: set(acked) <= set(_payloads(client)))
            found = _payloads(client)
            assert [found.index(each) for each in acked] == sorted(map(found.index, acked))
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err.decode()
    assert b"Traceback" not in err, err.decode()
    assert processes_of(data) == []
    assert len(acked) == 6


def test_a_port_that_is_taken_is_a_sentence(tmp_path: Path) -> None:
    """A bookie keeps its port: while another process has it, the start fails and names it."""
    data = tmp_path / "data"
    with dlog.standalone(data, bookies=2) as cluster:
        port = int(cluster.bookies[0].bookie_id.rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)), started(data) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err.decode()
    assert b"Traceback" not in err and str(port).encode() in err, err.decode()
    assert processes_of(data) == []


def _append(client: dlog.Client, payload: bytes, acked: list[bytes]) -> bool:
    try:
        with client.open_writer("orders", create=True) as writer:
            writer.append(payload)
    except LogStoreError:  # too many bookies are down
        time.sleep(0.1)  # their start needs the processor
        return False
    acked.append(payload)
    return True


def _payloads(client: dlog.Client) -> list[bytes]:
    try:
        return [message.payload or b"" for message in client.reader("orders", until="latest")]
    except LogStoreError:
        return []
