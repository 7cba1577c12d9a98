"""Explicit LACs: how a strict writer makes its last entries visible without a later entry (WRITE_LAC, version 3).

Protocol: docs/bookkeeper.md#explicit-lac.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from ledger.client_context import ClientContext
from ledger.errors import BookieUnavailableError, LogStoreError
from ledger.model import EntryId
from ledger.transport.v3_connection import V3Connection
from ledger.wire.status import Status
from ledger.wire.write_lac import LacWrite
from ledger.writing.add_stream import AddStream
from ledger.writing.ensemble_member import EnsembleMember


class StrictWriter(Protocol):
    """The writer whose LACs are written."""

    failed: LogStoreError | None

    def on_sent(self) -> None: ...


class LacWriter:
    """Writes LACs for one stream, each to one member. A failure to store one is a failure of the member."""

    def __init__(self, writer: StrictWriter, stream: AddStream, context: ClientContext) -> None:
        self._writer = writer
        self._stream = stream
        self._pool = context.pool
        self._last: tuple[EntryId, LacWrite] | None = None
        """What was written last: usually another member gets the same."""

    def write(self, member: EnsembleMember, lac: EntryId) -> None:
        connection = self._pool.v3_now(member.bookie_id)
        if connection is None:
            self._stream.start(self._write_later(member, lac))
        else:
            self._send(connection, member, lac)

    def _send(self, connection: V3Connection, member: EnsembleMember, lac: EntryId) -> None:
        if self._last is None or self._last[0] != lac:
            pending, ledger_id = self._stream.pending, self._stream.ledger_id
            packet = pending.digester.lac_packet(ledger_id, lac)
            self._last = lac, LacWrite(ledger_id, lac, pending.key, packet)
        member.sent_lac()
        connection.write_lac(self._last[1], partial(self._on_written, member, lac), member.add_timeout_s)
        self._writer.on_sent()

    async def _write_later(self, member: EnsembleMember, lac: EntryId) -> None:
        try:
            await self._pool.v3(member.bookie_id)
        except BookieUnavailableError as error:
            self._stream.on_member_lost(member, error)
            return
        if self._is_current(member):
            self.write(member, lac)

    def _on_written(self, member: EnsembleMember, lac: EntryId, outcome: Status | Exception) -> None:
        if not self._is_current(member) or member.failed:
            return
        member.lac_answered()
        if isinstance(outcome, Exception):
            self._stream.on_member_lost(member, outcome)
        elif outcome is Status.EOK:
            self._stream.execute(self._stream.machine.on_lac_stored(member.position, lac))
        else:
            self._stream.on_add_refused(member, lac, outcome)

    def _is_current(self, member: EnsembleMember) -> bool:
        return self._stream.members[member.position] is member and self._writer.failed is None
