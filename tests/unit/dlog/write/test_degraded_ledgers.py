"""Which ledgers of a writer say that they got fewer bookies than configured."""

from __future__ import annotations

import pytest

from dlog.core.degraded import wanted_quorum
from ledger.model import QuorumSizes
from tests.helpers.log.scripted_log import scripted_log


@pytest.mark.parametrize(
    ("wanted", "degraded"), [(QuorumSizes(), True), (QuorumSizes(ensemble=2, write=2, ack=2), False)]
)
async def test_a_ledger_keeps_what_was_configured_if_it_got_less(wanted: QuorumSizes, degraded: bool) -> None:
    """Two bookies are there (docs/log-semantics.md#rule-19b)."""
    async with scripted_log(2) as log, log.client(quorum=wanted) as client:
        writer = await client.open_writer("orders", create=True)
        assert writer.degraded == degraded
        newest = (await client.overview("orders")).newest
        assert newest is not None and newest.quorum == QuorumSizes(ensemble=2, write=2, ack=2)
        assert wanted_quorum(newest) == (wanted if degraded else None)
