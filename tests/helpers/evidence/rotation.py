"""The whole swarm: which profiles a seed is run in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

STEPS = {"chaos": 1, "scenes": 2, "narrow": 2, "beyond": 10, "calm": 100}
"""Every n-th seed runs in the profile."""

Job = tuple[str, int]
"""Profile and seed."""


def jobs_of(seeds: Iterable[int]) -> Iterator[Job]:
    """All runs of these seeds, each seed's own first."""
    for seed in seeds:
        for profile, step in STEPS.items():
            if seed % step == 0:
                yield profile, seed


def place_of(job: Job) -> int:
    """Its number in the rotation, from 1."""
    return next(number for number, each in enumerate(jobs_of(count(1)), 1) if each == job)


def runs_of_seeds(seeds: int) -> int:
    """How many runs seeds from 1 on have, in all their profiles."""
    return sum(1 for _ in jobs_of(range(1, seeds + 1)))
