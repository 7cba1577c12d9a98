"""One direction between two nodes: how long bytes take, and whether they pass at all."""

from __future__ import annotations

from math import inf
from random import Random
from typing import Protocol

LOOPBACK_S = 15e-6
NEAR_S, FAR_S = 50e-6, 800e-6
"""Usual delays between hosts; each link draws its own."""
WORST_S = 0.25
LATE = 10
"""A packet that takes so many times the usual time, as one in twenty does, counts as delayed."""
RESENT_AFTER_S_MAX = 120.0
"""TCP waits ever longer before it sends again; after a cut that lasted, so long at the most."""


class Carried(Protocol):
    """A pipe, one direction of a connection, as the link under it knows it."""

    def disturbed(self) -> None:
        """What is under way comes later than it seemed, or never."""

    def healed(self, resent_after_s: float) -> None:
        """Bytes pass again, once they have been sent again."""

    def host_back(self, resent_after_s: float) -> None:
        """The receiver's host runs again and knows nothing of the connection."""


class Link:
    """From one node to another, for all their connections."""

    def __init__(self, source: str, target: str, chance: Random) -> None:
        self.source = source
        self.target = target
        self.loopback = source == target
        self.usual_s = LOOPBACK_S if self.loopback else NEAR_S * (FAR_S / NEAR_S) ** chance.random()
        self.cut_since: float | None = None
        self.clogged_until = 0.0
        self.pipes: dict[Carried, None] = {}
        """Those in use, oldest first."""
        self.late = 0
        """Packets that were delayed."""
        self.overtaken = 0
        """Packets that arrive before one of another connection which was sent before them."""
        self._latest_arrival = 0.0
        self._random = chance.random

    def __repr__(self) -> str:
        return f"{self.source} -> {self.target}"

    def delay(self) -> float:
        """How long the next packet takes: half the usual time at least, ten times as long for one in twenty."""
        times = 0.5 + 0.5 / (1.0 - self._random())
        if times >= LATE:
            self.late += 1
            return min(self.usual_s * times, WORST_S)
        return self.usual_s * times

    def arrives(self, when: float) -> None:
        """A packet sent now arrives then."""
        if when < self._latest_arrival:
            self.overtaken += 1
        else:
            self._latest_arrival = when

    @property
    def quiet_until(self) -> float:
        """Nothing arrives before this; infinite while the link is cut."""
        return inf if self.cut_since is not None else self.clogged_until

    def cut(self, now: float) -> bool:
        """Let nothing pass. What is sent waits with its sender, as TCP's retransmission makes it do."""
        if self.cut_since is not None or self.loopback:
            return False
        self.cut_since = now
        for pipe in self.pipes:
            pipe.disturbed()
        return True

    def heal(self, now: float) -> bool:
        """Let everything pass. A connection that has tried in vain tries again only after a while."""
        if self.cut_since is None:
            return False
        lasted_s, self.cut_since = now - self.cut_since, None
        for pipe in list(self.pipes):
            pipe.healed(min(lasted_s, RESENT_AFTER_S_MAX) * self._random())
        return True

    def clog(self, until: float) -> None:
        """Let nothing pass before then, and everything then."""
        self.clogged_until = max(self.clogged_until, until)
        for pipe in self.pipes:
            pipe.disturbed()
