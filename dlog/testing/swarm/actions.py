"""One fault as a value: drawn from a seed, written to a file, removed when shrinking.

An action names its victims. If a victim does not exist or is already down, the action does nothing.
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
    """How long it lasts; for a process that is killed, how long until it is started again."""
    part: str = ""
    """What the next operation that suffers must be on: a part of a path, of a key, of a node's name."""
    number: int = 0
    """Which one of several, or how many."""
    by_s: float = 0.0
    """How far a clock jumps."""
    rate: float = 0.0
    """How fast a clock runs."""

    def changed(self) -> dict[str, Any]:
        """The fields that say something."""
        return {
            each.name: value for each in fields(self) if (value := getattr(self, each.name)) != each.default
        }

    def describe(self) -> str:
        """The action as a sentence, for reports."""
        return _SENTENCES.get(self.kind, _STRUCK).format(
            who=self.who,
            to=self.to,
            for_s=_seconds(self.for_s),
            on=f" on {self.part}" if self.part else "",
            nth=_nth(self.number),
            number=self.number,
            by_s=_seconds(self.by_s),
            rate=self.rate,
            kind=self.kind.replace("_", " "),
        )


NOTHING = "nothing"
"""No victim was available."""

_STRUCK = "{who}: {kind}{on}, the {nth} operation from now"
_SENTENCES: Mapping[str, str] = {
    NOTHING: "nothing happens",
    "reset": "connection {number} of {who} to {to} is reset",
    "stall": "connection {number} of {who} to {to} is stalled for {for_s}",
    "half_open": "connection {number} of {who} to {to} is lost without notice to either end",
    "cut": "the link of {who} and {to} is cut for {for_s}",
    "cut_one_way": "the link from {who} to {to} is cut for {for_s}",
    "clog": "messages from {who} to {to} are held for {for_s}, then delivered together",
    "refuse": "{who} refuses connections for {for_s}",
    "isolate": "{who} is cut off from all nodes for {for_s}",
    "split": "{to} are cut off from all others for {for_s}",
    "kill_bookie": "{who} is killed, and is restarted after {for_s}",
    "restart_bookie": "{who} is killed and restarted immediately",
    "power_cut": "{who} loses power, and is restarted after {for_s}",
    "power_cut_at_effect": "{who} loses power after {number} more changes of its disk",
    "kill_client": "{who} is killed, and is restarted after {for_s}",
    "pause_bookie": "{who} is paused for {for_s}",
    "pause_client": "{who} is paused for {for_s}",
    "disk_full": "{who} has {number} bytes of disk space left, for {for_s}",
    "directory_full": "ledger directory {number} of {who} is full for {for_s}",
    "lost_directory": "the disk of a ledger directory of {who} is lost, and it is restarted without it",
    "no_descriptors": "{who} has no file descriptors left, for {for_s}",
    "metadata_partition": "{who} cannot reach the metadata store for {for_s}",
    "session_loss": "the metadata store ends the session of {who}",
    "clock_jump": "the clock of {who} jumps by {by_s}",
    "clock_rate": "the clocks of {who} run at {rate:g} times the usual rate",
    "lost_process": "{who} is killed, and never restarted",
    "lost_host": "the host of {who} is lost",
    "lost_disk": "{who} is restarted with an empty disk and must refuse to start",
    "join_bookie": "a new bookie registers",
    "leave_bookie": "{who} is stopped in good order, and is started again after {for_s}",
    "nearly_full": "the disk of {who} is nearly full for {for_s}",
    "settled_rot": "a bit that its bookie can miss flips on the disk of {who}{on}",
    "bad_sectors": "a few sectors on the disk of {who}{on} cannot be read any more",
    "bit_rot": "a bit flips on the disk of {who}{on}",
    "rotten_stretch": "{number} recently written bytes are damaged on the disk of {who}{on}",
    "lost_file": "{who} loses a file{on}",
    "wiped_disk": "{who} is restarted with an empty disk after {for_s}",
    "emptied_disk": "{who} is restarted with nothing but its cookies on its disk after {for_s}",
    "index_damage": "the index of {who} is damaged",
}


def _seconds(value: float) -> str:
    return f"{value:.3g} s"


def _nth(number: int) -> str:
    if number == 1:
        return "next"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"
