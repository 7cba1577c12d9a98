"""Hunts for many planted bugs, on some processes. Not in `__main__`, which spawned processes do not import."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from dlog.testing.swarm.plan import Plan
from tests.helpers.mutations.search import Hunt, hunt
from tests.helpers.mutations.shrinking import shrunk
from tests.simulation.mutations.catalogue import MUTATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How each is hunted."""

    seeds: range
    seconds_max: float
    whole_swarm: bool
    shrinks: bool
    """Whether a run that found it is also made short."""


def hunt_all(names: Sequence[str], order: Order, processes: int) -> Iterator[tuple[Hunt, Plan | None]]:
    """What came of each, as it ends, with the short run."""
    work = partial(_hunt_one, order=order)
    if processes == 1:
        yield from map(work, names)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(work, names)


def _hunt_one(name: str, order: Order) -> tuple[Hunt, Plan | None]:
    mutation = MUTATIONS[name]
    found = hunt(mutation, order.seeds, whole_swarm=order.whole_swarm, seconds_max=order.seconds_max)
    return found, shrunk(mutation, found.plan) if order.shrinks and found.plan is not None else None
