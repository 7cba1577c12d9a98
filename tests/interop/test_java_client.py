"""Apache's Java client with its defaults on our bookies, and what only it asks for."""

from __future__ import annotations

import pytest

from tests.integration.ledger.support import payload_of
from tests.interop.apache_cluster import MixedCluster
from tests.interop.java_client import JavaClient, JavaError, JavaProcess, shown

pytestmark = pytest.mark.integration


async def on_ours(mixed: MixedCluster, jvm: JavaProcess) -> None:
    ids = ",".join(bookie.bookie_id for bookie in mixed.ours)
    await jvm.call("allow", ids, ids)


async def test_the_defaults_of_the_java_client_work_on_our_bookies(
    mixed: MixedCluster, jvm: JavaProcess, java: dict[str, JavaClient]
) -> None:
    """Create, append one by one and many at once, read, close, open again, delete."""
    await on_ours(mixed, jvm)
    ledger = await java["v3"].create(3, 2, 2, "CRC32")
    assert await ledger.add_many(50) == 49
    assert await ledger.add(payload_of(50)) == 50
    expected = [shown(payload_of(number)) for number in range(51)]
    assert await ledger.read(0, 50) == expected
    await ledger.close()
    again = await java["v3"].open(ledger.ledger_id, "CRC32")
    assert await again.read_all() == expected
    await java["v3"].delete(ledger.ledger_id)
    with pytest.raises(JavaError, match="NoSuchLedger"):
        await java["v3"].open(ledger.ledger_id, "CRC32")
