"""The protobuf protocol ("v3") to one bookie: what the fixed protocol has no message for, and entries where asked.

Answers are matched by transaction id and operation (docs/bookkeeper.md#matching-v3-responses). Those of
adds name ledger and entry as well, and that is what they are matched by: the frames of one add are the same for
every bookie that gets it.
Explicit LACs are on the way of every strict append: they are written by hand, and what is received is compared
with the answers that success has, in the order of the requests, so that only another answer is decoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Protocol

from ledger.errors import ProtocolError
from ledger.model import BookieId
from ledger.refusal import unauthorized
from ledger.transport.entry_connection import ANSWERS_AT_ONCE, EntryConnection, ReadAnswer
from ledger.transport.frame_reader import FrameReader
from ledger.wire import v3
from ledger.wire.add_v3 import HIGH_PRIORITY, added
from ledger.wire.frame import LENGTH_BYTES
from ledger.wire.messages import (
    Operation,
    ReadFlag,
    ReadLacRequest,
    ReadLacResponse,
    V3AddResponse,
    V3ReadRequest,
    V3ReadResponse,
    V3Request,
    V3RequestBody,
    V3Response,
)
from ledger.wire.status import Status
from ledger.wire.write_lac import LacWrite

_POLL_S_MAX = 86_400.0
"""More milliseconds than the field holds are no request."""


class LacSink(Protocol):
    """Where the answer to an explicit LAC goes."""

    def on_lac_written(self, lac: int, outcome: Status | Exception) -> None:
        """Called once: with the bookie's status, or with the error by which the connection ended."""


class V3Connection(EntryConnection):
    def __init__(self, bookie_id: BookieId, send_queue_bytes_max: int, frame_bytes_max: int) -> None:
        super().__init__(bookie_id, send_queue_bytes_max)
        self._frames = FrameReader(frame_bytes_max)
        self._pending: dict[tuple[int, Operation], asyncio.Future[V3Response]] = {}
        self._lacs: dict[int, tuple[LacWrite, LacSink]] = {}
        """By transaction id, oldest first. The next answer is mostly the oldest's."""
        self._last_txn_id = 0

    def next_txn_id(self) -> int:
        self._last_txn_id += 1
        return self._last_txn_id

    def write_lac(self, lac_write: LacWrite, sink: LacSink, timeout_s: float) -> None:
        """Store an explicit LAC; its transaction id is that of no other one on this connection.

        The sink is never called from within this call, except on a lost connection.
        """
        if self.lost is not None:
            sink.on_lac_written(lac_write.lac, self.lost)
            return
        self._lacs[lac_write.txn_id] = lac_write, sink
        self.send(lac_write.request, timeout_s)

    async def read_lac(self, ledger_id: int, timeout_s: float) -> ReadLacResponse | None:
        """What the bookie holds of the ledger's LAC, whatever status stands beside it; None if nothing.

        UnauthorizedError if it refuses this client altogether.
        """
        response = await self.request(Operation.READ_LAC, ReadLacRequest(ledger_id=ledger_id), timeout_s)
        if response.outcome is Status.EUA:
            raise unauthorized(self.bookie_id, ledger_id)
        return response.body if isinstance(response.body, ReadLacResponse) else None

    async def wait_for_lac(
        self, ledger_id: int, beyond: int, poll_s: float, timeout_s: float
    ) -> V3ReadResponse | None:
        """A long poll: answered when the bookie knows a LAC above `beyond`, is fenced, or `poll_s` is up.

        Until then its silence says nothing, so `timeout_s` counts from there. A poll ends after a day at the latest.
        """
        poll_s = min(poll_s, _POLL_S_MAX)
        body = V3ReadRequest(
            ledger_id=ledger_id,
            entry_id=-1,
            previous_lac=beyond,
            timeout_ms=max(1, int(poll_s * 1000)),
            flag=ReadFlag.PIGGYBACK,
        )
        response = await self.request(Operation.READ_ENTRY, body, poll_s + timeout_s)
        return response.body if isinstance(response.body, V3ReadResponse) else None

    def read(
        self,
        ledger_id: int,
        entry_id: int,
        timeout_s: float,
        *,
        fence_key: bytes | None = None,
        priority: bool = False,
    ) -> Awaitable[ReadAnswer]:
        flag = None if fence_key is None else ReadFlag.FENCE
        body = V3ReadRequest(ledger_id=ledger_id, entry_id=entry_id, master_key=fence_key, flag=flag)
        urgency = HIGH_PRIORITY if priority else None
        return _entry_in(self.request(Operation.READ_ENTRY, body, timeout_s, priority=urgency))

    def request(
        self, operation: Operation, body: V3RequestBody, timeout_s: float, *, priority: int | None = None
    ) -> asyncio.Future[V3Response]:
        future: asyncio.Future[V3Response] = self._loop.create_future()
        if self.lost is not None:
            future.set_exception(self.lost)
            return future
        txn_id = self.next_txn_id()
        self._pending[txn_id, operation] = future
        request = V3Request(txn_id=txn_id, operation=operation, body=body, priority=priority)
        self.send(v3.encode_request(request), timeout_s)
        return future

    def _on_data(self, received: bytes) -> None:
        data, position = self._frames.feed(received), 0
        acked: dict[int, list[int]] = {}
        lacs_left = ANSWERS_AT_ONCE
        while True:
            if self._lacs:
                stored = self._stored_in(data, position, lacs_left)
                for lac_write, sink in stored:
                    position += len(lac_write.success)
                    sink.on_lac_written(lac_write.lac, Status.EOK)
                lacs_left -= len(stored)
                if not lacs_left and position < len(data):
                    self._frames.keep(data, position)
                    self._resume_soon()
                    break
            end = self._frames.frame_end(data, position)
            if end == 0:
                break
            body = memoryview(data)[position + LENGTH_BYTES : end]
            position = end
            if (ids := added(body)) is not None:
                acked.setdefault(ids[0], []).append(ids[1])
            else:
                self._on_response(v3.decode_response(body))
        for ledger_id, entry_ids in acked.items():
            self._report_acked(ledger_id, entry_ids)

    def _stored_in(self, data: bytes, start: int, count_max: int) -> list[tuple[LacWrite, LacSink]]:
        """The oldest LACs whose answers of success follow one another from `start` on. They are answered now."""
        stored: list[tuple[LacWrite, LacSink]] = []
        for pending in self._lacs.values():
            success = pending[0].success
            if len(stored) == count_max or not data.startswith(success, start):
                break
            start += len(success)
            stored.append(pending)
        for lac_write, _ in stored:
            del self._lacs[lac_write.txn_id]
        return stored

    def _report_acked(self, ledger_id: int, entry_ids: list[int]) -> None:
        sink = self._sinks.get(ledger_id)
        if sink is None:
            return
        first, last = entry_ids[0], entry_ids[-1]
        # The ids are the bookie's: a range between them may be of any size.
        if last - first == len(entry_ids) - 1 and entry_ids == list(range(first, last + 1)):
            sink.on_adds_acked(first, last)
        else:
            sink.on_scattered_adds_acked(entry_ids)

    def _on_response(self, response: V3Response) -> None:
        if response.operation is Operation.WRITE_LAC:
            pending = self._lacs.pop(response.txn_id, None)
            if pending is not None:
                lac_write, sink = pending
                sink.on_lac_written(lac_write.lac, response.status)
            return
        if response.operation is Operation.ADD_ENTRY:
            self._on_add_response(response)
            return
        # A cancelled request stays until its answer comes, or the connection ends for lack of it.
        future = self._pending.pop((response.txn_id, response.operation), None)
        if future is not None and not future.done():
            future.set_result(response)

    def _on_add_response(self, response: V3Response) -> None:
        body = response.body
        if not isinstance(body, V3AddResponse):
            raise ProtocolError(f"it answered {response.status.name} to an add, and not to which")
        if response.outcome is Status.EOK:
            self._report_acked(body.ledger_id, [body.entry_id])
        elif (sink := self._sinks.get(body.ledger_id)) is not None:
            sink.on_add_refused(body.entry_id, response.outcome)

    def _in_use(self) -> bool:
        return bool(self._sinks or self._pending or self._lacs)

    def _on_lost(self, error: Exception) -> None:
        pending, self._pending = self._pending, {}
        for future in pending.values():
            if not future.done():
                future.set_exception(error)
                future.exception()  # the caller may have been cancelled; that must not cause a warning
        lacs, self._lacs = self._lacs, {}
        for lac_write, sink in lacs.values():
            sink.on_lac_written(lac_write.lac, error)
        self._report_loss(error)


async def _entry_in(pending: asyncio.Future[V3Response]) -> ReadAnswer:
    response = await pending
    entry = response.body.entry if isinstance(response.body, V3ReadResponse) else None
    return response.outcome, memoryview(entry or b"")
