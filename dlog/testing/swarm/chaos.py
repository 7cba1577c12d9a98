"""What goes wrong in a swarm run, one thing after another: drawn by the seed as it goes, or given in the plan.

A run whose plan gives the actions that another run has drawn is the same run. Rates of single operations that the
plan's faults switch on come besides, in both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from math import inf
from pathlib import PurePath
from typing import get_args

from dlog.testing.bookies import SimulatedBookie
from dlog.testing.checks.waits import Pause
from dlog.testing.cluster import SimulatedCluster
from dlog.testing.kernel.faults import DiskFault, MetadataFault
from dlog.testing.kernel.loop import START_S
from dlog.testing.kernel.nodes import context_of
from dlog.testing.swarm.actions import Action
from dlog.testing.swarm.fault_injector import METADATA, FaultInjector
from dlog.testing.swarm.lasting_faults import LastingFaults
from dlog.testing.swarm.plan import TIMELY, Plan
from dlog.testing.swarm.scenes import Scenes

RATES: dict[str, float] = {
    "metadata_unavailable": 0.03,
    "metadata_request_lost": 0.03,
    "metadata_request_late": 0.03,
    "metadata_answer_lost": 0.03,
    "watch_late": 0.2,
    "watch_lost": 0.1,
    "watch_spurious": 0.1,
    "slow_sync": 0.01,
    "short_write": 0.05,
}
"""How likely each operation suffers."""
_ARMED_BEFORE_S = 20e-6
"""A fault that is to strike the same operation again is armed so long before it."""


class Chaos:
    """Hurts the cluster while `run` runs. Clients that were killed are started again by `revive`."""

    def __init__(
        self, plan: Plan, cluster: SimulatedCluster, clients: list[str], revive: Callable[[str], None]
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._loop = cluster.loop
        self._chance = cluster.loop.seeds.stream("faults")
        self._drawing = Scenes(cluster, clients, self._chance)
        self._harm = FaultInjector(cluster, revive)
        self._lasting = LastingFaults(plan, clients, cluster.loop.seeds.stream("lasting faults"))
        self._harm.on_joined = self._joined
        self._timely = Scenes(cluster, clients, cluster.loop.seeds.stream("timely faults"))
        self._known: list[Action] = []
        self._due = inf
        self._woken: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.drawn: list[Action] = []
        """What the seed has drawn, if the plan gives no actions."""
        self.struck: list[Action] = []
        """What came by rates, as actions that would strike the same operations."""

    @property
    def pauses(self) -> list[Pause]:
        """Who was stopped, when and for how long."""
        return self._harm.pauses

    async def run(self) -> None:
        self._set_rates()
        end = self._loop.now + self._plan.chaos_s
        kinds = self._drawing.kinds(self._plan.faults)
        draws = self._plan.actions is None
        self._know(self._plan.actions or ())
        draw_at = self._next_draw() if draws else inf
        if draws:
            self._draw(self._lasting.draw())
        if draws and TIMELY in self._plan.faults:
            self._cluster.metadata.on_change_sent = self._strike_in_time
        while (due := await self._until(min(draw_at, self._next_known(), end))) < end:
            if due == draw_at:
                self._draw(self._drawing.draw(kinds, due - START_S))
                draw_at = self._next_draw()
            while self._next_known() <= due:
                self._harm.do(self._known.pop(0))
        self._cluster.metadata.on_change_sent = lambda _: None
        self._harm.end()

    def leave_the_dead(self) -> None:
        """Whoever ends from now on stays so: the run is at its end."""
        self._harm.leave_the_dead()

    def _draw(self, actions: list[Action]) -> None:
        self.drawn += actions
        self._know(actions)

    def _know(self, actions: Iterable[Action]) -> None:
        self._known = sorted([*self._known, *actions], key=lambda each: each.at_s)

    def _next_known(self) -> float:
        return START_S + self._known[0].at_s if self._known else inf

    def _strike_in_time(self, name: str) -> None:
        """A client is about to change metadata: whatever it does next is done in this order for a reason."""
        self._draw(self._timely.draw_at_a_change(self._plan.faults, name, self._loop.now - START_S))
        if self._woken is not None and self._next_known() < self._due:
            assert self._timer is not None
            self._timer.cancel()
            self._wake_at(self._next_known())

    def _next_draw(self) -> float:
        return self._loop.now + self._chance.expovariate(1 / self._plan.fault_every_s)

    async def _until(self, due: float) -> float:
        """A timer for exactly then: time that went through a difference would not be the same again.

        Returns when that was; it may have become earlier in the meantime.
        """
        self._woken = self._loop.create_future()
        self._wake_at(due)
        await self._woken
        self._woken = None
        return self._due

    def _wake_at(self, due: float) -> None:
        assert self._woken is not None
        self._due = due
        world = context_of(self._loop.world)
        self._timer = self._loop.call_at(due, self._woken.set_result, None, context=world)

    # ---- rates

    def _set_rates(self) -> None:
        metadata = self._cluster.metadata.faults
        metadata.on_chance = partial(self._strike, METADATA)
        for name in self._plan.faults:
            if name in get_args(MetadataFault):
                metadata.rates[name] = RATES[name]  # type: ignore[index]  # just checked
        for bookie in self._cluster.bookies:
            self._joined(bookie)

    def _joined(self, bookie: SimulatedBookie) -> None:
        bookie.disk.faults.on_chance = partial(self._strike, bookie.name)
        for name in self._plan.faults:
            if name in get_args(DiskFault) and name in RATES:
                bookie.disk.faults.rates[name] = RATES[name]  # type: ignore[index]  # just checked

    def _strike(self, who: str, kind: str, subject: str) -> None:
        # Names of files change with everything that was written before; those of directories do not.
        part = subject if who == METADATA else PurePath(subject).parent.name
        at_s = self._loop.now - START_S - _ARMED_BEFORE_S
        self.struck.append(Action(at_s=at_s, kind=kind, who=who, part=part, number=1))
