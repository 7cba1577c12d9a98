"""Waiting times that grow and differ between processes."""

from __future__ import annotations

from ledger.environment import Environment


class Backoff:
    """Full jitter: each wait is drawn from zero to a bound that doubles up to `max_s`."""

    def __init__(self, environment: Environment, *, first_s: float = 0.02, max_s: float = 2.0) -> None:
        self._rng = environment.rng
        self._first_s = first_s
        self._max_s = max_s
        self._bound_s = first_s

    def next_s(self) -> float:
        bound = self._bound_s
        self._bound_s = min(bound * 2, self._max_s)
        return self._rng.uniform(bound / 4, bound)

    def reset(self) -> None:
        self._bound_s = self._first_s
