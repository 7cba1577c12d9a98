"""Answers of a ZooKeeper server that lags behind, to reads that need not be linearizable.

Invariant, as in a session of ZooKeeper: an answer is never older than what this handle has read of that value before,
than its own changes, or than what a watch of it has reported. Nor does a server lag for long.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ledger.buggify import buggify
from ledger.metadata.store import Watch
from ledger.model import Versioned

_LAG_S = 2.0


class OlderAnswers:
    """Of one handle, by the register that was read."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._kept: dict[str, tuple[float, Versioned[Any]]] = {}
        self._forgotten: dict[str, int] = {}

    def now(self, register: str) -> int:
        """To be asked when a read begins."""
        return self._forgotten.get(register, 0)

    def keep(self, register: str, began: int, found: Versioned[Any]) -> None:
        """The answer of a read that began at `began`, which counts unless a change was seen since."""
        _, kept = self._kept.get(register, (0.0, None))
        if began == self.now(register) and (kept is None or kept.version <= found.version):
            self._kept[register] = self._loop.time(), found

    def older(self, register: str) -> Versioned[Any] | None:
        """What a server that lags behind answers now; None if it does not."""
        kept_at, kept = self._kept.get(register, (0.0, None))
        is_possible = kept is not None and self._loop.time() - kept_at < _LAG_S
        return kept if is_possible and buggify("metadata.older-answer") else None

    def forget(self, register: str) -> None:
        """This handle changes the register, or knows that it was changed."""
        self._forgotten[register] = self.now(register) + 1
        self._kept.pop(register, None)

    def reporting(self, register: str, watch: Watch) -> Watch:
        """A watch counts for what is read after it was set, and after it has reported a change."""

        def report() -> None:
            self.forget(register)
            watch()

        self.forget(register)
        return report
