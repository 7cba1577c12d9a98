"""Answers of a bookie in a special state, compared with Apache's in the same state, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.wire.status import Status
from tests.helpers.bookie.entries import add, read, read_answer
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess, eventually
from tests.helpers.wire.golden_frames import load, wire_frames

pytestmark = pytest.mark.integration


@pytest.fixture
def collecting(metadata: str, tmp_path: Path) -> Iterator[BookieProcess]:
    """A bookie that collects garbage all the time."""
    process = BookieProcess(metadata, tmp_path / "bookie", gc_interval_s=0.1, gc_grace_s=0.2)
    process.start()
    yield process
    process.stop()


@pytest.fixture
def full(metadata: str, tmp_path: Path) -> Iterator[BookieProcess]:
    """A bookie whose disk counts as full."""
    limits = {"disk_usage_max": 1e-7, "disk_usage_writable": 5e-8}
    process = BookieProcess(metadata, tmp_path / "bookie", storage=limits)
    process.start()
    yield process
    process.stop()


def differing(bookie: BookieProcess, protocol: str, prefix: str) -> list[str]:
    """Play the captured requests of these names in order; the names with another answer than Apache's."""
    frames = {each.name: each for each in wire_frames(protocol)}
    names = [each["name"] for each in load(f"wire-{protocol}.json") if each["name"].startswith(prefix)]
    found = []
    with RawClient(bookie.port) as client:
        for name in names:
            if name.endswith("/request"):
                case = name.removesuffix("/request")
                got, expected = client.ask(frames[name].frame), frames[f"{case}/response"].frame
                if got != expected:
                    print(f"{protocol}/{case}: got {got.hex()}, Apache sent {expected.hex()}")
                    found.append(f"{protocol}/{case}")
    return found


def test_a_collected_ledger_is_remembered_as_deleted(collecting: BookieProcess) -> None:
    """Not in the metadata, so garbage collection takes it; then neither writer nor reader revives it."""
    with RawClient(collecting.port) as client:
        client.ask(add(71103, 1, lac=0))
        eventually(lambda: read_answer(client.ask(read(71103, 1))).status is Status.ENOLEDGER)
    assert differing(collecting, "v2", "deleted_ledger_") == []
    assert differing(collecting, "v3", "deleted_ledger_") == []
    collecting.restart()
    assert differing(collecting, "v2", "deleted_ledger_") == []


def test_a_read_only_bookie_answers_as_apaches(full: BookieProcess) -> None:
    assert differing(full, "v2", "read_only_") == []
    assert differing(full, "v3", "read_only_") == []
