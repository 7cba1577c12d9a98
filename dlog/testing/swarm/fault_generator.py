"""Chooses what goes wrong next: from the cluster as it is now, an action with every choice made.

Within the contract anything may happen to any number of bookies that leaves what they synced: progress may stop,
nothing acknowledged may be lost. So there is one budget only: a victim is left alone until it has recovered.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from dlog.testing.bookies import SimulatedBookie
from dlog.testing.cluster import SimulatedCluster
from dlog.testing.kernel.faults import DiskFault
from dlog.testing.swarm.actions import NOTHING, Action

_PARTS: dict[DiskFault, tuple[str, ...]] = {
    "sync_error": ("journal", "entry-logs", "index", "log-mark", ""),
    "write_error": ("journal", "entry-logs", "index", ""),
    "read_error": ("entry-logs", "index", ""),
    "misdirected_write": ("entry-logs", "journal"),
    "misdirected_read": ("entry-logs",),
}
"""What the operation that suffers may be on."""

_AT_CLIENTS = ("pause_client", "kill_client", "isolate", "metadata_partition")
_AT_LINKS = ("cut", "cut_one_way", "clog")
_AT_BOOKIES = ("pause_bookie", "kill_bookie", "power_cut", "power_cut_at_effect")
_AT_A_CHANGE = (*_AT_CLIENTS, *_AT_LINKS, *_AT_BOOKIES)
_AT_A_CHANGE_RATE = 0.15
_AFTER_A_CHANGE_S = (0.002, 0.01, 0.05, 0.3)

_Draw = Callable[[float], list[Action]]


class FaultGenerator:
    """Draws from a stream of its own. Nothing is changed here: see fault_injector.py."""

    def __init__(self, cluster: SimulatedCluster, clients: list[str], chance: Random) -> None:
        self._cluster = cluster
        self._clients = clients
        self._chance = chance
        self._draws: dict[str, _Draw] = {
            name.removeprefix("_draw_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_draw_")
        }
        self._draws |= {kind: partial(self._arm, kind, parts) for kind, parts in _PARTS.items()}

    def kinds(self, names: tuple[str, ...]) -> list[str]:
        """Those of the names that are drawn here; the others are rates of single operations."""
        return [name for name in names if name in self._draws]

    def draw(self, kinds: list[str], at_s: float) -> list[Action]:
        """What goes wrong now, and what follows from it later."""
        actions = self._draws[self._chance.choice(kinds)](at_s) if kinds else []
        return actions or [Action(at_s=at_s, kind=NOTHING)]

    def draw_at_a_change(self, names: tuple[str, ...], client: str, now_s: float) -> list[Action]:
        """What goes wrong around the client just when it changes metadata; mostly nothing.

        Ensemble changes, recoveries, closes, rotations and takeovers all begin and end with such a change, and what
        they do besides takes a few milliseconds, which faults at any time hardly ever meet.
        """
        kinds = [name for name in names if name in _AT_A_CHANGE]
        if client not in self._clients or not kinds or self._chance.random() > _AT_A_CHANGE_RATE:
            return []
        at_s = now_s + self._chance.choice(_AFTER_A_CHANGE_S) * self._chance.random()
        kind = self._chance.choice(kinds)
        if kind in _AT_BOOKIES:
            return self._draws[kind](at_s)
        if kind in _AT_LINKS:
            ends = [client, self._any_bookie()]
            self._chance.shuffle(ends)
            return [Action(at_s=at_s, kind=kind, who=ends[0], to=ends[1], for_s=self._for_a_while(5))]
        return [Action(at_s=at_s, kind=kind, who=client, for_s=self._for_a_while(10))]

    def _for_a_while(self, longest_s: float) -> float:
        return longest_s * self._chance.choice((0.05, 0.3, 1.0)) * self._chance.random()

    # ---- victims

    def _bookie(self) -> SimulatedBookie | None:
        well = [each for each in self._cluster.bookies if each.serving and not each.node.stopped]
        return self._chance.choice(well) if well else None

    def _any_bookie(self) -> str:
        return self._chance.choice(self._cluster.bookies).name

    def _client(self) -> str | None:
        well = [name for name in self._clients if not self._cluster.process(name).stopped]
        return self._chance.choice(well) if well else None

    def _writers(self) -> list[str]:
        return [name for name in self._clients if name.startswith("writer")]

    def _everybody(self) -> list[str]:
        return [*self._clients, *(each.name for each in self._cluster.bookies)]

    def _anybody(self) -> str:
        return self._chance.choice(self._everybody())

    def _link(self) -> dict[str, Any]:
        """Bookies do not talk to one another."""
        ends = [self._chance.choice(self._clients), self._any_bookie()]
        self._chance.shuffle(ends)
        return {"who": ends[0], "to": ends[1]}

    def _connection(self) -> dict[str, Any] | None:
        connections = self._cluster.network.connections()
        if not connections:
            return None
        connection = self._chance.choice(connections)
        who, to = connection.client.node.name, connection.server.node.name
        number = self._cluster.network.connections(who, to).index(connection)
        return {"who": who, "to": to, "number": number}

    # ---- network

    def _draw_reset(self, at_s: float) -> list[Action]:
        found = self._connection()
        return [] if found is None else [Action(at_s=at_s, kind="reset", **found)]

    def _draw_stall(self, at_s: float) -> list[Action]:
        found = self._connection()
        return (
            [] if found is None else [Action(at_s=at_s, kind="stall", for_s=self._for_a_while(10), **found)]
        )

    def _draw_half_open(self, at_s: float) -> list[Action]:
        found = self._connection()
        return [] if found is None else [Action(at_s=at_s, kind="half_open", **found)]

    def _draw_cut(self, at_s: float) -> list[Action]:
        return [Action(at_s=at_s, kind="cut", **self._link(), for_s=self._for_a_while(10))]

    def _draw_cut_one_way(self, at_s: float) -> list[Action]:
        return [Action(at_s=at_s, kind="cut_one_way", **self._link(), for_s=self._for_a_while(10))]

    def _draw_clog(self, at_s: float) -> list[Action]:
        return [Action(at_s=at_s, kind="clog", **self._link(), for_s=self._for_a_while(5))]

    def _draw_refuse(self, at_s: float) -> list[Action]:
        return [Action(at_s=at_s, kind="refuse", who=self._any_bookie(), for_s=self._for_a_while(5))]

    def _draw_isolate(self, at_s: float) -> list[Action]:
        return [Action(at_s=at_s, kind="isolate", who=self._anybody(), for_s=self._for_a_while(8))]

    def _draw_split(self, at_s: float) -> list[Action]:
        names = self._everybody()
        self._chance.shuffle(names)
        side = " ".join(names[: self._chance.randint(1, len(names) - 1)])
        return [Action(at_s=at_s, kind="split", to=side, for_s=self._for_a_while(8))]

    # ---- processes

    def _draw_kill_bookie(self, at_s: float) -> list[Action]:
        bookie = self._bookie()
        return [] if bookie is None else [self._death("kill_bookie", bookie.name, at_s)]

    def _draw_power_cut(self, at_s: float) -> list[Action]:
        bookie = self._bookie()
        return [] if bookie is None else [self._death("power_cut", bookie.name, at_s)]

    def _death(self, kind: str, name: str, at_s: float) -> Action:
        return Action(at_s=at_s, kind=kind, who=name, for_s=self._for_a_while(5))

    def _draw_power_cut_at_effect(self, at_s: float) -> list[Action]:
        """Between two effects of one job; the disk's next ones are the most interesting."""
        if (bookie := self._bookie()) is None:
            return []
        ahead = int(self._chance.choice((1, 5, 50)) * self._chance.random())
        return [Action(at_s=at_s, kind="power_cut_at_effect", who=bookie.name, number=ahead + 1)]

    def _draw_kill_many(self, at_s: float) -> list[Action]:
        """More than the ensemble can bear: only time is lost."""
        kind = self._chance.choice(("kill_bookie", "power_cut"))
        return [
            self._death(kind, bookie.name, at_s)
            for bookie in self._cluster.bookies
            if bookie.serving and self._chance.random() < 0.7
        ]

    def _draw_pause_bookie(self, at_s: float) -> list[Action]:
        bookie = self._bookie()
        return [] if bookie is None else [self._pause("pause_bookie", bookie.name, at_s)]

    def _draw_pause_client(self, at_s: float) -> list[Action]:
        name = self._client()
        return [] if name is None else [self._pause("pause_client", name, at_s)]

    def _pause(self, kind: str, name: str, at_s: float) -> Action:
        return Action(at_s=at_s, kind=kind, who=name, for_s=self._for_a_while(10))

    def _draw_kill_client(self, at_s: float) -> list[Action]:
        name = self._client()
        return [] if name is None else [self._client_death(name, at_s)]

    def _client_death(self, name: str, at_s: float) -> Action:
        return Action(at_s=at_s, kind="kill_client", who=name, for_s=self._for_a_while(3))

    def _draw_ambush(self, at_s: float) -> list[Action]:
        """A takeover that meets a bookie without the tail, and another that says nothing.

        One sleeps and misses the newest entries, and dies with what waited in its socket; the writers die; the
        first is back and denies them; a second one sleeps. Only the others can tell what was acknowledged.
        """
        denier, silent = self._bookie(), self._bookie()
        if denier is None or silent is None or denier is silent:
            return []
        waits_s = self._for_a_while(2)
        spring_s = at_s + waits_s
        return [
            Action(at_s=at_s, kind="pause_bookie", who=denier.name, for_s=waits_s + 10.0),
            *(self._client_death(name, spring_s) for name in self._clients if name.startswith("writer")),
            Action(at_s=spring_s, kind="restart_bookie", who=denier.name),
            self._pause("pause_bookie", silent.name, spring_s),
        ]

    def _draw_unreadable(self, at_s: float) -> list[Action]:
        """An ambush in which the second one answers, but cannot read what it holds: that denies nothing.

        The writers stay dead until everything is on its disk and nothing in its memory.
        """
        denier, damaged = self._bookie(), self._bookie()
        if denier is None or damaged is None or denier is damaged:
            return []
        waits_s, settles_s = self._for_a_while(2), 1.0 + self._for_a_while(3)
        spring_s = at_s + waits_s
        return [
            Action(at_s=at_s, kind="pause_bookie", who=denier.name, for_s=waits_s + 10.0),
            *(
                Action(at_s=spring_s, kind="kill_client", who=name, for_s=settles_s)
                for name in self._clients
                if name.startswith("writer")
            ),
            Action(at_s=spring_s, kind="restart_bookie", who=denier.name),
            *(
                Action(at_s=spring_s + settles_s, kind="read_error", who=damaged.name, number=number)
                for number in range(1, 20)
            ),
        ]

    # ---- disks

    def _arm(self, kind: str, parts: tuple[str, ...], at_s: float) -> list[Action]:
        if (bookie := self._bookie()) is None:
            return []
        number = 1 + int(self._chance.choice((1, 20)) * self._chance.random())
        part = self._chance.choice(parts)
        return [Action(at_s=at_s, kind=kind, who=bookie.name, part=part, number=number)]

    def _draw_disk_full(self, at_s: float) -> list[Action]:
        if (bookie := self._bookie()) is None:
            return []
        room = int(self._chance.choice((0, 10_000, 200_000)) * self._chance.random())
        return [
            Action(at_s=at_s, kind="disk_full", who=bookie.name, number=room, for_s=self._for_a_while(10))
        ]

    def _draw_no_descriptors(self, at_s: float) -> list[Action]:
        if (bookie := self._bookie()) is None:
            return []
        return [Action(at_s=at_s, kind="no_descriptors", who=bookie.name, for_s=self._for_a_while(5))]

    # ---- metadata and clocks

    def _draw_metadata_partition(self, at_s: float) -> list[Action]:
        return [
            Action(at_s=at_s, kind="metadata_partition", who=self._anybody(), for_s=self._for_a_while(15))
        ]

    def _draw_outage(self, at_s: float) -> list[Action]:
        """No writer gets an answer from the store, or from any bookie, for up to three times what appends wait."""
        for_s = 6.0 * self._chance.random()
        if self._chance.random() < 0.5:
            return [
                Action(at_s=at_s, kind="metadata_partition", who=name, for_s=for_s)
                for name in self._writers()
            ]
        names = [bookie.name for bookie in self._cluster.bookies if bookie.serving]
        return [
            Action(at_s=at_s, kind="clog", who=name, to=writer, for_s=for_s)
            for name in names
            for writer in self._writers()
        ]

    def _draw_session_loss(self, at_s: float) -> list[Action]:
        return [Action(at_s=at_s, kind="session_loss", who=self._anybody())]

    def _draw_clock_jump(self, at_s: float) -> list[Action]:
        who = self._anybody()
        by_s = self._chance.choice((-3600.0, -5.0, 5.0, 1e6)) * self._chance.random()
        return [Action(at_s=at_s, kind="clock_jump", who=who, by_s=by_s)]

    # ---- beyond the contract

    def _draw_bit_rot(self, at_s: float) -> list[Action]:
        part = ("entry-logs", "journal", "")
        return [Action(at_s=at_s, kind="bit_rot", who=self._any_bookie(), part=self._chance.choice(part))]

    def _draw_bad_sectors(self, at_s: float) -> list[Action]:
        part = self._chance.choice(("entry-logs", "journal", "ledgers"))
        return [Action(at_s=at_s, kind="bad_sectors", who=self._any_bookie(), part=part)]

    def _draw_misread_journal(self, at_s: float) -> list[Action]:
        """The journal is read when a bookie starts; what it finds elsewhere may look like a torn end."""
        if (bookie := self._bookie()) is None:
            return []
        number = 1 + self._chance.randrange(3)
        return [
            Action(at_s=at_s, kind="misdirected_read", who=bookie.name, part="journal", number=number),
            self._death("kill_bookie", bookie.name, at_s),
        ]

    def _draw_lost_file(self, at_s: float) -> list[Action]:
        part = ("entry-logs", "journal")
        return [Action(at_s=at_s, kind="lost_file", who=self._any_bookie(), part=self._chance.choice(part))]

    def _draw_index_damage(self, at_s: float) -> list[Action]:
        whole = self._chance.random() < 0.3
        return [Action(at_s=at_s, kind="index_damage", who=self._any_bookie(), number=int(whole))]
