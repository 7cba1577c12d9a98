"""Asking whether a bookie answers disturbs nobody who shares the connection."""

from __future__ import annotations

import asyncio

from ledger.config import LedgerClientConfig
from ledger.model import DigestType, LedgerId
from ledger.reading.bookie_reads import fence_read_entry
from ledger.transport.probe import responds
from ledger.transport.v2_connection import V2Connection
from ledger.wire import v2
from ledger.wire.constants import LAST_ENTRY
from ledger.wire.digest import make_digester
from ledger.wire.messages import ReadRequest
from tests.helpers.simulation.disk import run
from tests.helpers.wire.silent_transport import BOOKIE, RecordingTransport, absent


def test_a_late_answer_to_a_probe_does_not_pass_for_a_fence() -> None:
    """Answers of version 2 name only ledger and entry."""

    async def scene() -> None:
        wire = RecordingTransport()
        connection = V2Connection(BOOKIE, 1000, 1000)
        connection.connection_made(wire)  # type: ignore[arg-type]  # as much of a transport as it needs
        assert not await responds(connection, LedgerId(1), LedgerClientConfig(probe_timeout_s=0.1))
        probe = v2.decode_request(memoryview(wire.sent[0])[4:])
        assert isinstance(probe, ReadRequest)
        digester = make_digester(DigestType.CRC32C, b"")
        fence = asyncio.ensure_future(
            fence_read_entry(connection, LedgerId(1), LAST_ENTRY, bytes(20), False, digester, 5.0)
        )
        await asyncio.sleep(0.1)
        connection.data_received(absent(probe.entry_id))
        await asyncio.sleep(0.1)
        assert not fence.done()
        connection.data_received(absent(LAST_ENTRY))
        await fence

    run(scene())
