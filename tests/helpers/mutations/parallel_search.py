"""Hunts for many planted bugs, on some processes. Not in `__main__`, which spawned processes do not import."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from dlog.testing.swarm.plan import Plan
from tests.helpers.mutations.search import SearchResult, search
from tests.helpers.mutations.shrinking import shortened
from tests.simulation.mutations.catalogue import MUTATIONS


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How each is hunted."""

    seeds: range
    seconds_max: float
    shrinks: bool
    """Whether a run that found it is also made short."""


def search_all(
    names: Sequence[str], options: SearchOptions, processes: int
) -> Iterator[tuple[SearchResult, Plan | None]]:
    """What came of each, as it ends, with the short run."""
    work = partial(_search_one, options=options)
    if processes == 1:
        yield from map(work, names)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(work, names)


def _search_one(name: str, options: SearchOptions) -> tuple[SearchResult, Plan | None]:
    mutation = MUTATIONS[name]
    found = search(mutation, options.seeds, seconds_max=options.seconds_max)
    return found, shortened(mutation, found.plan) if options.shrinks and found.plan is not None else None
