"""Explicit LACs: how a strict writer makes its last entries visible without a later entry (WRITE_LAC, version 3).

Protocol: docs/bookkeeper.md#explicit-lac.
"""

from __future__ import annotations

from typing import Protocol

from ledger.client_context import ClientContext
from ledger.errors import BookieUnavailableError
from ledger.model import EntryId
from ledger.wire.write_lac import LedgerLacs
from ledger.writing.add_stream import AddStream
from ledger.writing.ensemble_member import EnsembleMember


class StrictWriter(Protocol):
    """The writer whose LACs are written."""

    def on_sent(self) -> None: ...


class LacWriter:
    """Writes LACs for one stream, the same bytes to each member. A failure to store one is a failure of the member."""

    __slots__ = (
        "_lacs",
        "_pool",
        "_stream",
        "_writer",
    )

    def __init__(self, writer: StrictWriter, stream: AddStream, context: ClientContext) -> None:
        self._writer = writer
        self._stream = stream
        self._pool = context.pool
        pending = stream.pending
        self._lacs = LedgerLacs(stream.ledger_id, pending.key, pending.digester.lac_packet_bytes)

    def write(self, members: list[EnsembleMember], lac: EntryId) -> None:
        stream, pool = self._stream, self._pool
        connected = pool.v3_connections.now
        packet = stream.pending.digester.lac_packet(stream.ledger_id, lac)
        lac_write = self._lacs.write(next(pool.txn_ids_of_lacs), lac, packet)
        for member in members:
            connection = connected(member.bookie_id)
            if connection is None:
                stream.start(self._write_later(member, lac))
            else:
                member.sent_lac()
                connection.write_lac(lac_write, member, member.add_timeout_s)
        self._writer.on_sent()

    async def _write_later(self, member: EnsembleMember, lac: EntryId) -> None:
        try:
            await self._pool.v3(member.bookie_id)
        except BookieUnavailableError as error:
            self._stream.on_member_lost(member, error)
            return
        if not member.dropped:
            self.write([member], lac)
