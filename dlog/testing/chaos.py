"""What goes wrong in a swarm run, one thing after another, at times and in an order that the seed decides.

Within the contract anything may happen to any number of bookies that leaves what they synced: progress may stop,
nothing acknowledged may be lost. So there is no budget but one: whoever was hurt is left alone until it is well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import get_args

from dlog.testing.bookies import SimulatedBookie
from dlog.testing.cluster import SimulatedCluster
from dlog.testing.faults import DiskFault, MetadataFault
from dlog.testing.nodes import context_of
from dlog.testing.plan import Plan

_RATES: dict[str, float] = {
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


class Chaos:
    """Hurts the cluster while `run` runs. Clients that were killed are started again by `revive`."""

    def __init__(
        self, plan: Plan, cluster: SimulatedCluster, clients: list[str], revive: Callable[[str], None]
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._clients = clients
        self._revive = revive
        self._loop = cluster.loop
        self._chance: Random = cluster.loop.seeds.stream("faults")
        self._over = False
        self._reviving = True
        self._actions: dict[str, Callable[[], None]] = {
            name.removeprefix("_do_"): getattr(self, name) for name in dir(self) if name.startswith("_do_")
        }
        for bookie in cluster.bookies:
            bookie.on_end = self._bookie_ended

    async def run(self) -> None:
        self._set_rates()
        acts = [name for name in self._plan.faults if name in self._actions]
        end = self._loop.time() + self._plan.chaos_s
        while (pause_s := self._chance.expovariate(1 / self._plan.fault_every_s)) < end - self._loop.time():
            await asyncio.sleep(pause_s)
            if acts:
                self._actions[self._chance.choice(acts)]()
        await asyncio.sleep(max(0.0, end - self._loop.time()))
        self._over = True

    def leave_the_dead(self) -> None:
        """Whoever ends from now on stays so: the run is at its end."""
        self._reviving = False

    def _set_rates(self) -> None:
        for name in self._plan.faults:
            if name in get_args(MetadataFault):
                self._cluster.metadata.faults.rates[name] = _RATES[name]  # type: ignore[index]  # just checked
            elif name in get_args(DiskFault) and name in _RATES:
                for bookie in self._cluster.bookies:
                    bookie.disk.faults.rates[name] = _RATES[name]  # type: ignore[index]

    def _later(self, delay_s: float, work: Callable[[], None]) -> None:
        """In the world; nothing comes after the chaos, which then heals everything at once."""
        self._loop.call_later(delay_s, self._unless_over, work, context=context_of(self._loop.world))

    def _unless_over(self, work: Callable[[], None]) -> None:
        if not self._over:
            work()

    def _for_a_while(self, longest_s: float) -> float:
        return longest_s * self._chance.choice((0.05, 0.3, 1.0)) * self._chance.random()

    # ---- victims

    def _bookie(self) -> SimulatedBookie | None:
        well = [each for each in self._cluster.bookies if each.serving and not each.node.stopped]
        return self._chance.choice(well) if well else None

    def _client(self) -> str | None:
        well = [name for name in self._clients if not self._cluster.process(name).stopped]
        return self._chance.choice(well) if well else None

    def _anybody(self) -> str:
        return self._chance.choice([*self._clients, *(each.name for each in self._cluster.bookies)])

    def _link(self) -> tuple[str, str]:
        """Bookies do not talk to one another."""
        ends = [self._chance.choice(self._clients), self._chance.choice(self._cluster.bookies).name]
        self._chance.shuffle(ends)
        return ends[0], ends[1]

    # ---- network

    def _do_reset(self) -> None:
        if connections := self._cluster.network.connections():
            self._cluster.network.reset(self._chance.choice(connections))

    def _do_stall(self) -> None:
        if connections := self._cluster.network.connections():
            self._cluster.network.stall(self._chance.choice(connections), self._for_a_while(10))

    def _do_half_open(self) -> None:
        if connections := self._cluster.network.connections():
            self._cluster.network.half_open(self._chance.choice(connections))

    def _do_cut(self) -> None:
        source, target = self._link()
        self._cluster.network.cut(source, target)
        self._later(self._for_a_while(10), lambda: self._cluster.network.heal(source, target))

    def _do_cut_one_way(self) -> None:
        source, target = self._link()
        self._cluster.network.cut(source, target, one_way=True)
        self._later(self._for_a_while(10), lambda: self._cluster.network.heal(source, target, one_way=True))

    def _do_clog(self) -> None:
        self._cluster.network.clog(*self._link(), self._for_a_while(5))

    def _do_refuse(self) -> None:
        name = self._chance.choice(self._cluster.bookies).name
        self._cluster.network.refuse(name)
        self._later(self._for_a_while(5), lambda: self._cluster.network.refuse(name, refusing=False))

    def _do_isolate(self) -> None:
        self._cluster.network.isolate(self._anybody())
        self._later(self._for_a_while(8), self._cluster.network.heal_all)

    def _do_split(self) -> None:
        names = [*self._clients, *(each.name for each in self._cluster.bookies)]
        self._chance.shuffle(names)
        middle = self._chance.randint(1, len(names) - 1)
        self._cluster.network.split([names[:middle], names[middle:]])
        self._later(self._for_a_while(8), self._cluster.network.heal_all)

    # ---- processes

    def _do_kill_bookie(self) -> None:
        if (bookie := self._bookie()) is not None:
            self._kill(bookie)

    def _do_power_cut(self) -> None:
        if (bookie := self._bookie()) is not None:
            self._cut_power(bookie)

    def _do_power_cut_at_effect(self) -> None:
        """Between two effects of one job; the disk's next ones are the most interesting."""
        if (bookie := self._bookie()) is not None:
            ahead = self._chance.choice((1, 5, 50)) * self._chance.random()
            bookie.disk.crash_at_effect(bookie.disk.effects.count + 1 + int(ahead))

    def _do_kill_many(self) -> None:
        """More than the ensemble can bear: only time is lost."""
        kill = self._chance.choice((self._kill, self._cut_power))
        for bookie in self._cluster.bookies:
            if bookie.serving and self._chance.random() < 0.7:
                kill(bookie)

    def _kill(self, bookie: SimulatedBookie) -> None:
        bookie.kill()
        self._restart_later(bookie)

    def _cut_power(self, bookie: SimulatedBookie) -> None:
        bookie.power_cut()
        self._restart_later(bookie)

    def _bookie_ended(self, bookie: SimulatedBookie) -> None:
        if self._over:
            self._loop.call_later(1.0, self._start, bookie)
        else:
            self._restart_later(bookie)

    def _restart_later(self, bookie: SimulatedBookie) -> None:
        self._later(self._for_a_while(5), lambda: self._start(bookie))

    def _start(self, bookie: SimulatedBookie) -> None:
        if self._reviving and not bookie.running:
            bookie.start()

    def _do_pause_bookie(self) -> None:
        if (bookie := self._bookie()) is not None:
            self._pause(bookie.name)

    def _do_pause_client(self) -> None:
        if (name := self._client()) is not None:
            self._pause(name)

    def _pause(self, name: str) -> None:
        node = self._cluster.process(name)
        self._loop.pause(node)
        self._later(self._for_a_while(10), lambda: self._loop.resume(node))

    def _do_kill_client(self) -> None:
        if (name := self._client()) is not None:
            self._kill_client(name)

    def _kill_client(self, name: str) -> None:
        self._cluster.kill(name)
        self._later(self._for_a_while(3), lambda: self._revive(name))

    def _do_ambush(self) -> None:
        """A takeover that meets a bookie without the tail, and another that says nothing.

        One sleeps and misses the newest entries, and dies with what waited in its socket; the writers die; the
        first is back and denies them; a second one sleeps. Only the others can tell what was acknowledged.
        """
        denier, silent = self._bookie(), self._bookie()
        if denier is None or silent is None or denier is silent:
            return
        denier.pause()
        self._later(self._for_a_while(2), lambda: self._spring(denier, silent))

    def _spring(self, denier: SimulatedBookie, silent: SimulatedBookie) -> None:
        for name in self._clients:
            if name.startswith("writer") and self._cluster.process(name).alive:
                self._kill_client(name)
        denier.kill()
        denier.start()
        if silent.serving and not silent.node.stopped:
            self._pause(silent.name)

    # ---- disks

    def _arm(self, kind: DiskFault, parts: tuple[str, ...]) -> None:
        if (bookie := self._bookie()) is not None:
            number = 1 + int(self._chance.choice((1, 20)) * self._chance.random())
            bookie.disk.faults.arm(kind, self._chance.choice(parts), number=number)

    def _do_sync_error(self) -> None:
        self._arm("sync_error", ("journal", "entry-logs", "index", "log-mark", ""))

    def _do_write_error(self) -> None:
        self._arm("write_error", ("journal", "entry-logs", "index", ""))

    def _do_read_error(self) -> None:
        self._arm("read_error", ("entry-logs", "index", ""))

    def _do_disk_full(self) -> None:
        if (bookie := self._bookie()) is not None:
            room = self._chance.choice((0, 10_000, 200_000))
            bookie.disk.capacity_bytes = bookie.disk.used_bytes + int(room * self._chance.random())
            self._later(self._for_a_while(10), lambda: self._make_room(bookie))

    def _make_room(self, bookie: SimulatedBookie) -> None:
        bookie.disk.capacity_bytes = None

    # ---- metadata and clocks

    def _do_metadata_partition(self) -> None:
        name = self._anybody()
        self._cluster.metadata.partition(name)
        self._later(self._for_a_while(15), lambda: self._cluster.metadata.heal(name))

    def _do_session_loss(self) -> None:
        self._cluster.metadata.expire(self._anybody())

    def _do_clock_jump(self) -> None:
        name = self._anybody()
        by_s = self._chance.choice((-3600.0, -5.0, 5.0, 1e6)) * self._chance.random()
        self._cluster.process(name).clock.jump(by_s)
        self._cluster.trace.note("fault.clock_jump", name, f"by {by_s:+.3f} s")

    # ---- beyond the contract

    def _do_bit_rot(self) -> None:
        self._chance.choice(self._cluster.bookies).disk.rot(
            self._chance.choice(("entry-logs", "journal", ""))
        )

    def _do_lost_file(self) -> None:
        self._chance.choice(self._cluster.bookies).disk.lose_file(
            self._chance.choice(("entry-logs", "journal"))
        )

    def _do_misdirected_write(self) -> None:
        self._arm("misdirected_write", ("entry-logs", "journal"))

    def _do_index_damage(self) -> None:
        self._chance.choice(self._cluster.bookies).disk.damage_index(whole=self._chance.random() < 0.3)
