"""What a machine may ask of its shell. Imperatives, frozen, executed in the order given."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.model import EntryId


@dataclass(frozen=True, slots=True)
class ReleaseThrough:
    """Adds up to `entry_id` are done, in the sense of the handle's visibility: complete them."""

    entry_id: EntryId


@dataclass(frozen=True, slots=True)
class WriteLac:
    """Store the explicit LAC on the bookie at `position`; its failure is a failure of that bookie."""

    position: int
    lac: EntryId


@dataclass(frozen=True, slots=True)
class Resend:
    """Send every unconfirmed entry of this position's write sets to it, with the original bytes."""

    position: int


AppendCommand = ReleaseThrough | WriteLac | Resend
