"""Carries an action out: what each kind does to the cluster, and what mends it after a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import get_args

from bookie_server.cookie import COOKIE_FILE
from bookie_server.storage.storage_paths import ENTRY_LOGS
from dlog.testing.bookies import DATA, SimulatedBookie
from dlog.testing.checks.waits import Pause
from dlog.testing.cluster import SimulatedCluster
from dlog.testing.disk.disk import SimulatedDisk
from dlog.testing.disk.settled import is_survived_unreadable
from dlog.testing.kernel.faults import DiskFault, MetadataFault
from dlog.testing.kernel.nodes import context_of
from dlog.testing.network.connections import Connection
from dlog.testing.swarm.actions import Action

METADATA = "metadata"
"""Whom an action names whose victim is the store."""


class FaultInjector:
    """Does one thing at a time; nothing of it lasts beyond `end`. Clients are started again by `revive`."""

    def __init__(self, cluster: SimulatedCluster, revive: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._network = cluster.network
        self._revive = revive
        self._loop = cluster.loop
        self.pauses: list[Pause] = []
        """Who was stopped, when and for how long."""
        self._over = False
        self._reviving = True
        self._leaving: list[asyncio.Task[None]] = []
        self._does: dict[str, Callable[[Action], None]] = {
            name.removeprefix("_do_"): getattr(self, name) for name in dir(self) if name.startswith("_do_")
        }
        self._does |= dict.fromkeys(get_args(DiskFault), self._arm_disk)
        self._does |= dict.fromkeys(get_args(MetadataFault), self._arm_store)
        for bookie in cluster.bookies:
            bookie.on_end = self._bookie_ended
        self.on_joined: Callable[[SimulatedBookie], None] = lambda _: None
        """Called with each bookie that joins."""

    def do(self, action: Action) -> None:
        if self._is_there(action.who):
            self._does[action.kind](action)

    def end(self) -> None:
        """Drop planned repairs: the caller heals everything now."""
        self._over = True

    def leave_the_dead(self) -> None:
        """Whoever ends from now on stays so: the run is at its end."""
        self._reviving = False

    def _is_there(self, name: str) -> bool:
        """A plan may have been made smaller than the one that its actions were drawn for."""
        return name in ("", METADATA) or self._node_exists(name)

    def _node_exists(self, name: str) -> bool:
        return any(node.name == name for node in self._loop.nodes())

    def _later(self, delay_s: float, work: Callable[[], None]) -> None:
        """In the world; nothing comes after the chaos, which then heals everything."""
        self._loop.call_later(delay_s, self._unless_over, work, context=context_of(self._loop.world))

    def _unless_over(self, work: Callable[[], None]) -> None:
        if not self._over:
            work()

    def _do_nothing(self, action: Action) -> None:
        """Time passed."""

    # ---- network

    def _connection(self, action: Action) -> Connection | None:
        connections = self._network.connections(action.who, action.to)
        return connections[action.number % len(connections)] if connections else None

    def _do_reset(self, action: Action) -> None:
        if (connection := self._connection(action)) is not None:
            self._network.reset(connection)

    def _do_stall(self, action: Action) -> None:
        if (connection := self._connection(action)) is not None:
            self._network.stall(connection, action.for_s)

    def _do_half_open(self, action: Action) -> None:
        if (connection := self._connection(action)) is not None:
            self._network.half_open(connection)

    def _do_cut(self, action: Action) -> None:
        self._network.cut(action.who, action.to)
        self._later(action.for_s, lambda: self._network.heal(action.who, action.to))

    def _do_cut_one_way(self, action: Action) -> None:
        self._network.cut(action.who, action.to, one_way=True)
        self._later(action.for_s, lambda: self._network.heal(action.who, action.to, one_way=True))

    def _do_clog(self, action: Action) -> None:
        self._network.clog(action.who, action.to, action.for_s)

    def _do_refuse(self, action: Action) -> None:
        self._network.refuse(action.who)
        self._later(action.for_s, lambda: self._network.refuse(action.who, refusing=False))

    def _do_isolate(self, action: Action) -> None:
        self._network.isolate(action.who)
        self._later(action.for_s, self._network.heal_all)

    def _do_split(self, action: Action) -> None:
        side = action.to.split()
        others = [node.name for node in self._loop.nodes() if node is not self._loop.world]
        self._network.split([side, [name for name in others if name not in side]])
        self._later(action.for_s, self._network.heal_all)

    # ---- processes

    def _do_kill_bookie(self, action: Action) -> None:
        bookie = self._cluster.bookie(action.who)
        if bookie.running:
            bookie.kill()
            self._restart(bookie, action.for_s)

    def _do_restart_bookie(self, action: Action) -> None:
        bookie = self._cluster.bookie(action.who)
        if bookie.running:
            bookie.kill()
            self._start(bookie)

    def _do_power_cut(self, action: Action) -> None:
        bookie = self._cluster.bookie(action.who)
        if bookie.running:
            bookie.power_cut()
            self._restart(bookie, action.for_s)

    def _do_power_cut_at_effect(self, action: Action) -> None:
        disk = self._cluster.bookie(action.who).disk
        disk.crash_at_effect(disk.effects.count + action.number)

    def _bookie_ended(self, bookie: SimulatedBookie) -> None:
        """By itself: after a failure of its disk, or at a planned effect."""
        if self._over:
            self._loop.call_later(1.0, self._start, bookie)
        else:
            chance = self._loop.seeds.stream(f"restarts of {bookie.name}")
            self._restart(bookie, 5.0 * chance.choice((0.05, 0.3, 1.0)) * chance.random())

    def _restart(self, bookie: SimulatedBookie, after_s: float) -> None:
        self._later(after_s, lambda: self._start(bookie))

    def _start(self, bookie: SimulatedBookie) -> None:
        if self._reviving and not bookie.running and not bookie.lost:
            bookie.start()

    def _do_lost_process(self, action: Action) -> None:
        self._cluster.bookie(action.who).lose(host_too=False)

    def _do_lost_host(self, action: Action) -> None:
        self._cluster.bookie(action.who).lose(host_too=True)

    def _do_lost_disk(self, action: Action) -> None:
        """A start finds nothing of what the cookie in the store stands for. It is tried once."""
        bookie = self._cluster.bookie(action.who)
        if bookie.lost:
            return
        bookie.kill()
        bookie.disk.wipe()
        bookie.start()
        bookie.lost = True
        self._cluster.trace.note("fault.lost_bookie", bookie.name, "its disk is lost")

    def _do_join_bookie(self, action: Action) -> None:
        bookie = self._cluster.add_bookie()
        bookie.on_end = self._bookie_ended
        self.on_joined(bookie)
        self._cluster.trace.note("fault.join", bookie.name, "")

    def _do_leave_bookie(self, action: Action) -> None:
        bookie = self._cluster.bookie(action.who)
        if bookie.serving:
            self._cluster.trace.note("fault.leave", bookie.name, "")
            leaving = self._leave(bookie, action.for_s)
            self._leaving.append(
                self._loop.create_task_on(self._loop.world, leaving, name=f"{bookie.name} leaves")
            )

    async def _leave(self, bookie: SimulatedBookie, for_s: float) -> None:
        """Come back even if the chaos has ended by then: a stop takes as long as its store lets it."""
        await bookie.stop()
        await asyncio.sleep(0.0 if self._over else for_s)
        self._start(bookie)

    def _do_pause_bookie(self, action: Action) -> None:
        if self._cluster.bookie(action.who).serving:
            self._pause(action)

    def _do_pause_client(self, action: Action) -> None:
        self._pause(action)

    def _pause(self, action: Action) -> None:
        node = self._cluster.process(action.who)
        if not node.stopped:
            self._loop.pause(node)
            self.pauses.append(Pause(action.who, self._loop.now, action.for_s))
            self._later(action.for_s, lambda: self._loop.resume(node))

    def _do_kill_client(self, action: Action) -> None:
        if self._cluster.process(action.who).alive:
            self._cluster.kill(action.who)
            self._later(action.for_s, lambda: self._revive(action.who))

    # ---- disks

    def _arm_disk(self, action: Action) -> None:
        kind: DiskFault = action.kind  # type: ignore[assignment]  # as its entry among `_does` says
        self._cluster.bookie(action.who).disk.faults.arm(kind, action.part, number=action.number)

    def _do_disk_full(self, action: Action) -> None:
        disk = self._cluster.bookie(action.who).disk
        disk.capacity_bytes = disk.used_bytes + action.number
        self._later(action.for_s, lambda: self._make_room(action.who))

    def _make_room(self, name: str) -> None:
        self._cluster.bookie(name).disk.capacity_bytes = None

    def _do_directory_full(self, action: Action) -> None:
        """Number 0 is the one with the index; only its entry logs are on a disk of their own."""
        more = self._cluster.bookie(action.who).more_directories
        places = [DATA / "ledgers" / ENTRY_LOGS, *more]
        full = self._cluster.bookie(action.who).disk.full_directories
        place = places[action.number % len(places)]
        full.add(place)
        self._cluster.trace.note("fault.directory_full", action.who, str(place))
        self._later(action.for_s, lambda: full.discard(place))

    def _do_lost_directory(self, action: Action) -> None:
        bookie = self._cluster.bookie(action.who)
        # A bookie whose whole disk was just replaced has made none yet.
        if bookie.running and any(map(bookie.disk.exists, bookie.more_directories[-1:])):
            bookie.kill()
            bookie.damaged = True
            bookie.lose_directory()
            self._start(bookie)

    def _do_no_descriptors(self, action: Action) -> None:
        self._cluster.bookie(action.who).disk.opens_files = False
        self._later(action.for_s, lambda: self._open_files(action.who))

    def _open_files(self, name: str) -> None:
        self._cluster.bookie(name).disk.opens_files = True

    def _do_nearly_full(self, action: Action) -> None:
        self._cluster.bookie(action.who).disk.nearly_full = True
        self._cluster.trace.note("fault.nearly_full", action.who, "")
        self._later(action.for_s, lambda: self._empty(action.who))

    def _empty(self, name: str) -> None:
        self._cluster.bookie(name).disk.nearly_full = False

    def _damaged(self, action: Action) -> SimulatedDisk:
        """The disk of a bookie that is about to lose something durable."""
        bookie = self._cluster.bookie(action.who)
        bookie.damaged = bookie.may_refuse_to_start = True
        return bookie.disk

    def _do_settled_rot(self, action: Action) -> None:
        self._damaged(action).rot_settled(action.part)

    def _do_bad_sectors(self, action: Action) -> None:
        bookie = self._cluster.bookie(action.who)
        bookie.damaged = True
        path = bookie.disk.rot_settled(action.part, sectors=True)
        if path is not None and not is_survived_unreadable(path):
            bookie.may_refuse_to_start = True

    def _do_bit_rot(self, action: Action) -> None:
        self._damaged(action).rot(action.part, recent_bytes=action.number)

    def _do_rotten_stretch(self, action: Action) -> None:
        self._damaged(action).rot_stretch(action.part, size=action.number)

    def _do_lost_file(self, action: Action) -> None:
        self._damaged(action).lose_file(action.part)

    def _do_wiped_disk(self, action: Action) -> None:
        bookie = self._cluster.bookie(action.who)
        bookie.kill()
        self._damaged(action).wipe()
        self._restart(bookie, action.for_s)

    def _do_emptied_disk(self, action: Action) -> None:
        bookie = self._cluster.bookie(action.who)
        bookie.kill()
        self._damaged(action).wipe(COOKIE_FILE)
        self._restart(bookie, action.for_s)

    def _do_index_damage(self, action: Action) -> None:
        self._damaged(action).damage_index(whole=bool(action.number))

    # ---- metadata and clocks

    def _arm_store(self, action: Action) -> None:
        kind: MetadataFault = action.kind  # type: ignore[assignment]  # as its entry among `_does` says
        self._cluster.metadata.faults.arm(kind, action.part, number=action.number)

    def _do_metadata_partition(self, action: Action) -> None:
        self._cluster.metadata.partition(action.who)
        self._later(action.for_s, lambda: self._cluster.metadata.heal(action.who))

    def _do_session_loss(self, action: Action) -> None:
        self._cluster.metadata.expire(action.who)

    def _do_clock_jump(self, action: Action) -> None:
        self._cluster.process(action.who).clock.jump(action.by_s)
        self._cluster.trace.note("fault.clock_jump", action.who, f"by {action.by_s:+.3f} s")

    def _do_clock_rate(self, action: Action) -> None:
        self._loop.run_clock_at(self._cluster.process(action.who), action.rate)
