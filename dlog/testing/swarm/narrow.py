"""Runs of few faults in quick succession, on a small workload: what meets only there."""

from __future__ import annotations

from typing import Any

from dlog.testing.swarm.draw import Draw
from dlog.testing.swarm.plan import SCENES, SLEEPING_WRITER, TIMELY, UNREADABLE

_FAMILIES = (
    ("kill_bookie", "pause_bookie", "isolate", "cut", "clog"),
    ("kill_client", "pause_client", "metadata_partition", "isolate"),
    ("metadata_answer_lost", "metadata_request_lost", "metadata_request_late", "kill_client"),
    ("power_cut", "power_cut_at_effect", "kill_many", "sync_error", "kill_bookie"),
    ("session_loss", "reset", "stall", "cut_one_way", "disk_full", "slow_sync"),
    ("ambush", "kill_client", "kill_bookie"),
    ("metadata_unavailable", "metadata_partition", "watch_late", "watch_lost", "session_loss"),
)
"""Faults that together bring a client or a bookie into the states for which one part of the protocol is made."""


_FEW_BYTES: dict[str, Any] = {
    "payload_bytes_max": 10,
    "other_log": False,
    "shrinks": False,
    "copiers": 0,
    "neighbours": 0,
}
_THREE: dict[str, Any] = _FEW_BYTES | {"bookies": 3, "ensemble": 3, "write": 3, "ack": 2}
_ASLEEP: dict[str, Any] = _THREE | {
    "faults": (SLEEPING_WRITER,),
    "chaos_s": 16.0,
    "fault_every_s": 14.0,
    "append_every_s": 0.05,
    "writers": 2,
    "readers": 1,
    "fast": True,
    "shrinks": True,
    "rotation_entries": 5,
    "rotation_age_s": 0.7,
    "gc_interval_s": 0.7,
    "term_s": 15.0,
}
_SITUATIONS: tuple[dict[str, Any], ...] = (
    _ASLEEP,
    # A fast writer closes its ledger, rotates or gives up while the store does not answer.
    _FEW_BYTES
    | {
        "faults": ("metadata_partition", "metadata_unavailable", TIMELY),
        "fast": True,
        "hold_s": 2.0,
        "term_s": 0.7,
        "cancellers": 1,
        "fault_every_s": 0.4,
    },
    # Every copy counts, and bookies that are replaced answer late.
    _FEW_BYTES
    | {
        "faults": ("session_loss", "disk_full", TIMELY),
        "bookies": 6,
        "ensemble": 3,
        "write": 3,
        "ack": 3,
        "sync_s_max": 0.2,
        "fast": True,
        "writers": 1,
        "append_every_s": 0.02,
        "fault_every_s": 0.15,
    },
    # They come back at another position, where write sets differ.
    _FEW_BYTES
    | {
        "faults": ("reset", "session_loss", TIMELY),
        "bookies": 4,
        "ensemble": 3,
        "write": 2,
        "ack": 2,
        "sync_s_max": 0.6,
        "patience": 1.0,
        "fast": True,
        "writers": 1,
        "append_every_s": 0.02,
        "fault_every_s": 0.15,
        "rotation_entries": 500,
    },
    # A change of the ensemble whose outcome its writer never hears.
    _FEW_BYTES
    | {
        "faults": ("overdue_bookie", "unheard_change", TIMELY),
        "bookies": 4,
        "ensemble": 3,
        "write": 3,
        "ack": 2,
        "patience": 0.3,
        "fast": True,
        "writers": 1,
        "append_every_s": 0.05,
        "chaos_s": 8.0,
        "fault_every_s": 2.0,
        "rotation_entries": 500,
        "rotation_age_s": 30.0,
    },
    # A recovery reaches a bookie only when it reads.
    _THREE
    | {
        "faults": ("unfenced_bookie", TIMELY),
        "sync_s_max": 0.05,
        "fast": True,
        "writers": 2,
        "append_every_s": 0.05,
        "chaos_s": 12.0,
        "fault_every_s": 4.0,
        "rotation_entries": 500,
        "rotation_age_s": 30.0,
    },
    # LACs arrive late, out of order or never, and no append brings a newer one.
    _THREE
    | {
        "faults": ("stall", "reset", TIMELY),
        "ack": 3,
        "fast": False,
        "patience": 0.3,
        "writers": 1,
        "readers": 1,
        "append_every_s": 0.3,
        "chaos_s": 8.0,
        "fault_every_s": 0.4,
    },
    # Writers take over from each other while requests to the store are late.
    _FEW_BYTES
    | {
        "faults": ("metadata_request_late", "pause_client", "metadata_partition", TIMELY),
        "writers": 3,
        "store_s_max": 0.2,
        "chaos_s": 10.0,
        "fault_every_s": 0.4,
        "rotation_entries": 5,
        "rotation_age_s": 0.7,
    },
    # No bookie can replace the one that fails, and the writer must not go on with fewer.
    _THREE
    | {
        "faults": ("kill_bookie",),
        "degraded": False,
        "hold_s": 2.0,
        "term_s": 100.0,
        "writers": 1,
        "payload_bytes_max": 500,
        "rotation_bytes": 2000,
        "chaos_s": 16.0,
        "fault_every_s": 4.0,
    },
)
"""Settings and faults that together ask one part of the protocol."""


def narrowed(draw: Draw) -> dict[str, Any]:
    """Few kinds of faults in quick succession, small messages, and extremes of a few settings.

    What needs several of these, and nothing that interferes, hardly ever meets in a run that draws each by itself.
    """
    chance = draw.chance
    if alone := draw.maybe(0.25):
        faults = [chance.choice(SCENES)]
    else:
        family = chance.choice(_FAMILIES)
        faults = chance.sample(family, chance.randint(1, min(3, len(family))))
    if draw.maybe(0.1):
        faults = []
    if draw.maybe(0.1):
        faults.append(UNREADABLE)
    timely = (TIMELY,) if faults and draw.maybe(0.8) else ()
    ensemble, write, ack = chance.choice((*(3 * [(3, 3, 2)]), (3, 3, 3), (3, 3, 3), (3, 2, 2), (5, 3, 2)))
    copiers = draw.maybe(0.15)
    found = {
        "faults": (*faults, *timely),
        "bookies": min(6, ensemble + chance.choice((0, 0, 1, 3)) + (1 if copiers else 0)),
        "ensemble": ensemble,
        "write": write,
        "ack": ack,
        "chaos_s": 20.0 if draw.maybe(0.06) else 8.0 if alone else chance.choice((3.0, 5.0, 8.0)),
        "fault_every_s": chance.choice((1.0, 2.0, 4.0)) if alone else chance.choice((0.15, 0.4, 0.4)),
        "append_every_s": chance.choice((0.02, 0.05, 0.05, 0.2, 0.5)),
        "payload_bytes_max": chance.choice((10, 10, 10, 8000)),
        "fast": draw.maybe(0.35),
        "writers": chance.choice((1, 2, 2, 3, 3, 4)),
        "readers": chance.choice((1, 1, 1, 2, 4)),
        "witnesses": chance.choice((0, 0, 1)),
        "rotation_entries": chance.choice((5, 50, 500)),
        "rotation_age_s": chance.choice((0.5, 1.0, 3.0, 30.0)),
        "store_s_max": chance.choice((3e-3, 3e-3, 3e-3, 0.2, 0.5)),
        "sync_s_max": chance.choice((2e-3, 2e-3, 50e-3, 50e-3, 0.2)),
        "patience": chance.choice((0.3, 1.0, 1.0)),
        "hold_s": chance.choice((60.0, 60.0, 2.0)),
        "term_s": chance.choice((15.0, 15.0, 0.7, 100.0)),
        "aborts": chance.choice((0.1, 0.1, 1.0)),
        "resolves": chance.choice((0.2, 1.0)),
        "shrinks": draw.maybe(0.25),
        "other_log": draw.maybe(0.15),
        "neighbours": 2 if draw.maybe(0.1) else 0,
        "copiers": 2 if copiers else 0,
        "parallel_logs": 0,
        "producers": 0,
        "sinks": 0,
        "operators": 0,
        "cancellers": 0,
        "mixed_settings": False,
        "huge_bytes": 0,
        "limbo": False,
    }
    return found | chance.choice(_SITUATIONS) if draw.maybe(0.35) else found
