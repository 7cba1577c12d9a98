"""Operators of the swarm: they recover bookies and decommission them, while everything else goes on.

A decommissioned bookie is thrown away with all that it has: nothing may depend on it any more. One that comes back in
the middle keeps its place. An operator may be killed and paused at any step, and leaves then what it has begun.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random

from dlog.client import LogClient
from dlog.testing.bookies import SimulatedBookie
from dlog.testing.checks.checks import first_findings
from dlog.testing.checks.decommissions import (
    c23_nothing_depends_on_a_decommissioned_bookie,
    ledgers_that_name,
)
from dlog.testing.cluster import SimulatedCluster
from dlog.testing.swarm.repair.repairers import QUICK
from ledger.errors import AlreadyExistsError, OutcomeUnknownError, RecordNotFoundError, UnavailableError
from ledger.model import BookieId
from ledger.repair.draining import Drained, Draining

OPERATOR = "operator"
"""How the names of these processes begin."""
_CHECK = c23_nothing_depends_on_a_decommissioned_bookie.__name__
_PAUSE_S = 0.5
_SESSION_ENDS_S = 5.0
_LOOK_S = 0.2
_FAILURES = (UnavailableError, OutcomeUnknownError, RecordNotFoundError)


class Departures:
    """What all incarnations of all operators have begun, and bookies that stay need to serve again."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._cookies: dict[BookieId, bytes] = {}
        self._stops: set[asyncio.Task[None]] = set()

    def note(self, bookie_id: BookieId, cookie: bytes) -> None:
        """It is about to be decommissioned."""
        self._cookies[bookie_id] = cookie

    async def stop(self, bookie: SimulatedBookie) -> None:
        """It stops even if the operator is killed while it waits for that."""
        loop = self._cluster.loop
        task = loop.create_task_on(loop.world, bookie.stop(), name=f"{bookie.name} stops")
        self._stops.add(task)
        await asyncio.wait([task])

    async def undo(self, client: LogClient) -> None:
        """All operators have ended: what is not thrown away starts, with a cookie that is put back by hand if need be.

        A decommission may have ended between the removal of the cookie and its return.
        """
        store = client.ledgers.store
        kept = [each for each in self._cluster.bookies if not each.lost]
        for bookie_id in sorted({each.bookie_id for each in kept} & self._cookies.keys()):
            try:
                await store.write_cookie(bookie_id, self._cookies[bookie_id], None)
            except AlreadyExistsError:
                continue
        await asyncio.gather(*self._stops)
        for bookie in kept:
            if not bookie.running:
                bookie.start()


class SwarmOperator:
    """One process. It leaves as many bookies as ledgers need once those that the run may lose are lost."""

    def __init__(
        self,
        client: LogClient,
        cluster: SimulatedCluster,
        departures: Departures,
        chance: Random,
        *,
        kept: int,
    ) -> None:
        """`kept`: the bookies that must be left."""
        self.wrong: list[str] = []
        self.loud: list[str] = []
        self._client = client
        self._cluster = cluster
        self._departures = departures
        self._chance = chance
        self._kept = kept

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._chance.expovariate(1 / _PAUSE_S))
            bookie = self._chance.choice([each for each in self._cluster.bookies if not each.lost])
            if self._chance.random() < 0.9:  # otherwise it is refused
                await self._stop(bookie)
            for_good = self._chance.random() < 0.7
            done = await self._drained(bookie, for_good=for_good)
            if bookie.running or bookie.lost:
                continue
            # One with a cookie was started, wrote it back, and has stopped again: it is a member.
            is_member = self._cluster.metadata.cookie(bookie.bookie_id) is not None
            if for_good and done is not None and not done.left and not is_member:
                bookie.throw_away()
            else:
                bookie.start()

    async def _stop(self, bookie: SimulatedBookie) -> None:
        if self._chance.random() < 0.5:
            await self._departures.stop(bookie)
        else:
            bookie.kill()
        if self._chance.random() < 0.8:
            with suppress(TimeoutError):
                async with asyncio.timeout(_SESSION_ENDS_S):
                    while self._client.ledgers.bookies().find(bookie.bookie_id) is not None:  # noqa: ASYNC110
                        await asyncio.sleep(_LOOK_S)

    async def _drained(self, bookie: SimulatedBookie, *, for_good: bool) -> Drained | None:
        """What became of its ledgers; None if it is not known, or was refused."""
        draining = Draining(self._client.ledgers, bookie.bookie_id, QUICK)
        try:
            if not for_good:
                return await draining.recover()
            others = [each for each in self._cluster.bookies if each.sound and each is not bookie]
            if len(others) < self._kept:
                return None
            cookie = await self._client.ledgers.store.read_cookie(bookie.bookie_id)
            self._departures.note(bookie.bookie_id, cookie.value)
            metadata = self._cluster.metadata
            before = ledgers_that_name(metadata, bookie.bookie_id)
            done = await draining.decommission()
            if not done.left:
                found = c23_nothing_depends_on_a_decommissioned_bookie(metadata, bookie.bookie_id, before)
                self.wrong += first_findings(_CHECK, found)
            return done
        except _FAILURES:
            return None
        finally:
            await draining.close()
