"""The cluster that the interop tests share: our client writes and reads on either kind of bookie."""

from __future__ import annotations

import pytest

from ledger.model import QuorumSizes
from tests.helpers.apache.cluster import MixedCluster
from tests.helpers.ledger.appender import client_of, payload_of, read_all

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]  # the first test starts nine JVMs


async def test_a_ledger_of_ours_lies_on_bookies_of_both_kinds(mixed: MixedCluster) -> None:
    """An ensemble of all eight bookies takes every entry and gives it back."""
    async with client_of(mixed.uri) as client:
        handle = await client.create(QuorumSizes(ensemble=8, write=3, ack=2))
        for number in range(40):
            await handle.add(payload_of(number))
        members = set(handle.metadata.fragments[0].ensemble)
        assert members == {bookie.bookie_id for bookie in mixed.bookies}
        await handle.close()
        assert await read_all(client, handle.ledger_id) == [payload_of(number) for number in range(40)]
