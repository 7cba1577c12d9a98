"""Faults that last until the end of the run, and bookies that come and go: all of them are drawn when it begins.

At most Qa - 1 bookies of a run, its victims, are lost for good or lose something durable. Then an acknowledged entry
has a copy that is intact, and no ack quorum of bookies can have forgotten a fence. So this budget holds for the run as
a whole: nothing copies the entries of lost bookies to others.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from bookie_server.storage.storage_paths import ENTRY_LOGS
from dlog.testing.swarm.actions import Action
from dlog.testing.swarm.plan import Plan

_RATES = (0.95, 0.97, 0.99, 1.01, 1.03, 1.05, 0.5, 2.0)
"""A few per cent of drift, and clocks that are wrong beyond all drift."""
_ROT: tuple[tuple[str, str], ...] = (
    ("settled_rot", "entry-logs"),
    ("settled_rot", "entry-logs"),
    ("settled_rot", "journal"),
    ("settled_rot", "ledgers"),
    ("bad_sectors", "entry-logs"),
    ("bad_sectors", ".journal"),
    ("bad_sectors", "ledgers"),
    ("index_damage", ""),
    ("lost_file", "entry-logs"),
)
"""What damages a victim's disk, and where. The bookie notices each."""


class LastingFaults:
    """Draws from a stream of its own. Nothing is changed here: see fault_injector.py."""

    def __init__(self, plan: Plan, clients: list[str], rng: Random) -> None:
        self._plan = plan
        self._clients = clients
        self._rng = rng
        self._bookies = [f"bookie-{number}" for number in range(plan.bookies)]
        self._draws: dict[str, Callable[[], list[Action]]] = {
            "clock_rate": self._clock_rates,
            "lost_bookie": self._lost_bookies,
            "minor_rot": self._minor_rot,
            "join_bookie": self._joining_bookies,
            "leave_bookie": self._leaving_bookies,
            "nearly_full": self._nearly_full_disks,
        }

    def draw(self) -> list[Action]:
        """All of the run, in order of time."""
        self._victims = self._rng.sample(self._bookies, victims_max(self._plan))
        drawn = [
            action for name in self._draws if name in self._plan.faults for action in self._draws[name]()
        ]
        if self._plan.more_directories:
            drawn += self._directories(Random(f"failing directories {self._plan.seed}"))
        return sorted(drawn, key=lambda each: each.at_s)

    def _time(self) -> float:
        return self._plan.chaos_s * self._rng.random()

    def _clock_rates(self) -> list[Action]:
        names = [name for name in (*self._clients, *self._bookies) if self._rng.random() < 0.5]
        return [
            Action(at_s=0.0, kind="clock_rate", who=name, rate=self._rng.choice(_RATES)) for name in names
        ]

    def _lost_bookies(self) -> list[Action]:
        return [
            Action(
                at_s=self._time(), kind=self._rng.choice(("lost_process", "lost_host", "lost_disk")), who=name
            )
            for name in self._victims
        ]

    def _minor_rot(self) -> list[Action]:
        actions = []
        for name in self._victims:
            for _ in range(self._rng.choice((1, 3, 10))):
                kind, part = self._rng.choice(_ROT)
                whole = int(kind == "index_damage" and self._rng.random() < 0.3)
                actions.append(Action(at_s=self._time(), kind=kind, who=name, part=part, number=whole))
            if self._rng.random() < 0.5:  # so that what rotted in the journal is read
                actions.append(Action(at_s=self._time(), kind="restart_bookie", who=name))
        if self._victims and self._rng.random() < 0.5:
            actions += self._rotten_takeover(self._victims[0])
        return actions

    def _rotten_takeover(self, victim: str) -> list[Action]:
        """A takeover that meets a bookie without the newest entries, and one that has them in a damaged journal.

        A third one, which sleeps at first, has what both lack.
        """
        others = [name for name in self._bookies if name not in self._victims]
        if len(others) < 2:
            return []
        denier, silent = self._rng.sample(others, 2)
        at_s = 0.5 * self._time()
        spring_s = at_s + 0.3 + 2.0 * self._rng.random() ** 2
        writers = [name for name in self._clients if name.startswith("writer")]
        return [
            Action(at_s=at_s, kind="pause_bookie", who=denier, for_s=30.0),
            *(Action(at_s=spring_s, kind="kill_client", who=name, for_s=0.3) for name in writers),
            Action(at_s=spring_s, kind="restart_bookie", who=denier),
            Action(at_s=spring_s, kind="settled_rot", who=victim, part="journal"),
            Action(at_s=spring_s + 0.01, kind="restart_bookie", who=victim),
            Action(at_s=spring_s, kind="pause_bookie", who=silent, for_s=4.0 * self._rng.random()),
        ]

    def _joining_bookies(self) -> list[Action]:
        return [Action(at_s=self._time(), kind="join_bookie") for _ in range(self._rng.choice((1, 1, 2)))]

    def _leaving_bookies(self) -> list[Action]:
        return [
            Action(at_s=self._time(), kind="leave_bookie", who=name, for_s=5.0 * self._rng.random() ** 2)
            for name in self._bookies
            if self._rng.random() < 0.5
        ]

    def _nearly_full_disks(self) -> list[Action]:
        return [
            Action(at_s=self._time(), kind="nearly_full", who=name, for_s=2.0 + 4.0 * self._rng.random())
            for name in self._bookies
            if self._rng.random() < 0.5
        ]

    def _directories(self, rng: Random) -> list[Action]:
        """What happens to one of several ledger directories: all but a lost one cost nothing that was acknowledged."""
        actions = []
        for name in self._bookies:
            at_s = self._plan.chaos_s * rng.random()
            number = rng.randrange(1 + self._plan.more_directories)
            if rng.random() < 0.5:
                actions.append(
                    Action(
                        at_s=at_s, kind="directory_full", who=name, number=number, for_s=8.0 * rng.random()
                    )
                )
            kind = rng.choice(("", "write_error", "sync_error"))
            if kind:
                at_s, part = self._plan.chaos_s * rng.random(), f"more-1/{ENTRY_LOGS}"
                nth = rng.choice((1, 2, 3, 6))
                actions.append(Action(at_s=at_s, kind=kind, who=name, part=part, number=nth))
            if name in self._victims and "minor_rot" in self._plan.faults and rng.random() < 0.5:
                at_s = self._plan.chaos_s * rng.random()
                actions.append(Action(at_s=at_s, kind="lost_directory", who=name))
        return actions


def victims_max(plan: Plan) -> int:
    """How many bookies this run may lose: their copies are not needed, and the others can still store ledgers.

    A recovery writes what it finds back to an ack quorum of each write set. So there is a spare for each victim, or
    there is one victim and write sets can spare a member.
    """
    spares = plan.bookies - plan.ensemble
    without_spare = 1 if plan.degraded and plan.write > plan.ack else 0
    return min(plan.ack - 1, max(0, spares, without_spare))
