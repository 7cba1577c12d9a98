"""Our writer that syncs when asked, on bookies of both kinds: what was forced survives them, and Java reads it."""

from __future__ import annotations

from typing import cast

import pytest

from ledger.client import LedgerClient
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from ledger.model import QuorumSizes
from tests.helpers.apache.cluster import MixedCluster
from tests.helpers.apache.java_client import JavaClient, shown
from tests.helpers.ledger.appender import payload_of
from tests.helpers.matrix.cells import members_of
from tests.helpers.matrix.sides import AllowedStore

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]  # the first test starts nine JVMs


async def test_what_was_forced_survives_the_death_of_every_bookie(
    mixed: MixedCluster, java: dict[str, JavaClient]
) -> None:
    members = members_of(mixed, "2+1")
    store = AllowedStore(await open_store(mixed.uri))
    store.allow(bookie.bookie_id for bookie in members)
    client = LedgerClient(cast(MetadataStore, store))
    await client.start()
    handle = await client.create_deferred(QuorumSizes())
    for number in range(12):
        await handle.add(payload_of(number))
    assert await handle.force() == 11
    for bookie in members:
        bookie.kill()
    mixed.start_all()
    recovered = await java["v3"].open(handle.ledger_id, "CRC32C")
    assert await recovered.read_all() == [shown(payload_of(number)) for number in range(12)]
    await client.close()
    await cast(MetadataStore, store).close()
