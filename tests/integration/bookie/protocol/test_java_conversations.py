"""What the Java client asked Apache's bookies, asked of ours: the same answers, byte for byte, or the reason why not.

Recorded from Apache BookKeeper 4.18.0 (tests/vectors/README.md). The conversations build on one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ledger.wire.digest import master_key
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess
from tests.helpers.wire.recorded_conversations import (
    Step,
    held_before,
    java_conversations,
    put_entry,
    put_packet,
    without_time,
)

pytestmark = pytest.mark.integration

KEY = master_key(b"")
"""All of these ledgers had an empty password."""

RECORDED_FIRST = ("java_v3_open_without_recovery_empty", "java_v2_open_without_recovery_empty")
"""They stand behind the recovery of the same ledger in the file, but their bookies had not heard of it yet."""


@pytest.fixture
def bookies(metadata: str, tmp_path: Path) -> Iterator[dict[str, BookieProcess]]:
    """One of ours for each that was recorded."""
    recorded = {step.bookie for steps in java_conversations().values() for step in steps}
    with ExitStack() as stack:
        found = {}
        for number, name in enumerate(sorted(recorded)):
            found[name] = BookieProcess(metadata, tmp_path / f"bookie-{number}")
            stack.callback(found[name].stop)
            found[name].start()
        yield found


def replay(name: str, steps: list[Step], bookies: dict[str, BookieProcess]) -> Iterator[str]:
    """The answers that differ, in words. Whatever is sent and answered keeps its place in time."""
    with ExitStack() as stack:
        clients: dict[int, RawClient] = {}
        early: dict[int, dict[tuple[object, ...], bytes]] = {}
        for number, step in enumerate(steps):
            if step.connection not in clients:
                clients[step.connection] = stack.enter_context(RawClient(bookies[step.bookie].port))
                early[step.connection] = {}
            client, waiting = clients[step.connection], early[step.connection]
            if step.is_request:
                client.send(step.frame)
                continue
            while step.key not in waiting:
                frame = client.frame()
                waiting[Step(step.bookie, step.connection, False, frame).key] = frame
            got = waiting.pop(step.key)
            if without_time(got) != without_time(step.frame):
                yield f"{name} step {number}: got {got.hex()}, Apache sent {step.frame.hex()}"


def test_the_java_client_hears_from_our_bookies_what_it_heard_from_apaches(
    bookies: dict[str, BookieProcess],
) -> None:
    added: set[tuple[str, int, int]] = set()
    recorded = java_conversations()
    differences: list[str] = []
    for name in sorted(recorded, key=lambda name: name not in RECORDED_FIRST):
        for bookie, (entries, packets) in held_before(recorded[name], added).items():
            with RawClient(bookies[bookie].port) as client:
                # Packets first: their version 3 cannot follow version 2 on one connection.
                for frame in [
                    *(put_packet(each, KEY) for each in packets),
                    *(put_entry(each, KEY) for each in entries),
                ]:
                    client.ask(frame)
        differences += replay(name, recorded[name], bookies)
    assert differences == []
