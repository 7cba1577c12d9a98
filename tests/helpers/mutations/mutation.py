"""What a planted bug is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dlog.testing.swarm.actions import Action
from dlog.testing.swarm.plan import TIMELY
from tests.helpers.mutations.planting import Edit

THREE: dict[str, Any] = {"ensemble": 3, "write": 3, "ack": 2}
AMBUSHED: dict[str, Any] = {
    **THREE,
    "bookies": 3,
    "writers": 2,
    "fast": False,
    "append_every_s": 0.2,
    "checkpoint_s": 20.0,
    "fault_every_s": 4.0,
    "chaos_s": 12.0,
    "progress_s": 200.0,
}
"""Time for one ambush after the other, with much that only the journal has."""
COMPACTED: dict[str, Any] = {
    **THREE,
    "bookies": 3,
    "compaction": True,
    "small_disks": True,
    "shrinks": True,
    "payload_bytes_max": 500,
    "rotation_age_s": 0.7,
    "gc_interval_s": 0.7,
    "checkpoint_s": 0.5,
    "chaos_s": 12.0,
    "fault_every_s": 1.5,
}
"""Ledgers come and go, and what is left of them is copied together."""
SPARES: dict[str, Any] = {**THREE, "bookies": 6}
SLOW_DISKS: dict[str, Any] = {"sync_s_max": 0.05}
"""Much is under way at any time."""
ALL_THREE: dict[str, Any] = {"bookies": 3, "ensemble": 3, "write": 3, "ack": 3}
"""One answer covers every write set, so each reader believes the first bookie that answers."""
TWO_OF_THREE: dict[str, Any] = {"ensemble": 3, "write": 2, "ack": 2}
"""The smallest ensemble with more than one write set."""
STRIPED: dict[str, Any] = {"bookies": 5, "ensemble": 5, "write": 3, "ack": 2}
SLEEP = (
    *(Action(at_s=1.97, kind="clog", who="writer-0", to=f"bookie-{n}", for_s=22.0) for n in range(3)),
    Action(at_s=2.0, kind="pause_client", who="writer-0", for_s=22.5),
)
"""One that may own the log sleeps until its ledgers are gone from the record, the store and the bookies.

What it has sent just before arrives when all that is over, and is answered before it wakes.
"""

ONE_OF_SIX: dict[str, Any] = {"bookies": 6, "ensemble": 1, "write": 1, "ack": 1}
"""One bookie has all of a ledger, and the next ledger is mostly on another one."""
QUIET: dict[str, Any] = {
    "parallel_logs": 0,
    "producers": 0,
    "consumers": 0,
    "copiers": 0,
    "visitors": 0,
    "cancellers": 0,
    "neighbours": 0,
}
"""Only the writers, readers and administrator of one log: a long run then costs little."""
ALONE: dict[str, Any] = {**QUIET, "writers": 1, "term_s": 1000.0}
"""One writer, that keeps its log."""


def _again_and_again(every_s: float, until_s: float, *actions: Action) -> tuple[Action, ...]:
    """From the first second on; the times of the actions count from each beginning."""
    beginnings = [1.0 + every_s * number for number in range(int(until_s / every_s))]
    return tuple(
        replace(each, at_s=round(begins_s + each.at_s, 3)) for begins_s in beginnings for each in actions
    )


SWEPT: dict[str, Any] = {
    **THREE,
    **ALONE,
    "readers": 1,
    "polite": 0.0,
    "retains": False,
    "rotation_entries": 5,
    "store_s_max": 0.1,
    "chaos_s": 40.0,
    "actions": _again_and_again(5.0, 40.0, Action(at_s=0.0, kind="pause_client", who="writer-0", for_s=4.0)),
}
"""The owner sleeps for longer than a sweep waits and takes, and often between the creation of a ledger and its listing.

No other takes the log over in that time, so the owner changes the record again when the sweep has barred the ledger.
"""
ROTATING: dict[str, Any] = {
    **THREE,
    **ALONE,
    "readers": 1,
    "polite": 0.0,
    "rotation_entries": 5,
    "append_every_s": 0.02,
    "chaos_s": 16.0,
}
"""One ledger after the other, and no other takes the log over."""
LATE_LISTINGS: dict[str, Any] = {
    **ROTATING,
    "witnesses": 1,
    "chaos_s": 12.0,
    "actions": _again_and_again(
        1.5,
        12.0,
        Action(at_s=0.0, kind="metadata_answer_lost", who="metadata", part="writer-0", number=3),
    ),
}
"""The owner often hears only after a while that the next ledger is listed, and appends to the one before until then."""
LATE_LACS: dict[str, Any] = {
    **ALL_THREE,
    **ALONE,
    "readers": 6,
    "fast": False,
    "degraded": False,
    "patience": 0.3,
    "append_every_s": 1.0,
    "chaos_s": 24.0,
    "actions": _again_and_again(
        2.5,
        24.0,
        *(
            Action(at_s=0.0, kind="stall", who="writer-0", to=f"bookie-{bookie}", number=number, for_s=1.8)
            for bookie in range(3)
            for number in range(3)
        ),
    ),
}
"""Connections stand still for longer than their writer waits: what it sent there arrives after what went over new ones.

On all bookies at once, so that a reader finds it at each that it asks, and long before the next append.
"""
REFUTED_SYNCS: dict[str, Any] = {
    **THREE,
    **ALONE,
    "bookies": 3,
    "readers": 1,
    "checkpoint_s": 20.0,
    "chaos_s": 12.0,
    "actions": tuple(
        replace(each, who=f"bookie-{number // 3 % 3}")
        for number, each in enumerate(
            _again_and_again(
                2.0,
                12.0,
                Action(at_s=0.0, kind="sync_error", part="journal", number=1),
                Action(at_s=0.1, kind="kill_bookie", for_s=0.1),
                Action(at_s=0.7, kind="power_cut", for_s=0.1),
            )
        )
    ),
}
"""One bookie after the other fails to sync its journal, starts from what its kernel still shows, and loses power."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """One mistake that somebody could make, and the rule that it breaks."""

    name: str
    rule: str
    """What must hold, and what goes wrong without it."""
    edits: tuple[Edit, ...]
    plan: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the swarm's plan without which it can hardly show; the rest is up to the seed."""
    profile: str = "chaos"
    given: tuple[Edit, ...] = ()
    """Circumstances that the swarm does not bring about by itself, and under which sound code is safe."""


def focused(*faults: str, **fields: Any) -> dict[str, Any]:
    """A short plan with these faults in quick succession and little besides, so that a seed costs little."""
    return {
        "chaos_s": 8.0,
        "fault_every_s": 0.4,
        "append_every_s": 0.05,
        "payload_bytes_max": 10,
        "shrinks": False,
        "other_log": False,
        "faults": (*faults, TIMELY) if faults else (),
        **fields,
    }
