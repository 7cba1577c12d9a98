"""SIGTERM: what was accepted is answered, the bookie leaves the list, and the next start finds everything."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, add_answer, entry, read, read_answer
from tests.helpers.bookie.raw_client import ConnectionClosed, RawClient
from tests.helpers.processes.bookie import PATIENCE_S, BookieProcess, eventually, listed_bookies
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.integration


def test_a_running_bookie_is_listed_and_a_stopped_one_is_not(bookie: BookieProcess) -> None:
    address = f"127.0.0.1:{bookie.port}"
    assert listed_bookies(bookie.metadata) == [
        {"bookie": address, "address": address, "state": "writable", "in_limbo": False}
    ]
    assert bookie.terminate() == 0
    assert listed_bookies(bookie.metadata) == []


def test_a_killed_bookie_disappears_from_the_list(bookie: BookieProcess) -> None:
    bookie.kill()
    eventually(lambda: listed_bookies(bookie.metadata) == [])


def test_adds_on_their_way_are_answered_or_cut_off_but_never_lost(bookie: BookieProcess) -> None:
    """SIGTERM among adds: each answered one is there afterwards."""
    acknowledged = []
    with RawClient(bookie.port) as client:
        client.send(b"".join(add(1, each) for each in range(3000)))
        acknowledged.append(add_answer(client.frame()).entry_id)
        assert bookie.terminate() == 0
        try:
            while True:
                answer = add_answer(client.frame())
                if answer.status is Status.EOK:
                    acknowledged.append(answer.entry_id)
        except ConnectionClosed:
            pass
    bookie.start()
    with RawClient(bookie.port) as client:
        for entry_id in acknowledged:
            assert read_answer(client.ask(read(1, entry_id))).entry == entry(1, entry_id)


def test_sigint_stops_as_sigterm_does(bookie: BookieProcess) -> None:
    import os
    import signal

    os.kill(bookie.pid, signal.SIGINT)
    code, errors = bookie.wait()
    assert (code, errors) == (0, "")


@pytest.mark.parametrize("verb", ["start", "autorecovery"])
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.nightly)])
def test_a_start_that_waits_for_its_metadata_store_can_be_stopped(
    tmp_path: Path, number: signal.Signals, verb: str
) -> None:
    """A ZooKeeper that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"zk://127.0.0.1:{silent.getsockname()[1]}/ledgers"
        starting = subprocess.Popen(
            [
                *(sys.executable, "-m", "bookie_server", verb, "--metadata", address),
                *(("--port", "0", "--data", str(tmp_path / "bookie")) if verb == "start" else ()),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        silent.settimeout(PATIENCE_S)
        connection, _ = silent.accept()
        with connection:
            starting.send_signal(number)
            output, errors = starting.communicate(timeout=PATIENCE_S)
    assert (starting.returncode, output, errors) == (0, "", "")
