"""Health, metrics and state of real bookies, over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ledger.wire.status import Status
from tests.helpers.bookie.damaged_journal import damage_the_middle_of_the_journal, killed_after_ten_adds
from tests.helpers.bookie.entries import add, add_answer, batch_read, entry, read, read_answer
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import PATIENCE_S, BookieProcess, eventually, run_bookie
from tests.helpers.processes.ports import free_ports
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.integration

FULL: dict[str, object] = {"disk_usage_max": 1e-7, "disk_usage_writable": 5e-8}
MIB = 1024 * 1024


@pytest.fixture
def port() -> int:
    """For the pages."""
    return free_ports(1)[0]


@pytest.fixture
def watched(metadata: str, tmp_path: Path, port: int) -> Iterator[BookieProcess]:
    """A running bookie with pages."""
    process = BookieProcess(metadata, tmp_path / "bookie")
    process.options = ["--http-port", str(port)]
    process.start()
    yield process
    process.stop()
    assert "Traceback" not in process.errors
    assert "Exception" not in process.errors


def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    """Status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        assert response.getheader("Connection") == "close"
        return response.status, response.read().decode()
    finally:
        connection.close()


def health(port: int) -> tuple[int, str]:
    """Status, and the bookie's state."""
    status, body = get(port, "/health")
    return status, json.loads(body)["state"]


def metrics(port: int) -> dict[str, float]:
    """The samples without labels, and those of the ledger directory."""
    status, body = get(port, "/metrics")
    assert status == 200
    samples = [each for family in text_string_to_metric_families(body) for each in family.samples]
    assert all(each.name.startswith("dlog_bookie_") for each in samples)
    return {
        each.name.removeprefix("dlog_bookie_"): each.value
        for each in samples
        if not each.labels or each.labels.get("directory", "").endswith("ledgers")
    }


def test_a_bookie_reports_what_it_does(watched: BookieProcess, port: int) -> None:
    assert health(port) == (200, "writable")
    before = metrics(port)
    assert (before["healthy"], before["writable"], before["in_limbo"]) == (1, 1, 0)
    assert before["added_entries_total"] == before["read_requests_total"] == 0
    with RawClient(watched.port) as client:
        client.send(b"".join(add(1, each) for each in range(10)))
        for _ in range(10):
            assert add_answer(client.frame()).status is Status.EOK
        assert add_answer(client.ask(add(1, 4))).status is Status.EOK, "a repeated one does not count"
        assert add_answer(client.ask(add(2, 0, b"x" * 100_000))).status is Status.EOK, "written once"
        assert read_answer(client.ask(read(1, 3))).entry == entry(1, 3)
        client.ask(batch_read(1, 0))
        after = metrics(port)
    assert after["added_entries_total"] == 11
    assert after["read_requests_total"] == 2
    assert after["connections"] == 1
    assert after["response_bytes_total"] > len(entry(1, 3)) * 11
    assert after["journal_appended_bytes_total"] > 100_000
    assert after["journal_groups_total"] >= 3 and after["journal_queued_bytes"] == 0
    assert after["cached_bytes"] > 0
    assert 0 < after["directory_free_bytes"] < after["directory_size_bytes"]
    assert after["directory_failed"] == 0
    assert after["uptime_seconds"] > before["uptime_seconds"]


def test_the_bookie_still_counts_what_a_closed_connection_was_sent(watched: BookieProcess, port: int) -> None:
    with RawClient(watched.port) as client:
        assert add_answer(client.ask(add(1, 0))).status is Status.EOK
        sent = metrics(port)["response_bytes_total"]
    eventually(lambda: metrics(port)["connections"] == 0)
    assert metrics(port)["response_bytes_total"] == sent > 0


def test_checkpoints_collections_compactions_and_scrubs_are_counted(
    metadata: str, tmp_path: Path, port: int
) -> None:
    storage = {"checkpoint_interval_s": 0.1}
    bookie = BookieProcess(metadata, tmp_path / "bookie", storage=storage, gc_interval_s=0.1, gc_grace_s=0.1)
    bookie.options = ["--http-port", str(port)]
    bookie.start()
    try:
        with RawClient(bookie.port) as client:
            assert add_answer(client.ask(add(1, 0))).status is Status.EOK
        # No metadata names the ledger.
        eventually(lambda: metrics(port)["deleted_ledgers_total"] == 1)
        found = metrics(port)
        assert found["checkpoints_total"] >= 1 and found["garbage_collections_total"] >= 1
        assert found["garbage_collection_failures_total"] == 0
        assert found["entry_logs"] >= 0
        data = str(tmp_path / "bookie")
        assert run_bookie("scrub", "--data", data).returncode == 0
        assert metrics(port)["scrub_passes_total"] == 1
        state = json.loads(get(port, "/state")[1])
        assert state["scrub"]["last"]["damaged_blocks"] == 0 and state["scrub"]["current"] is None
    finally:
        bookie.stop()


def test_the_state_has_what_bookie_info_prints(watched: BookieProcess, port: int) -> None:
    done = run_bookie("info", "--data", str(watched.data), "-o", "json")
    info: dict[str, Any] = json.loads(done.stdout)
    status, body = get(port, "/state")
    state = json.loads(body)
    assert status == 200 and set(info) <= set(state)
    assert {name: state[name] for name in info if name != "free_bytes"} == {
        name: value for name, value in info.items() if name != "free_bytes"
    }
    assert re.fullmatch(r"\d+\.\d+.*|unknown", state["version"])


def test_a_repair_worker_in_the_process_has_its_metrics(metadata: str, tmp_path: Path, port: int) -> None:
    bookie = BookieProcess(metadata, tmp_path / "bookie")
    bookie.options = ["--http-port", str(port), "--autorecovery"]
    bookie.start()
    try:
        assert metrics(port)["repaired_ledgers_total"] == 0
        assert json.loads(get(port, "/state")[1])["repair"]["ledgers"] == []
    finally:
        bookie.stop()


def test_a_read_only_bookie_is_healthy_and_visible(watched: BookieProcess, port: int) -> None:
    assert watched.terminate() == 0
    watched.settings = {"storage": FULL}
    watched.start()
    assert health(port) == (200, "read-only")
    found = metrics(port)
    assert (found["healthy"], found["writable"], found["in_limbo"]) == (1, 0, 0)


def test_a_bookie_in_limbo_is_healthy_and_visible(watched: BookieProcess, port: int) -> None:
    killed_after_ten_adds(watched)
    damage_the_middle_of_the_journal(watched)
    watched.settings = {"storage": {"limbo_on_damage": True}}
    watched.start()
    assert health(port) == (200, "in limbo")
    found = metrics(port)
    assert (found["healthy"], found["writable"], found["in_limbo"]) == (1, 0, 1)
    assert json.loads(get(port, "/state")[1])["in_limbo"] is True


def test_a_bookie_that_stops_is_not_healthy(watched: BookieProcess, port: int) -> None:
    """A peer that takes none of its responses holds up the stop for some seconds."""
    with RawClient(watched.port) as client:
        for each in range(8):
            assert add_answer(client.ask(add(1, each, bytes(MIB)))).status is Status.EOK
        client.send(b"".join(read(1, each) for each in range(8)) * 2)
        os.kill(watched.pid, signal.SIGTERM)
        eventually(lambda: health(port) == (503, "stopping"))
        assert metrics(port)["healthy"] == 0
    assert watched.wait()[0] == 0
    with pytest.raises(ConnectionError):
        get(port, "/health")


def test_a_bookie_that_starts_is_not_healthy(tmp_path: Path, metadata: str, port: int) -> None:
    """Another one has its id: it waits for that one's session to end."""
    first = BookieProcess(metadata, tmp_path / "first", bookie_id="b1")
    first.start()
    command = ["start", "--metadata", metadata, "--data", str(tmp_path / "second"), "--bookie-id", "b2"]
    command += ["--port", str(first.port), "--host", "127.0.0.2", "--advertised", "127.0.0.1"]
    second = subprocess.Popen(
        [sys.executable, "-m", "bookie_server", *command, "--http-port", str(port)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        eventually(lambda: is_open(port))
        assert health(port) == (503, "starting")
        assert metrics(port)["healthy"] == 0
        second.terminate()
        _, errors = second.communicate(timeout=PATIENCE_S)
        assert second.returncode == 0 and "Traceback" not in errors
    finally:
        second.kill()
        second.wait()
        first.stop()


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_other_requests_get_a_short_status(watched: BookieProcess, port: int) -> None:
    assert get(port, "/nothing") == (404, "404 Not Found\n")
    assert get(port, "/health", "POST") == (405, "405 Method Not Allowed\n")
    assert get(port, "/health?a=b")[0] == 200
    assert get(port, "/health", "HEAD") == (200, "")
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as peer:
        peer.sendall(add(1, 0))
        assert peer.recv(4096).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    with RawClient(watched.port) as client:
        assert add_answer(client.ask(add(1, 0))).status is Status.EOK


def test_without_the_option_nothing_listens(bookie: BookieProcess) -> None:
    links = [str(each.readlink()) for each in Path(f"/proc/{bookie.pid}/fd").iterdir()]
    inodes = {each.removeprefix("socket:[").removesuffix("]") for each in links if each.startswith("socket:")}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and row[9] in inodes]
    assert listening == [bookie.port]


def test_port_0_is_a_free_one_that_the_log_names(metadata: str, tmp_path: Path) -> None:
    command = ["start", "--metadata", metadata, "--data", str(tmp_path / "bookie"), "--port", "0"]
    with subprocess.Popen(
        [sys.executable, "-m", "bookie_server", *command, "--http-port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None and process.stderr is not None
            assert "is ready" in process.stdout.readline()
            found = re.search(r" INFO .*http://127\.0\.0\.1:(\d+)/health", process.stderr.readline())
            assert found is not None
            assert health(int(found[1])) == (200, "writable")
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


def test_a_port_that_is_taken_is_one_sentence_and_nothing_of_the_bookie_is_made(
    metadata: str, tmp_path: Path, port: int
) -> None:
    command = ["start", "--metadata", metadata, "--data", str(tmp_path / "bookie"), "--port", "0"]
    with socket.create_server(("127.0.0.1", port)):
        done = run_bookie(*command, "--http-port", str(port))
    assert done.returncode == 1
    assert re.fullmatch(
        rf"bookie: cannot listen on 127\.0\.0\.1:{port} \(.*\): stop the process that uses the port, or give "
        r"another --http-port\n",
        done.stderr,
    )
    assert not (tmp_path / "bookie").exists()
