"""SIGTERM: what was accepted is answered, the bookie leaves the list, and the next start finds everything."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.metadata.drivers import open_store
from ledger.model import BookieId, BookieInfo
from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, add_answer, entry, read, read_answer
from tests.helpers.bookie.raw_client import ConnectionClosed, RawClient
from tests.helpers.processes.bookie import PATIENCE_S, BookieProcess, eventually, listed_bookies
from tests.helpers.processes.strace import needs_strace, strace
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
    os.kill(bookie.pid, signal.SIGINT)
    code, errors = bookie.wait()
    assert (code, errors) == (0, "")


@needs_strace
def test_a_start_that_is_stopped_on_a_failing_disk_ends_with_the_reason(bookie: BookieProcess) -> None:
    """Its storage is open, and it waits for its address, when it is asked to stop and cannot close its index."""
    assert bookie.terminate() == 0
    index = bookie.data / "ledgers" / "index"

    def has_opened_its_storage() -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", bookie.port)) == 0

    async def stopped_while_another_has_its_address() -> tuple[int | None, str]:
        store = await open_store(bookie.metadata)
        try:
            await store.register_bookie(
                BookieInfo(bookie_id=BookieId("other"), host="127.0.0.1", port=bookie.port)
            )
            return await asyncio.to_thread(stopped)
        finally:
            await store.close()

    def stopped() -> tuple[int | None, str]:
        command = [sys.executable, "-m", "bookie_server", "start", "--port", "0"]
        command += ["--metadata", bookie.metadata, "--data", str(bookie.data)]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as starting:
            try:
                eventually(has_opened_its_storage)
                with strace(starting.pid, "fdatasync:error=EIO"):
                    starting.terminate()
                    _, errors = starting.communicate(timeout=PATIENCE_S)
            finally:
                starting.kill()
        return starting.returncode, errors

    code, errors = asyncio.run(stopped_while_another_has_its_address())
    assert code == 1
    assert errors.startswith(f"bookie: cannot write index {index}: ")
    assert "Input/output error" in errors and errors.count("\n") == 1


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
