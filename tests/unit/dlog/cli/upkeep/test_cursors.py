"""What `dlog cursor ls` measures. The command itself: tests/integration/cli/test_cursors.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import cast

import pytest

from dlog.cli.options import TableOutput
from dlog.cli.upkeep import cursors
from dlog.client import LogClient
from dlog.errors import CursorNotFoundError, DataLossError, EntryFormatError
from dlog.model import Cursor, MessageId
from dlog.read.backlog import Lag
from dlog.testing import SimulatedCluster, simulate
from dlog.together import AT_ONCE
from ledger.errors import DigestMismatchError

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


def test_cursors_are_listed_while_their_distance_cannot_be_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The positions are in the metadata store, which responds; the bookies do not."""

    async def main(cluster: SimulatedCluster) -> list[tuple[Cursor, Lag | None]]:
        async with await cluster.client() as client:
            writer = await client.open_writer(LOG, create=True)
            await writer.append(b"one")
            await client.set_cursor(LOG, "billing", "earliest")
            for number in range(3):
                cluster.kill_bookie(number)
            writer.abort()
            return await cursors._cursors(client, LOG)

    assert_listed_as_unknown(simulate(main, seed=1), monkeypatch, capsys)


@pytest.mark.parametrize(
    "error",
    [
        DataLossError("ledger 3 does not exist"),
        EntryFormatError("an entry is damaged"),
        DigestMismatchError("no copy of an entry is intact"),
    ],
)
async def test_cursors_of_a_log_that_lost_data_are_listed(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class OneCursor:
        async def cursors(self, _: str) -> Sequence[Cursor]:
            return [Cursor(name="billing", position=MessageId(0, 0, 0))]

        async def cursor_lag(self, log: str, cursor: str) -> Lag:
            raise error

    found = await cursors._cursors(cast(LogClient, OneCursor()), LOG)
    assert_listed_as_unknown(found, monkeypatch, capsys)


def assert_listed_as_unknown(
    found: list[tuple[Cursor, Lag | None]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    position = str(found[0][0].position)
    monkeypatch.setattr(cursors, "administer", lambda *_: found)
    cursors.list_cursors(LOG)
    _, line = capsys.readouterr().out.splitlines()
    assert line.split()[:5] == ["billing", position, "-", "-", "-"]
    cursors.list_cursors(LOG, output=TableOutput.JSON)
    [listed] = json.loads(capsys.readouterr().out)
    assert (listed["cursor"], listed["position"]) == ("billing", position)
    assert {listed[f"{unit}_behind"] for unit in ("messages", "bytes", "entries", "ledgers")} == {None}
