"""A trim next to other changes of the log's record."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.helpers.ledger.scripted_bookies import GUARD_S
from tests.helpers.log.scripted_log import payloads, scripted_log


@pytest.mark.parametrize("change", ["takeover", "rotation"])
async def test_a_trim_never_overwrites_a_change_that_it_has_not_seen(change: str) -> None:
    """Else the ledger of an acknowledged message would be in no list (docs/log-semantics.md#rule-1)."""
    async with scripted_log() as log, log.client() as administrator, log.client() as client:
        writer = await client.open_writer("orders", create=True)
        one = await writer.append(b"one")
        logs: Any = administrator.logs
        read = logs.read

        async def then_it_changes(*args: Any, **options: Any) -> Any:
            found = await read(*args, **options)
            logs.read = read
            if change == "takeover":
                await (await client.open_writer("orders")).append(b"two")
            else:
                await writer.rotate()
                await writer.append(b"two")
            return found

        logs.read = then_it_changes
        async with asyncio.timeout(GUARD_S):
            trimmed = await administrator.shrink("orders", one)
        record = (await client.describe("orders")).record
        assert trimmed.trim_before == record.trim_before == one
        assert len(record.ledgers) == 2
        assert record.epoch == (2 if change == "takeover" else 1)
        assert await payloads(client, "orders") == [b"one", b"two"]
