"""A connection to a cluster: `readTimeoutMs` bounds all of its opening, and what was opened is closed."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from unittest import mock

import pytest

from ledger.errors import RequestTimeoutError
from spark_connector import cluster


def test_a_store_that_answers_nothing_after_it_was_opened_is_waited_for_no_longer() -> None:
    done: list[str] = []

    async def no_answer() -> None:
        await asyncio.Event().wait()

    async def close() -> None:
        done.append("closed")

    async def open_store(*_: object) -> object:
        return SimpleNamespace(
            watch_bookies=lambda _: lambda: done.append("unwatched"), bookies=no_answer, close=close
        )

    async def main() -> None:
        async with asyncio.timeout(30):
            with pytest.raises(RequestTimeoutError, match="did not answer within readTimeoutMs=50"):
                async with cluster.open_cluster("memory:x", 50):
                    pytest.fail("nothing was open")

    with mock.patch.object(cluster, "open_store", open_store):
        asyncio.run(main())
    assert done == ["unwatched", "closed"]
