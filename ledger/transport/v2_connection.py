"""The fixed binary protocol ("v2") to one bookie: adds, reads, fencing reads, batch reads.

Adds are answered to a sink per ledger, by the run; reads to one future each. Responses carry no transaction
id: they are matched by ledger, entry and operation, batch reads by their request id
(docs/bookkeeper.md#matching-v2-responses).
"""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct

from ledger.errors import ProtocolError
from ledger.model import BookieId
from ledger.transport.ack_block import ADD_PREFIX, GOOD_PREFIX, RECORD, ack_run
from ledger.transport.entry_connection import ANSWERS_AT_ONCE, EntryConnection, ReadAnswer
from ledger.transport.frame_reader import FrameReader
from ledger.wire.constants import (
    ADD,
    BATCH_READ,
    FENCE,
    FENCE_REQUEST,
    HIGH_PRIORITY,
    READ,
    READ_HEADER,
    READ_REQUEST,
)
from ledger.wire.status import Status

_PARTS = Struct(">12sqq")
"""An add response: what distinguishes a good one, ledger id, entry id."""


class V2Connection(EntryConnection):
    def __init__(self, bookie_id: BookieId, send_queue_bytes_max: int, frame_bytes_max: int) -> None:
        super().__init__(bookie_id, send_queue_bytes_max)
        self._frames = FrameReader(frame_bytes_max)
        self._reads: dict[tuple[int, int], deque[asyncio.Future[ReadAnswer]]] = {}
        self._batch_reads: dict[int, asyncio.Future[ReadAnswer]] = {}
        self._last_request_id = 0

    # ---- requests

    def next_request_id(self) -> int:
        self._last_request_id += 1
        return self._last_request_id

    def read(
        self,
        ledger_id: int,
        entry_id: int,
        timeout_s: float,
        *,
        fence_key: bytes | None = None,
        priority: bool = False,
    ) -> asyncio.Future[ReadAnswer]:
        future = self._new_future()
        if self.lost is None:
            self._reads.setdefault((ledger_id, entry_id), deque()).append(future)
            self.send(_read_frame(ledger_id, entry_id, fence_key, priority), timeout_s)
        return future

    def batch_read(self, request_id: int, frame: bytes, timeout_s: float) -> asyncio.Future[ReadAnswer]:
        future = self._new_future()
        if self.lost is None:
            self._batch_reads[request_id] = future
            self.send(frame, timeout_s)
        return future

    def _new_future(self) -> asyncio.Future[ReadAnswer]:
        future: asyncio.Future[ReadAnswer] = self._loop.create_future()
        if self.lost is not None:
            future.set_exception(self.lost)
        return future

    # ---- responses

    def _on_data(self, received: bytes) -> None:
        data, position = self._frames.feed(received), 0
        while True:
            run = ack_run(data, position, len(data))
            if run is not None:
                position = run.end
                sink = self._sinks.get(run.ledger_id)
                if sink is not None:
                    sink.on_adds_acked(run.first, run.last)
            end = self._frames.frame_end(data, position)
            if end == 0:
                return
            if data[position : position + 8] == ADD_PREFIX:
                position = self._parse_adds(data, position)
                if len(data) - position >= RECORD and data[position : position + 12] == GOOD_PREFIX:
                    self._frames.keep(data, position)
                    self._resume_soon()
                    return
            else:
                self._parse_other(data, position, end)
                position = end

    def _parse_adds(self, data: bytes, start: int) -> int:
        """Add responses that are not one run: of several ledgers, with gaps, with errors. Returns where it stopped."""
        # Mostly one entry of each of many ledgers; only those of a ledger that has more make a list.
        acked: dict[int, int] = {}
        several: dict[int, list[int]] = {}
        count = (len(data) - start) // RECORD
        # Invariant: what is kept stays below eight times what arrives in a turn, also from a faulty bookie.
        left = max(ANSWERS_AT_ONCE, count // 8)
        stop = start + count * RECORD
        position = start
        for prefix, ledger_id, entry_id in _PARTS.iter_unpack(data[start:stop]):
            if prefix == GOOD_PREFIX:
                if ledger_id in acked:
                    several.setdefault(ledger_id, [acked[ledger_id]]).append(entry_id)
                elif left:
                    left -= 1
                    acked[ledger_id] = entry_id
                else:
                    break
            elif prefix[:8] != ADD_PREFIX:
                break
            elif (sink := self._sinks.get(ledger_id)) is not None:
                sink.on_add_refused(entry_id, _status(int.from_bytes(prefix[8:], "big")))
            position += RECORD
        sinks = self._sinks
        for ledger_id, entry_id in acked.items():
            sink = sinks.get(ledger_id)
            if sink is None:
                continue
            if several and ledger_id in several:
                sink.on_scattered_adds_acked(several[ledger_id])
            else:
                sink.on_adds_acked(entry_id, entry_id)
        return position

    def _parse_other(self, data: bytes, start: int, end: int) -> None:
        opcode = data[start + 5] if end - start >= 28 else -1
        code = int.from_bytes(data[start + 8 : start + 12], "big")
        if opcode == READ:
            ledger_id = int.from_bytes(data[start + 12 : start + 20], "big", signed=True)
            entry_id = int.from_bytes(data[start + 20 : start + 28], "big", signed=True)
            self._answer_read((ledger_id, entry_id), (_status(code), memoryview(data)[start + 28 : end]))
        elif opcode == BATCH_READ and end - start >= 36:
            request_id = int.from_bytes(data[start + 28 : start + 36], "big", signed=True)
            future = self._batch_reads.pop(request_id, None)
            if future is not None and not future.done():
                future.set_result((_status(code), memoryview(data)[start + 36 : end]))
        elif opcode == ADD:
            raise ProtocolError(f"add response with an unexpected header, {data[start : start + 8].hex()}")
        else:
            raise ProtocolError(f"response of {end - start} bytes with opcode {opcode}")

    def _answer_read(self, key: tuple[int, int], answer: ReadAnswer) -> None:
        waiting = self._reads.get(key)
        # To the first caller that still waits: the answer to a cancelled read is as good for a later one.
        while waiting:
            future = waiting.popleft()
            if not future.done():
                future.set_result(answer)
                break
        if waiting is not None and not waiting:
            del self._reads[key]

    def _in_use(self) -> bool:
        return bool(self._sinks or self._reads or self._batch_reads)

    def _on_lost(self, error: Exception) -> None:
        futures = [future for waiting in self._reads.values() for future in waiting]
        futures += self._batch_reads.values()
        self._reads.clear()
        self._batch_reads.clear()
        for future in futures:
            if not future.done():
                future.set_exception(error)
                future.exception()  # a reader that has already moved on must not cause a warning
        self._report_loss(error)


def _read_frame(ledger_id: int, entry_id: int, fence_key: bytes | None, priority: bool) -> bytes:
    header = READ_HEADER | (HIGH_PRIORITY if priority else 0)
    if fence_key is None:
        return READ_REQUEST.pack(READ_REQUEST.size - 4, header, ledger_id, entry_id)
    return FENCE_REQUEST.pack(FENCE_REQUEST.size - 4, header | FENCE, ledger_id, entry_id, fence_key)


def _status(code: int) -> Status:
    try:
        return Status(code)
    except ValueError:
        raise ProtocolError(f"unknown status {code}") from None
