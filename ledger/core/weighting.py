"""Free space as the probability of being chosen. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from random import Random
from statistics import median

from ledger.model import BookieId


def weights_of(
    candidates: Sequence[BookieId], free_bytes: Mapping[BookieId, int], multiple_max: float
) -> dict[BookieId, float]:
    """The candidates' weights: their free bytes, up to `multiple_max` times the median, as Apache's policy.

    One without free space weighs as the least other one, and one of which nothing is known as the median.
    Empty if nothing is known.
    """
    known = {each: free_bytes[each] for each in candidates if each in free_bytes}
    positive = [each for each in known.values() if each > 0]
    if not positive:
        return {}
    middle, least = median(positive), min(positive)
    return {each: min(float(known.get(each, middle) or least), multiple_max * middle) for each in candidates}


def weighted_order(
    candidates: Sequence[BookieId], weights: Mapping[BookieId, float], rng: Random
) -> list[BookieId]:
    """A random order in which the first one, and then the first of the rest, is chosen by weight."""
    drawn = {each: -log(1.0 - rng.random()) / weights.get(each, 1.0) for each in candidates}
    return sorted(candidates, key=lambda each: drawn[each])
