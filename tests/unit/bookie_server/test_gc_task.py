"""Which ledgers a pass may take for deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie_server.gc_task import missing_from, pass_limit
from ledger.errors import MetadataUnavailableError
from ledger.model import LedgerId


async def listing(ids: list[int], *, fails: bool = False) -> AsyncIterator[LedgerId]:
    for each in ids:
        yield LedgerId(each)
    if fails:
        raise MetadataUnavailableError("the connection was lost")


@given(local=st.sets(st.integers(0, 50)), listed=st.sets(st.integers(0, 50)))
def test_missing_is_what_the_listing_lacks(local: set[int], listed: set[int]) -> None:
    found = asyncio.run(missing_from(sorted(local), listing(sorted(listed))))
    assert found == sorted(local - listed)


def test_a_listing_that_breaks_off_is_no_listing() -> None:
    with pytest.raises(MetadataUnavailableError):
        asyncio.run(missing_from([1, 2, 3], listing([1], fails=True)))


def test_one_pass_takes_a_share_of_a_large_bookie_and_all_of_a_small_one() -> None:
    assert pass_limit(10) == 100
    assert pass_limit(100_000) == 25_000
