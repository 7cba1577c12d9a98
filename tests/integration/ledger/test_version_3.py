"""A client that carries its entries in version 3 does all that others do, and they read what it wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.config import WireProtocol
from ledger.errors import LedgerFencedError
from ledger.model import DigestType, QuorumSizes
from tests.helpers.ledger.appender import Appender, client_of, payload_of, read_all
from tests.helpers.processes.cluster import forked_cluster

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("writer_first", [True, False], ids=["v3 writes", "v2 writes"])
async def test_the_versions_write_read_fence_and_recover_each_others_ledgers(
    tmp_path: Path, writer_first: bool
) -> None:
    async with (
        forked_cluster(tmp_path) as cluster,
        client_of(cluster.uri, wire=WireProtocol.V3) as v3,
        client_of(cluster.uri) as v2,
    ):
        writer, reader = (v3, v2) if writer_first else (v2, v3)
        for quorum in (QuorumSizes(ensemble=3, write=3, ack=2), QuorumSizes(ensemble=3, write=2, ack=2)):
            handle = await writer.create(quorum, digest_type=DigestType.CRC32)
            for number in range(300):
                handle.submit(payload_of(number))
            await handle.drain()
            await handle.close()
            assert await read_all(reader, handle.ledger_id) == [payload_of(number) for number in range(300)]
            appender = Appender(await writer.create(quorum))
            await appender.reached(20)
            recovered = await reader.open_with_recovery(appender.handle.ledger_id)
            assert isinstance(await appender.refused(), LedgerFencedError)
            assert recovered.last_readable >= appender.acked >= 20
            expected = [payload_of(number) for number in range(recovered.last_readable + 1)]
            assert await read_all(writer, appender.handle.ledger_id) == expected
