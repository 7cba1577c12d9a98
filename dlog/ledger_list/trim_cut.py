"""What a trim takes out of a log's list. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dlog.model import MessageId
from ledger.model import LedgerId

PENDING_MAX = 512
"""A record names at most this many single ledgers that wait for deletion. More stay listed until they are in pages,
where one mark is enough, however many they are."""


@dataclass(frozen=True, slots=True)
class TrimCut:
    """The ledgers below `floor` leave the list, and `floor` stays.

    `end` is the first message of the last entry in them; None if they have none, or if it is not known.
    """

    floor: LedgerId
    end: MessageId | None
    lost_through: int | None = None
    """A page that ends with this id, and cannot be read, has the last entry. None if it is known."""
