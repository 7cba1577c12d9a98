"""Decides when a point of ledger/buggify.py forces its behaviour: some are on in a run, and fire now and then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from dlog.testing.kernel.seeds import Seeds
from dlog.testing.kernel.trace import Trace
from ledger import buggify

_ON = 0.25
_RATE_MIN, _RATE_MAX = 0.05, 0.25


class ForcedPoints:
    """Of one run. Each point has a stream of its own, so that a new one does not shift the others."""

    def __init__(self, seeds: Seeds, trace: Trace) -> None:
        self._seeds = seeds
        self._trace = trace
        self._rates: dict[str, float] = {}
        self.counts: Counter[str] = Counter()
        """How often each point has fired."""

    def fires(self, point: str) -> float:
        rng = self._seeds.stream(f"buggify {point}")
        rate = self._rates.get(point)
        if rate is None:
            is_on = rng.random() < _ON
            rate = self._rates[point] = rng.uniform(_RATE_MIN, _RATE_MAX) if is_on else 0.0
        if not rate or rng.random() >= rate:
            return 0.0
        self.counts[point] += 1
        self._trace.note("fault.buggify", "world", point)
        return 1.0 - rng.random()

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Inside, production code asks these."""
        before, buggify.fires = buggify.fires, self.fires
        try:
            yield
        finally:
            buggify.fires = before
