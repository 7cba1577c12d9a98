"""Why the whole swarm does not find a planted bug within 2,000 seeds, and what finds it instead."""

from __future__ import annotations

WHY_MISSED: dict[str, str] = {
    "closing-fast-writer-keeps-its-lac": (
        "A fast writer must close a ledger just when the store is away for longer than its readers may wait, and a "
        "reader must wait for the last entry. With those faults alone 87 seeds find it."
    ),
    "acks-outside-the-write-set-count": (
        "A bookie must be replaced and come back at another position of a striped ledger while it still has answers to "
        "give. With slow syncs, reset connections, four bookies, E 3 and Qw 2 it takes 11 seeds."
    ),
    "undecided-change-forgotten": (
        "The answer to an ensemble change must be lost while the replaced bookie answers again. Two scenes made for "
        "that find it within 8 seeds."
    ),
    "explicit-lac-falls": (
        "Two explicit LACs of one ledger must reach a bookie in the wrong order, and a reader must ask it before the "
        "next one. With Qa 3, hardly any appends and connections that stand still a few seeds find it."
    ),
    "limbo-forgets-its-fences": (
        "A bookie must lose the part of its journal that holds a fence, and start while the fenced writer still "
        "appends. The scene `rotten_fence` finds it within 8 seeds."
    ),
    "append-waits-without-limit": (
        "A full ledger that nothing can replace needs a cluster that has lost a bookie and does not write with fewer, "
        "for longer than an append may wait. A plan made of just that finds it in its first run."
    ),
}
