"""Samples of the benchmark of an hour, as tests make them."""

from __future__ import annotations

from benchmarks.hour.samples import CopiesSample


def copies(at_s: float, flipped: int = 0, flipped_intact: int = 0, short: int = 0) -> CopiesSample:
    return CopiesSample(
        at_s=at_s,
        by_copies={"2": short, "3": 100 - short},
        short_fragments=short,
        short_entries=short,
        smaller_quorum=0,
        read=10,
        least_intact=2,
        mean_intact=2.9,
        flipped=flipped,
        flipped_intact=flipped_intact,
    )
