"""Version 2, the binary protocol: requests decoded, responses encoded. Pure.

A ProtocolError closes the connection. Which requests are refused and which close it: docs/bookkeeper.md#v2-frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bookie_server.protocol import v2_adds
from bookie_server.protocol.requests import AddRun, Adds, Answered, BatchRead, Frame, Read, Request
from bookie_server.storage.stored_entry import StoredEntry
from ledger.model import FRAME_BYTES_MAX
from ledger.wire import constants as c
from ledger.wire import v2
from ledger.wire.entry import STORED_BYTES_MIN
from ledger.wire.messages import (
    AddRequest,
    AuthMessage,
    BatchReadRequest,
    BatchReadResponse,
    ReadRequest,
    ReadResponse,
)
from ledger.wire.status import Status


def decode(block: bytes, start: int, stop: int) -> Request:
    """The request in the frame body block[start:stop]. Raises ProtocolError if it is none."""
    request = v2.decode_request(memoryview(block)[start:stop])
    match request:
        case AddRequest():
            return _add(request)
        case BatchReadRequest():
            return _batch_read(request)
        case ReadRequest():
            return _read(request)
        case AuthMessage():
            disabled = AuthMessage(version=request.version, plugin_name=c.AUTH_DISABLED_PLUGIN, payload=b"")
            return Answered(v2.encode_response(disabled))


def _add(request: AddRequest) -> Adds | Answered:
    """An add that is not in a run: another version, a negative id, or too short."""
    entry = bytes(request.entry)
    run = AddRun(
        request.ledger_id,
        request.master_key,
        request.recovery,
        request.high_priority,
        [request.entry_id],
        [entry],
        (),
    )
    encoder = v2_adds.AddResponses(_header(request.version, c.ADD))
    if request.version > c.VERSION:
        return Answered(encoder.added([run], Status.EBADVERSION, frozenset()))
    if len(entry) < STORED_BYTES_MIN or request.ledger_id < 0 or request.entry_id < 0:
        return Answered(encoder.added([run], Status.EBADREQ, frozenset()))
    return Adds([run], len(entry), encoder)


def _read(request: ReadRequest) -> Read | Answered:
    encoder = ReadResponses(request.version, request.ledger_id, request.entry_id)
    refused = _refused(request)
    if refused is not None:
        return Answered(encoder.refusal(refused))
    return Read(
        ledger_id=request.ledger_id,
        entry_id=request.entry_id,
        fence_key=request.master_key,
        urgent=request.fencing or request.high_priority,
        encoder=encoder,
    )


def _batch_read(request: BatchReadRequest) -> BatchRead | Answered:
    encoder = BatchReadResponses(request.version, request.ledger_id, request.entry_id, request.request_id)
    refused = _refused(request)
    if refused is not None:
        return Answered(encoder.refusal(refused))
    return BatchRead(
        ledger_id=request.ledger_id,
        entry_id=request.entry_id,
        fence_key=request.master_key,
        urgent=request.fencing or request.high_priority,
        count_max=request.max_count,
        bytes_max=min(request.max_bytes, FRAME_BYTES_MAX) - c.BATCH_READ_RESPONSE_START.size,
        encoder=encoder,
    )


def _refused(request: ReadRequest) -> Status | None:
    if request.version > c.VERSION:
        return Status.EBADVERSION
    if request.entry_id < c.LAST_ENTRY:
        return Status.EBADREQ
    if request.fencing and request.master_key is None:
        return Status.EUA
    return None


class ReadResponses(NamedTuple):
    """Encodes the response to one read."""

    version: int
    ledger_id: int
    entry_id: int

    def entry(self, entry: StoredEntry, lac: int | None) -> Frame:
        del lac  # version 2 has no field for it
        body_bytes = c.READ_RESPONSE_START.size - 4 + len(entry)
        header = _header(self.version, c.READ)
        start = c.READ_RESPONSE_START.pack(body_bytes, header, Status.EOK, self.ledger_id, self.entry_id)
        return start, entry

    def refusal(self, status: Status) -> bytes:
        return v2.encode_response(
            ReadResponse(
                version=self.version, status=status, ledger_id=self.ledger_id, entry_id=self.entry_id
            )
        )


class BatchReadResponses(NamedTuple):
    """Encodes the response to one batch read."""

    version: int
    ledger_id: int
    entry_id: int
    request_id: int

    def entries(self, entries: Sequence[StoredEntry]) -> bytes:
        return self._response(Status.EOK, tuple(entries))

    def refusal(self, status: Status) -> bytes:
        return self._response(status, ())

    def _response(self, status: Status, entries: tuple[StoredEntry, ...]) -> bytes:
        return v2.encode_response(
            BatchReadResponse(
                version=self.version,
                status=status,
                ledger_id=self.ledger_id,
                entry_id=self.entry_id,
                request_id=self.request_id,
                entries=entries,
            )
        )


def _header(version: int, opcode: int) -> int:
    """A response's header int: no flags; version 0 sends the bare opcode."""
    return version << 24 | opcode << 16 if version else opcode
