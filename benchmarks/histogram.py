"""Percentiles of measured values. Pure.

Nearest rank: a percentile is always one of the measured values, never one in between, so that the p99 of a
hundred values is a latency that somebody really waited for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of the ascending values that at least `share` (0 to 1) of them do not exceed."""
    if not ordered:
        raise ValueError("no values were measured")
    if not 0 <= share <= 1:
        raise ValueError(f"a share lies between 0 and 1, not at {share}")
    rank = math.ceil(share * len(ordered))
    return ordered[max(rank, 1) - 1]


def median(values: Iterable[float]) -> float:
    return percentile(sorted(values), 0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What a table shows of many values; the unit is that of the values."""

    count: int
    smallest: float
    p50: float
    p90: float
    p99: float
    p999: float
    largest: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Summary:
        ordered = sorted(values)
        return cls(
            count=len(ordered),
            smallest=percentile(ordered, 0),
            p50=percentile(ordered, 0.5),
            p90=percentile(ordered, 0.9),
            p99=percentile(ordered, 0.99),
            p999=percentile(ordered, 0.999),
            largest=percentile(ordered, 1),
        )
