"""Conversations of Apache's Java client with Apache's bookies, made ready to be replayed.

A recording begins in the middle of things: ledgers were written before. What a bookie must have held by then
follows from its answers, so it is put there first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ledger.wire import v2, v3
from ledger.wire.entry import ENTRY_IDS
from ledger.wire.messages import (
    AddRequest,
    AddResponse,
    Operation,
    ReadLacResponse,
    ReadRequest,
    ReadResponse,
    V3AddRequest,
    V3ReadResponse,
    V3Request,
    V3Response,
    WriteLacRequest,
)
from tests.helpers.wire.golden_frames import load


@dataclass(frozen=True)
class Step:
    """One frame, on one TCP connection to one bookie."""

    bookie: str
    connection: int
    is_request: bool
    frame: bytes

    @property
    def key(self) -> tuple[object, ...]:
        """What matches an answer with its request."""
        body = memoryview(self.frame)[4:]
        if v3.looks_like_v3(body):
            envelope = v3.decode_request(body) if self.is_request else v3.decode_response(body)
            return envelope.operation, envelope.txn_id
        packet: Any = v2.decode_request(body) if self.is_request else v2.decode_response(body)
        is_add = isinstance(packet, AddRequest | AddResponse)
        assert is_add or isinstance(packet, ReadRequest | ReadResponse), packet
        return is_add, packet.ledger_id, packet.entry_id


def java_conversations() -> dict[str, list[Step]]:
    """The frames of each, in the order in which they were seen."""
    return {
        conversation["name"]: list(_steps(conversation["steps"]))
        for conversation in load("conversations.json")
        if conversation["name"].startswith("java_")
    }


def _steps(steps: list[dict[str, Any]]) -> Iterator[Step]:
    for step in steps:
        if "frame_hex" in step:
            is_request = step["direction"] == "client->bookie"
            yield Step(step["bookie"], step["connection"], is_request, bytes.fromhex(step["frame_hex"]))


def entry_added(step: Step) -> bytes | None:
    """The entry that a request adds."""
    body = memoryview(step.frame)[4:]
    if v3.looks_like_v3(body):
        message = v3.decode_request(body).body
        return message.entry if isinstance(message, V3AddRequest) else None
    packet = v2.decode_request(body)
    return bytes(packet.entry) if isinstance(packet, AddRequest) else None


def held_before(
    steps: list[Step], added: set[tuple[str, int, int]]
) -> dict[str, tuple[list[bytes], list[bytes]]]:
    """For each bookie the entries and LAC packets that its answers show and that nobody in `added` has put there.

    `added` gets what the steps themselves add.
    """
    found: dict[str, tuple[list[bytes], list[bytes]]] = {}
    for step in steps:
        entries, packets = found.setdefault(step.bookie, ([], []))
        if step.is_request:
            entry = entry_added(step)
            if entry is not None:
                added.add((step.bookie, *_ids(entry)))
            continue
        for entry in _entries_in(step):
            if (step.bookie, *_ids(entry)) not in added:
                added.add((step.bookie, *_ids(entry)))
                entries.append(entry)
        packet = _packet_in(step)
        if packet is not None and packet not in packets:
            packets.append(packet)
    for entries, _ in found.values():
        entries.sort(key=_ids)
    return found


def _ids(entry: bytes) -> tuple[int, int]:
    ledger_id, entry_id, _ = ENTRY_IDS.unpack_from(entry)
    return ledger_id, entry_id


def _response(step: Step) -> V3Response | Any:
    body = memoryview(step.frame)[4:]
    return v3.decode_response(body) if v3.looks_like_v3(body) else v2.decode_response(body)


def _entries_in(step: Step) -> list[bytes]:
    response = _response(step)
    message = response.body if isinstance(response, V3Response) else response
    match message:
        case V3ReadResponse(entry=entry) | ReadResponse(entry=entry) if entry is not None:
            return [bytes(entry)]
        case ReadLacResponse(last_entry=entry) if entry is not None:
            return [bytes(entry)]
    return []


def _packet_in(step: Step) -> bytes | None:
    response = _response(step)
    message = response.body if isinstance(response, V3Response) else None
    return message.lac_packet if isinstance(message, ReadLacResponse) else None


def put_entry(entry: bytes, key: bytes) -> bytes:
    """The frame that stores an entry as it is."""
    return v2.encode_request(AddRequest(master_key=key, entry=entry))


def put_packet(packet: bytes, key: bytes) -> bytes:
    """The frame that stores an explicit LAC as it is."""
    ledger_id, lac = int.from_bytes(packet[:8], "big"), int.from_bytes(packet[8:16], "big", signed=True)
    body = WriteLacRequest(ledger_id=ledger_id, lac=lac, master_key=key, packet=packet)
    return v3.encode_request(V3Request(txn_id=1, operation=Operation.WRITE_LAC, body=body))


def without_time(frame: bytes) -> bytes:
    """A long poll's answer carries the wall clock at which the LAC moved."""
    if not v3.looks_like_v3(frame[4:]):
        return frame
    body = v3.decode_response(frame[4:]).body
    if not isinstance(body, V3ReadResponse) or body.lac_update_ms is None:
        return frame
    stamp = v3_varint(body.lac_update_ms)
    assert frame.endswith(b"\x30" + stamp)
    return frame.removesuffix(stamp)


def v3_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*encoded, value))
