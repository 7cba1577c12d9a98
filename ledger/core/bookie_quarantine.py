"""Which bookies to avoid for a while, because they failed recently. Pure.

A bookie that accepts connections and refuses adds, or answers nothing, would otherwise be chosen again and
again, each time with a change of metadata. One that did its work before it failed is avoided for the first step only.

Pitfall: docs/pitfalls.md#unbounded-queue.
"""

from __future__ import annotations

from ledger.model import BookieId


class BookieQuarantine:
    """Failed bookies and the times until which they are avoided; times double up to a maximum."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._rest_s: dict[BookieId, float] = {}
        self._until: dict[BookieId, float] = {}

    def on_failed(self, bookie_id: BookieId, *, useful: bool, now: float) -> None:
        """The bookie failed; `useful`: it had done its work before."""
        before = 0.0 if useful else self._rest_s.get(bookie_id, 0.0)
        self._rest_s[bookie_id] = min(self._longest_s, 2 * before or self._first_s)
        self._until[bookie_id] = now + self._rest_s[bookie_id]

    def resting(self, now: float) -> set[BookieId]:
        """The bookies to avoid now."""
        return {bookie_id for bookie_id, until in self._until.items() if until > now}
