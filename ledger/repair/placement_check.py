"""A check of where the copies of all ledgers are: which do not span the racks and zones that placement asks for.

Moves nothing and marks nothing, as Apache's placement policy check.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from ledger.client import LedgerClient
from ledger.core.placement import Adherence
from ledger.errors import MetadataFormatError
from ledger.model import BookieId, LedgerId
from ledger.repair.ledger_index import all_ledgers

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NarrowFragment:
    """The copies of these entries are in too few racks or zones."""

    ledger_id: LedgerId
    first_entry: int
    ensemble: tuple[BookieId, ...]


@dataclass(slots=True)
class PlacementFindings:
    """What the check of all ledgers has found."""

    ledgers: int = 0
    unknown: int = 0
    """Ledgers of which it depends on bookies whose location is not known."""
    unreadable: int = 0
    """Ledgers whose metadata cannot be read; `ledgers` does not count them."""
    narrow: list[NarrowFragment] = field(default_factory=list)

    @property
    def narrow_ledgers(self) -> int:
        """Ledgers with at least one narrow fragment."""
        return len({each.ledger_id for each in self.narrow})


async def check_placement(
    ledgers: LedgerClient, on_checked: Callable[[int], None] = lambda count: None
) -> PlacementFindings:
    """Compare the metadata of every ledger with the placement policy. One that cannot be read is logged and counted.

    `on_checked` is called with the number of ledgers so far.

    Raises:
        MetadataUnavailableError: the metadata store cannot be reached.
    """
    found = PlacementFindings()
    policy = ledgers.placement()

    def report(error: MetadataFormatError) -> None:
        found.unreadable += 1
        _log.error("the placement of a ledger is not checked: %s", error)

    async for ledger_id, metadata in all_ledgers(ledgers.store, report):
        found.ledgers += 1
        adherences = []
        for fragment in metadata.fragments:
            adherence = policy.adherence(fragment.ensemble, metadata.quorum)
            adherences.append(adherence)
            if adherence is Adherence.NARROW:
                found.narrow.append(NarrowFragment(ledger_id, fragment.first_entry, fragment.ensemble))
        found.unknown += Adherence.UNKNOWN in adherences and Adherence.NARROW not in adherences
        on_checked(found.ledgers)
    return found
