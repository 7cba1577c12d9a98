"""One thing that goes wrong, as a value: drawn from a seed, written into a file, left out to see whether it mattered.

An action names its victims. One whose victim is not there, or is down already, does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What happens, when, to whom. Which fields count depends on the kind; see fault_injector.py."""

    at_s: float
    """Since the run began, as the timeline counts."""
    kind: str
    who: str = ""
    """A node by name; "metadata" for faults of the store."""
    to: str = ""
    """The other end of a link or connection; of a split, those on one side."""
    for_s: float = 0.0
    """How long it lasts; for whoever dies, how long until it is started again."""
    part: str = ""
    """What the next operation that suffers must be on: a part of a path, of a key, of a node's name."""
    number: int = 0
    """Which one of several, or how many."""
    by_s: float = 0.0
    """How far a clock jumps."""

    def changed(self) -> dict[str, Any]:
        """The fields that say something."""
        return {
            each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default
        }

    def describe(self) -> str:
        """A sentence for a story."""
        return _SENTENCES.get(self.kind, _STRUCK).format(
            who=self.who,
            to=self.to,
            for_s=_seconds(self.for_s),
            on=f" on {self.part}" if self.part else "",
            nth=_nth(self.number),
            number=self.number,
            by_s=_seconds(self.by_s),
            kind=self.kind.replace("_", " "),
        )


NOTHING = "nothing"
"""Chaos looked for a victim and found none."""

_STRUCK = "{who}: {kind}{on}, the {nth} from now on"
_SENTENCES: Mapping[str, str] = {
    NOTHING: "nothing happens",
    "reset": "connection {number} of {who} to {to} is reset",
    "stall": "connection {number} of {who} to {to} stands still for {for_s}",
    "half_open": "connection {number} of {who} to {to} is lost, and neither end is told",
    "cut": "the link of {who} and {to} is cut for {for_s}",
    "cut_one_way": "the link from {who} to {to} is cut for {for_s}",
    "clog": "nothing passes from {who} to {to} for {for_s}, then all at once",
    "refuse": "{who} refuses connections for {for_s}",
    "isolate": "{who} is cut off from everybody for {for_s}",
    "split": "{to} are cut off from all others for {for_s}",
    "kill_bookie": "{who} is killed, and starts again after {for_s}",
    "restart_bookie": "{who} is killed and starts again at once",
    "power_cut": "{who} loses its power, and starts again after {for_s}",
    "power_cut_at_effect": "{who} loses its power {number} changes of its disk from now on",
    "kill_client": "{who} is killed, and starts again after {for_s}",
    "pause_bookie": "{who} is stopped for {for_s}",
    "pause_client": "{who} is stopped for {for_s}",
    "disk_full": "{who} has room for {number} more bytes, for {for_s}",
    "no_descriptors": "{who} can open no file for {for_s}",
    "metadata_partition": "{who} cannot reach the metadata store for {for_s}",
    "session_loss": "the metadata store ends the session of {who}",
    "clock_jump": "the clock of {who} jumps by {by_s}",
    "bit_rot": "a bit rots on the disk of {who}{on}",
    "rotten_stretch": "{number} bytes written lately rot on the disk of {who}{on}",
    "lost_file": "{who} loses a file{on}",
    "wiped_disk": "{who} finds its disk empty when it is started again after {for_s}",
    "emptied_disk": "{who} finds nothing but its cookies on its disk when it is started again after {for_s}",
    "index_damage": "the index of {who} is damaged",
}


def _seconds(value: float) -> str:
    return f"{value:.3g} s"


def _nth(number: int) -> str:
    if number == 1:
        return "next"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"
