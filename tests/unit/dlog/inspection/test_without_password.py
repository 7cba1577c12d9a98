"""Who looks after all logs of a namespace need not have the password of each: `dlog gc` and `dlog top` have none."""

from __future__ import annotations

import pytest

from dlog.cli.upkeep.cursors import _cursors
from dlog.config import LogConfig
from dlog.inspection.activity import ActivityMonitor
from dlog.model import Retention
from dlog.testing import SimulatedCluster, simulate
from ledger.errors import UnauthorizedError

OWNER = LogConfig(password=b"of the log")


def test_what_asks_the_record_needs_no_password() -> None:
    """A trim only counts the messages of one entry, which may go uncounted as when bookies are down."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client(config=OWNER) as owner, await cluster.client() as other:
            async with owner.open_writer("orders", create=True) as writer:
                ids = []
                for number in range(4):
                    ids.append(await writer.append(b"%d" % number))
                    await writer.rotate()
                assert (await other.shrink("orders", ids[1])).trim_before == ids[1]
                await other.set_retention("orders", Retention(max_messages=1))
                assert (await other.apply_retention("orders")).ledgers == 1
                listed = await other.list_ledgers("orders")
                assert [each.ledger_id for each in listed[:2]] == [ids[2].ledger_id, ids[3].ledger_id]
                assert [event.listed for event in await other.history("orders")] == listed
                with pytest.raises(UnauthorizedError):
                    await other.overview("orders")
            async with owner.reader("orders", until="latest") as reader:
                assert [message.id async for message in reader] == ids[2:]
            with pytest.raises(UnauthorizedError):
                await anext(other.reader("orders"))

    simulate(main)


def test_cursors_are_listed_without_their_lag() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with (
            await cluster.client(config=OWNER) as owner,
            await cluster.client() as other,
            owner.open_writer("orders", create=True) as writer,
        ):
            first = await writer.append(b"1")
            await owner.set_cursor("orders", "c", first)
            [(cursor, lag)] = await _cursors(other, "orders")
            assert (cursor.position, lag) == (first, None)

    simulate(main)


def test_a_log_with_another_password_is_one_of_many_logs() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with (
            await cluster.client(config=OWNER) as owner,
            await cluster.client() as other,
            owner.open_writer("closed", create=True) as one,
            other.open_writer("open", create=True) as two,
            other.metadata_cache() as cache,
        ):
            await one.append(b"1")
            last = await two.append(b"2")
            await cache.follow_logs(["closed", "open"])
            found = {each.info.ref.name.name: each for each in await ActivityMonitor(other, cache).measure()}
            assert found["closed"].tail is None and found["closed"].newest is not None
            assert found["open"].tail == last._replace(entry_id=last.entry_id + 1)

    simulate(main)
