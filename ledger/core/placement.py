"""Choice of bookies for a ledger: uniformly at random among the writable ones, never one twice. Pure.

Protocol: docs/bookkeeper.md#creating-a-ledger.
"""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from ledger.errors import NotEnoughBookiesError
from ledger.model import BookieId, BookieSet


def choose_ensemble(bookies: BookieSet, size: int, rng: Random) -> tuple[BookieId, ...]:
    """Choose `size` different writable bookies.

    Raises:
        NotEnoughBookiesError: fewer are registered; nothing was written.
    """
    candidates = sorted(info.bookie_id for info in bookies.writable)
    if len(candidates) < size:
        raise NotEnoughBookiesError(
            f"the ensemble needs {size} writable bookies and {len(candidates)} are registered; "
            "start more bookies or ask for a smaller ensemble",
            needed=size,
            available=len(candidates),
        )
    return tuple(rng.sample(candidates, size))


def choose_replacements(
    bookies: BookieSet,
    ensemble: Collection[BookieId],
    avoid: Collection[BookieId],
    count: int,
    rng: Random,
) -> list[BookieId]:
    """Choose up to `count` writable bookies that are neither in `ensemble` nor in `avoid`; maybe none."""
    taken = {*ensemble, *avoid}
    candidates = sorted(info.bookie_id for info in bookies.writable if info.bookie_id not in taken)
    return rng.sample(candidates, min(count, len(candidates)))
