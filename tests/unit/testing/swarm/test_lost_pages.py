"""What a run does with a log that has lost a page of its list (docs/log-semantics.md#pages, #rule-28)."""

from __future__ import annotations

from random import Random

import pytest

from dlog.read.config import ReaderConfig
from dlog.testing import SimulatedCluster, simulate
from dlog.testing.swarm.lost_pages import LostPage
from tests.helpers.log.trimmed_pages import TrimTo, append_and_trim, keep_trimmed_listed

LOG = "orders"


def wrong(to: TrimTo, seed: int) -> list[str]:
    """What the check finds once it has removed or damaged one of the pages, some of which have only trimmed ledgers."""

    async def main(cluster: SimulatedCluster) -> list[str]:
        async with await cluster.client() as client:
            assert await append_and_trim(client, LOG, to)
        return await LostPage(cluster.client, LOG, Random(seed), ReaderConfig()).check()

    return simulate(main)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("to", list(TrimTo))
def test_a_page_of_trimmed_ledgers_is_no_loss(to: TrimTo, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_trimmed_listed(monkeypatch)
    assert wrong(to, seed) == []
