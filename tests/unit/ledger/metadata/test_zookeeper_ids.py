"""Ledger ids, drawn on a session whose answers are lost, or on a server that lags behind the others."""

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


class _LaggingServer:
    """It does not know of the high bits 8 until it has made a change for us, which the others have put behind them.

    `known` are those of which it knows before.
    """

    def __init__(self, known: list[str]) -> None:
        self._known = known
        self._numbers: dict[str, int] = {}

    def exists(self, path: str) -> asyncio.Future[Any]:
        return _answered(object() if self._known else None)

    def children(self, path: str) -> asyncio.Future[list[str]]:
        return _answered(self._known)

    def create(self, path: str, value: bytes = b"", **options: bool) -> asyncio.Future[str]:
        self._known = [*self._known, "HOB-0000000008"]
        number = self._numbers.get(path, 0)
        self._numbers[path] = number + 1
        return _answered(f"{path}{number:010d}")

    def delete(self, path: str) -> asyncio.Future[None]:
        return _answered(None)

    def forget(self, future: asyncio.Future[Any]) -> None:
        pass


def _answered(value: Any) -> asyncio.Future[Any]:
    future = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future


@pytest.mark.parametrize("known", [[], ["HOB-0000000001"]])
async def test_an_id_from_a_server_that_lags_is_above_those_that_are_passed_by(known: list[str]) -> None:
    """A bookie with ledgers below these high bits has had them passed by, at another server."""
    session: Any = _LaggingServer(known)
    ids = LedgerIds(session, Paths("/ledgers"))
    ids._is_long = bool(known)
    ledger_id, node = await ids.draw(LayoutType.HIERARCHICAL)
    assert (ledger_id, node) == (8 << 32, "/ledgers/idgen-long/HOB-0000000008/ID-0000000000")
