"""Frames of adds, reads and fences as dlog's own clients send them, for tests that talk to a bookie."""

from __future__ import annotations

from ledger.model import DigestType
from ledger.wire import v2
from ledger.wire.constants import FENCE, HIGH_PRIORITY, RECOVERY_ADD
from ledger.wire.digest import make_digester, master_key
from ledger.wire.messages import (
    AddRequest,
    AddResponse,
    BatchReadRequest,
    BatchReadResponse,
    ReadRequest,
    ReadResponse,
    V2Response,
)

KEY = master_key(b"")
WRONG_KEY = master_key(b"wrong")
_DIGESTER = make_digester(DigestType.CRC32C, b"")


def entry(ledger_id: int, entry_id: int, payload: bytes = b"abc", lac: int | None = None) -> bytes:
    """An entry as stored; every payload before it is taken to be as long as this one."""
    lac = entry_id - 1 if lac is None else lac
    length = (entry_id + 1) * len(payload)
    return _DIGESTER.header_and_digest(ledger_id, entry_id, lac, length, (payload,)) + payload


def add(
    ledger_id: int,
    entry_id: int,
    payload: bytes = b"abc",
    *,
    key: bytes = KEY,
    lac: int | None = None,
    recovery: bool = False,
    priority: bool = False,
) -> bytes:
    """The frame of one add."""
    flags = (RECOVERY_ADD if recovery else 0) | (HIGH_PRIORITY if priority else 0)
    return v2.encode_request(
        AddRequest(master_key=key, entry=entry(ledger_id, entry_id, payload, lac), flags=flags)
    )


def read(ledger_id: int, entry_id: int) -> bytes:
    return v2.encode_request(ReadRequest(ledger_id=ledger_id, entry_id=entry_id))


def fence(ledger_id: int, entry_id: int = -1, *, key: bytes = KEY) -> bytes:
    return v2.encode_request(ReadRequest(ledger_id=ledger_id, entry_id=entry_id, master_key=key, flags=FENCE))


def batch_read(ledger_id: int, first: int, *, max_count: int = 0, max_bytes: int = 5 * 1024 * 1024) -> bytes:
    return v2.encode_request(
        BatchReadRequest(
            ledger_id=ledger_id, entry_id=first, request_id=1, max_count=max_count, max_bytes=max_bytes
        )
    )


def answer(frame: bytes) -> V2Response:
    return v2.decode_response(frame[4:])


def add_answer(frame: bytes) -> AddResponse:
    decoded = answer(frame)
    assert isinstance(decoded, AddResponse)
    return decoded


def read_answer(frame: bytes) -> ReadResponse:
    decoded = answer(frame)
    assert isinstance(decoded, ReadResponse)
    return decoded


def batch_answer(frame: bytes) -> BatchReadResponse:
    decoded = answer(frame)
    assert isinstance(decoded, BatchReadResponse)
    return decoded


def lac_packet(ledger_id: int, lac: int) -> bytes:
    return _DIGESTER.lac_packet(ledger_id, lac)
