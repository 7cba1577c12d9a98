"""Our bookie answers what Apache's bookie answered, byte for byte, or says here why it does not.

The conversations were captured from Apache BookKeeper 4.18.0 (tests/vectors/README.md). They build on one
another, so one bookie plays them all in order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.bookie.entries import add, fence
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess
from tests.helpers.wire.golden_frames import load
from tests.helpers.wire.recorded_conversations import without_time

pytestmark = pytest.mark.integration

LONG_POLL_LEDGER = 74010

EVENTS: dict[str, bytes] = {
    "on another connection: add of entry 3 (header LAC 2), which does not pass previousLAC": add(
        LONG_POLL_LEDGER, 3
    ),
    "on another connection: add of entry 4 (header LAC 3)": add(LONG_POLL_LEDGER, 4),
    "on another connection: the ledger is fenced, which wakes the waiter": fence(LONG_POLL_LEDGER),
}


PREPARED = [add(74011, 0), add(74011, 1)]
"""Entries that were there before the first captured frame."""


def hand_made() -> list[dict[str, Any]]:
    return [each for each in load("conversations.json") if each["name"].startswith(("v2_", "v3_", "mixed_"))]


def play(
    steps: list[dict[str, Any]], bookie: BookieProcess, told: Callable[[int, bytes, bytes], None]
) -> None:
    """Send what the client sent and compare each answer; pipelined requests stay pipelined."""
    with RawClient(bookie.port) as client, RawClient(bookie.port) as other:
        for number, step in enumerate(steps):
            if "event" in step:
                if step["event"] == "bookie closes the connection":
                    client.expect_close()
                else:
                    other.ask(EVENTS[step["event"]])
            elif step["direction"] == "client->bookie":
                client.send(bytes.fromhex(step["frame_hex"]))
            else:
                told(number, without_time(client.frame()), without_time(bytes.fromhex(step["frame_hex"])))


def test_every_hand_made_conversation_goes_as_with_apache(bookie: BookieProcess) -> None:
    """What is not equal is listed, so that a difference can be judged and not just seen."""
    with RawClient(bookie.port) as client:
        for frame in PREPARED:
            client.ask(frame)
    differences: list[str] = []
    for conversation in hand_made():

        def told(number: int, got: bytes, expected: bytes, name: str = conversation["name"]) -> None:
            if got != expected:
                differences.append(f"{name} step {number}: got {got.hex()}, Apache sent {expected.hex()}")

        play(conversation["steps"], bookie, told)
    assert differences == []
