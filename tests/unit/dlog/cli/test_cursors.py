"""What `dlog cursor ls` measures. The command itself: tests/integration/cli/test_cursors.py."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

from dlog.cli import cursors
from dlog.client import LogClient
from dlog.errors import CursorNotFoundError
from dlog.model import Cursor, MessageId
from dlog.read.backlog import Lag
from dlog.together import AT_ONCE

LOG = "orders"


class ManyCursors:
    """A client whose log has many cursors; distances are measured until `AT_ONCE` of them are at the same time."""

    def __init__(self) -> None:
        self.running = 0
        self._full = asyncio.Event()

    async def cursors(self, log: str) -> Sequence[Cursor]:
        assert log == LOG
        return [Cursor(name=f"c{number}", position=MessageId(number, 0, 0)) for number in range(2 * AT_ONCE)]

    async def cursor_lag(self, log: str, cursor: str) -> Lag:
        assert log == LOG
        self.running += 1
        if self.running == AT_ONCE:
            self._full.set()
        await self._full.wait()
        self.running -= 1
        if cursor == "c3":
            raise CursorNotFoundError("it was removed", log=log, cursor=cursor)
        return Lag(int(cursor[1:]), 0)


async def test_distances_are_measured_at_the_same_time_and_listed_in_order() -> None:
    async with asyncio.timeout(10):
        found = await cursors._cursors(cast(LogClient, ManyCursors()), LOG)
    expected = [number for number in range(2 * AT_ONCE) if number != 3]
    assert [(cursor.name, lag) for cursor, lag in found] == [
        (f"c{number}", Lag(number, 0)) for number in expected
    ]
