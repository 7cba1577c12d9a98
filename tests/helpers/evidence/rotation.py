"""The whole swarm: which profiles a seed is run in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
