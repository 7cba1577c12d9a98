"""A bookie ends up on the list that its disks ask for, whatever the store answers on the way."""

from __future__ import annotations

import asyncio

from bookie_server.registration import Presence
from dlog.testing.loop import SimulatedLoop
from dlog.testing.seeds import Seeds
from ledger.errors import MetadataOutcomeUnknownError


class DoubtfulStore:
    """Applies each request; the first answer is lost."""

    def __init__(self) -> None:
        self.read_only = False
        self.requests = 0

    async def set_read_only(self, read_only: bool) -> None:
        self.requests += 1
        self.read_only = read_only
        await asyncio.sleep(0.1)
        if self.requests == 1:
            raise MetadataOutcomeUnknownError("the answer was lost")

    async def close(self) -> None:
        pass


def test_a_change_of_which_nothing_is_known_is_undone_when_it_is_not_wanted_any_more() -> None:
    """The disk fills, the store applies the change and its answer is lost, the disk has room again."""

    async def main() -> None:
        store = DoubtfulStore()
        presence = Presence(store, writable=True)
        presence.want(writable=False)
        await asyncio.sleep(0.5)
        assert store.read_only
        presence.want(writable=True)
        await asyncio.sleep(60)
        assert not store.read_only

    loop = SimulatedLoop(Seeds(1))
    try:
        loop.run(main())
    finally:
        loop.close()
