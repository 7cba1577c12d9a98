"""What is sent in one turn of the loop leaves in one write, in the order in which it was sent."""

from __future__ import annotations

import asyncio

import pytest

from ledger.transport.connection import _JOIN_BYTES_MAX
from ledger.transport.v2_connection import V2Connection
from tests.helpers.wire.silent_transport import BOOKIE, RecordingTransport

QUEUE_BYTES_MAX = 4 * _JOIN_BYTES_MAX


def connect() -> tuple[V2Connection, RecordingTransport]:
    connection, wire = V2Connection(BOOKIE, QUEUE_BYTES_MAX, 1000), RecordingTransport()
    connection.connection_made(wire)  # type: ignore[arg-type]  # as much of a transport as it needs
    return connection, wire


async def test_frames_of_many_ledgers_leave_in_one_write() -> None:
    connection, wire = connect()
    frames = [b"%d" % number for number in range(100)]
    for frame in frames:
        connection.send(frame, 5.0)
    assert wire.sent == [], "they leave at the end of the turn"
    await asyncio.sleep(0)
    assert wire.sent == [b"".join(frames)]
    connection.send(b"next", 5.0)
    await asyncio.sleep(0)
    assert wire.sent[1:] == [b"next"]


async def test_large_frames_are_not_copied() -> None:
    connection, wire = connect()
    frames = [bytes(_JOIN_BYTES_MAX // 2), b"small", bytes(_JOIN_BYTES_MAX // 2)]
    for frame in frames:
        connection.send(frame, 5.0)
    await asyncio.sleep(0)
    assert wire.sent == frames


async def test_a_connection_that_ended_in_the_same_turn_writes_nothing() -> None:
    connection, wire = connect()
    connection.send(b"frame", 5.0)
    connection.give_up("the bookie is gone")
    await asyncio.sleep(0)
    assert wire.sent == [] and connection.lost is not None


async def test_what_is_not_written_yet_counts_as_unsent() -> None:
    """A caller that sends without end in one turn fills no memory."""
    connection, wire = connect()
    for _ in range(6):
        connection.send(bytes(_JOIN_BYTES_MAX), 5.0)
    assert connection.lost is not None and "overloaded" in str(connection.lost)
    await asyncio.sleep(0)
    assert wire.sent == []


@pytest.mark.parametrize("timeouts", [(0.01, 60.0), (60.0, 0.01)])
async def test_the_shortest_timeout_of_a_turn_counts(timeouts: tuple[float, float]) -> None:
    connection, _ = connect()
    for timeout_s in timeouts:
        connection.send(b"frame", timeout_s)
    await asyncio.sleep(0.1)
    assert connection.lost is not None and "0.01 s" in str(connection.lost)
