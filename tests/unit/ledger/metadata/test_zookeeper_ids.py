"""Ledger ids, drawn on a session whose answers are lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ledger.errors import MetadataOutcomeUnknownError, MetadataUnavailableError
from ledger.metadata.format.layout import LayoutType
from ledger.metadata.zookeeper.ledgers.ids import LedgerIds
from ledger.metadata.zookeeper.paths import Paths


class _LosingSession:
    uri = "zk://h:2181/ledgers"

    def exists(self, path: str) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    async def create(self, path: str, value: bytes = b"", **options: bool) -> str:
        raise MetadataOutcomeUnknownError("the answer was lost: read what became of it")

    def forget(self, future: asyncio.Future[Any]) -> None:
        pass


async def test_a_number_whose_answer_is_lost_is_wasted_and_leaves_nothing_to_read() -> None:
    session: Any = _LosingSession()
    with pytest.raises(MetadataUnavailableError, match=r"zk://h:2181/ledgers.*try again$") as caught:
        await LedgerIds(session, Paths("/ledgers")).draw(LayoutType.HIERARCHICAL)
    assert isinstance(caught.value.__cause__, MetadataOutcomeUnknownError)
