"""A log whose deletion was interrupted, read in every way, on a simulated cluster (docs/log-semantics.md#rule-30)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.errors import LogNotFoundError
from dlog.model import LogState
from dlog.testing import SimulatedCluster, simulate

LOG = "orders"
Scene = Callable[[LogClient], Awaitable[None]]
THEN = datetime(2000, 1, 1, tzinfo=UTC)

RANGES: dict[str, dict[str, Any]] = {
    "all": {},
    "up to the tail": {"until": "latest"},
    "from the tail": {"start": "latest"},
    "nothing before the tail": {"start": "latest", "until": "latest"},
    "up to an id": {"until": "3:0:0"},
    "up to a time": {"until": THEN},
    "from an id to the tail": {"start": "1:0:0", "until": "latest"},
    "from an id": {"start": "1:0:0"},
    "after an id": {"after": "1:0:0", "until": "latest"},
    "nothing between two ids": {"start": "2:0:0", "until": "2:0:0"},
    "from a time to the tail": {"start": THEN, "until": "latest"},
    "from a time": {"start": THEN},
    "the last n": {"last": 2, "until": "latest"},
    "the last n and what follows": {"last": 2},
    "a new cursor": {"cursor": "new", "until": "latest"},
    "a new cursor at an id": {"cursor": "new", "start": "1:0:0", "until": "latest"},
    "a new cursor at the tail": {"cursor": "new", "start": "latest"},
    "a new cursor at a time": {"cursor": "new", "start": THEN, "until": "latest"},
    "an old cursor": {"cursor": "old", "until": "latest"},
    "an old cursor at an id": {"cursor": "old", "until": "1:0:0"},
}


def play(scene: Scene) -> None:
    """With a log of three ledgers and a cursor, all of whose ledgers have left the list and none was deleted."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            async with client.open_writer(LOG, create=True) as writer:
                for number in range(3):
                    await writer.append(b"%d" % number)
                    await writer.rotate()
            await client.set_cursor(LOG, "old", "1:0:0")

            async def fail(*_arguments: object, **_options: object) -> None:
                raise RuntimeError("the process ends here")

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(client.ledgers, "delete", fail)
                with pytest.raises(RuntimeError):
                    await client.delete(LOG)
            assert (await client.describe(LOG)).record.state is LogState.DELETING
            await scene(client)
            assert await client.delete(LOG)

    simulate(main)


@pytest.mark.parametrize("wanted", RANGES.values(), ids=RANGES)
def test_no_range_of_it_can_be_read(wanted: dict[str, Any]) -> None:
    """It must not look like a log that is empty; and no cursor is created in it."""

    async def scene(client: LogClient) -> None:
        with pytest.raises(LogNotFoundError, match="is being deleted"):
            async with client.reader(LOG, **wanted) as reader:
                await reader.poll(5.0)
        assert [cursor.name for cursor in await client.cursors(LOG)] == ["old"]

    play(scene)


@pytest.mark.parametrize("position", ["earliest", "latest", "1:0:0", THEN])
def test_no_cursor_of_it_can_be_set(position: str | datetime) -> None:
    async def scene(client: LogClient) -> None:
        for name in ("new", "old"):
            with pytest.raises(LogNotFoundError, match="is being deleted"):
                await client.set_cursor(LOG, name, position)
        [old] = await client.cursors(LOG)
        assert str(old.position) == "1:0:0"

    play(scene)


def test_nothing_is_reported_of_what_it_held() -> None:
    """No distance to its end, no copies without damage, and no message that never was."""

    async def scene(client: LogClient) -> None:
        for asked in (client.cursor_lag(LOG, "old"), client.verify(LOG), client.explain(LOG, "1:0:0")):
            with pytest.raises(LogNotFoundError, match="is being deleted"):
                await asked

    play(scene)


def test_it_can_be_looked_at() -> None:
    async def scene(client: LogClient) -> None:
        found = await client.overview(LOG)
        assert found.info.record.state is LogState.DELETING
        assert found.messages == 0
        assert await client.list_ledgers(LOG) == []
        assert await client.list() == [LOG]

    play(scene)
