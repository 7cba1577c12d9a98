"""Faults at random or on request, each noted as `fault.<kind>`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Generic, Literal, TypeVar

from dlog.testing.kernel.notes import Notes

DiskFault = Literal[
    "read_error",
    "write_error",
    "sync_error",
    "short_write",
    "misdirected_write",
    "misdirected_read",
    "slow_sync",
    "no_descriptor",
]
"""The first three are I/O errors: the caller gets DiskFailedError.

A write error leaves a part of the write behind. After a sync error some of the unsynced bytes are on the disk, and
the others never will be, although they may still be read and a later sync succeeds. A short write and a misdirected
one are not seen by the caller: the file twin goes on with the rest as SystemFile's retry loop does, with one more
effect in between where a crash can fall; a misdirected write lands elsewhere in the file. Errors befall files and
index stores alike, a sync error also directories, the other kinds only files. A misdirected read returns, once, what
is elsewhere in the file. Without a descriptor nothing can be
opened or listed, no directory synced, no index store synced or opened: TooManyFilesError, and nothing has changed.
"""

MetadataFault = Literal[
    "metadata_unavailable",
    "metadata_request_lost",
    "metadata_request_late",
    "metadata_answer_lost",
    "watch_late",
    "watch_lost",
    "watch_spurious",
]
"""Unavailable: the request was certainly not made. Lost or late: the client hears only that nothing is known, of a
read that it failed. A late request is applied after the client has heard that. A lost watch is called when the client
has noticed and connected anew, a spurious one when something else changed.
"""

Kind = TypeVar("Kind", bound=str)


@dataclass(slots=True)
class _Armed(Generic[Kind]):
    kind: Kind
    part: str
    left: int


class Faults(Generic[Kind]):
    """Decides for each operation whether it suffers. Belongs to one node, or to one server."""

    def __init__(self, chance: Random, notes: Notes, node: str) -> None:
        self.chance = chance
        self.rates: dict[Kind, float] = {}
        """How likely each operation suffers, from 0 to 1; nothing by itself. May be changed at any time."""
        self.on_chance: Callable[[str, str], None] = lambda kind, subject: None
        """Told of what suffers because of its rate."""
        self.noted: set[str] = set()
        """The kinds that have struck so far."""
        self._notes = notes
        self._node = node
        self._armed: list[_Armed[Kind]] = []

    def arm(self, kind: Kind, part: str = "", *, number: int = 1) -> None:
        """The `number`-th operation from now on that `kind` can befall, on a subject that contains `part`, suffers."""
        self._armed.append(_Armed(kind, part, number))

    def disarm(self) -> None:
        """Nothing that was armed strikes any more."""
        self._armed.clear()

    def strikes(self, kind: Kind, subject: object) -> bool:
        """Whether this operation suffers the fault; noted if so."""
        hit = self._armed_strikes(kind, str(subject)) if self._armed else False
        rate = self.rates.get(kind)
        # No draw without a rate: faults that are off do not shift the others.
        if rate and self.chance.random() < rate:
            self.on_chance(kind, str(subject))
            hit = True
        if hit:
            self.note(kind, str(subject))
        return hit

    def _armed_strikes(self, kind: Kind, subject: str) -> bool:
        hit = False
        for armed in self._armed:
            if armed.kind == kind and armed.part in subject:
                armed.left -= 1
                hit = hit or armed.left == 0
        if hit:
            self._armed = [armed for armed in self._armed if armed.left > 0]
        return hit

    def note(self, kind: str, text: str) -> None:
        self.noted.add(kind)
        self._notes.note(f"fault.{kind}", self._node, text)
