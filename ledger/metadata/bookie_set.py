"""What a driver finds in the lists of registrations, put together: the bookies that can be reached, and the others.

One bookie that publishes nonsense cannot be reached; it must not hide the others, nor pass for one that is stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ledger.model import BookieInfo, BookieSet, DamagedRegistration

_log = logging.getLogger(__name__)


def bookie_set(found: Iterable[BookieInfo | DamagedRegistration]) -> BookieSet:
    writable: list[BookieInfo] = []
    read_only: list[BookieInfo] = []
    damaged: list[DamagedRegistration] = []
    for each in found:
        if isinstance(each, DamagedRegistration):
            damaged.append(each)
        else:
            (read_only if each.read_only else writable).append(each)
    return BookieSet(tuple(writable), tuple(read_only), tuple(damaged))


class DamageReports:
    """Logs each damaged registration once, and again when it has changed or was sound in the meantime."""

    def __init__(self) -> None:
        self._reported: frozenset[DamagedRegistration] = frozenset()

    def report(self, damaged: Iterable[DamagedRegistration]) -> None:
        found = frozenset(damaged)
        for each in sorted(found - self._reported, key=lambda each: each.bookie_id):
            _log.warning(
                "bookie %r is registered and left out of the list: %s; restart it, so that it registers anew",
                each.bookie_id,
                each.reason,
            )
        self._reported = found
