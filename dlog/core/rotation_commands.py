"""What the rotation machine may ask of its shell. Imperatives, frozen, executed in the order given.

Those that wait are answered by one event each, named after the arrow. `Hold` and `SubmitTo` replace the one before.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlog.model import LogMetadata
from ledger.model import LedgerId


@dataclass(frozen=True, slots=True)
class SubmitTo:
    """Appends go to this ledger, held ones first."""

    ledger_id: LedgerId


@dataclass(frozen=True, slots=True)
class Hold:
    """Appends are held, in order."""


@dataclass(frozen=True, slots=True)
class Release:
    """Acks of this ledger may be delivered from now on."""

    ledger_id: LedgerId


@dataclass(frozen=True, slots=True)
class CreateLedger:
    """→ on_ledger_created, on_create_failed"""


@dataclass(frozen=True, slots=True)
class DiscardLedger:
    """Delete a ledger that was never listed and never can be. No event."""

    ledger_id: LedgerId


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """Compare-and-set, lost answers resolved → on_answer, on_store_unavailable"""

    record: LogMetadata
    version: int


@dataclass(frozen=True, slots=True)
class ReadRecord:
    """Linearizably, however long it takes → on_record"""


@dataclass(frozen=True, slots=True)
class Drain:
    """→ on_drained once no append is in flight in this ledger"""

    ledger_id: LedgerId


@dataclass(frozen=True, slots=True)
class CloseLedger:
    """→ on_closed, on_close_undecided, on_failed"""

    ledger_id: LedgerId


@dataclass(frozen=True, slots=True)
class Settle:
    """Detach the handles and recover in this order; each recovery decides the appends in flight there.

    Up to the recovered last entry they are acknowledged, the others are held in order. → on_settled,
    on_settle_failed, on_ledger_gone
    """

    ledger_ids: tuple[LedgerId, ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """→ on_retry after a pause that grows with `attempt`"""

    attempt: int


@dataclass(frozen=True, slots=True)
class ProbeStore:
    """Send the store any request with a short timeout → on_store_reachable, on_store_unreachable"""


@dataclass(frozen=True, slots=True)
class WaitForCandidate:
    """→ on_waited after about two seconds with jitter, so that a candidate wins (docs/log-semantics.md#rule-24b)"""


@dataclass(frozen=True, slots=True)
class Depose:
    """The log is permanently lost to this writer. `found` is the record of the new owner, if it is known."""

    found: LogMetadata | None


@dataclass(frozen=True, slots=True)
class Finished:
    """The writer is closed; everything it accepted is acknowledged."""


Command = (
    SubmitTo
    | Hold
    | Release
    | CreateLedger
    | DiscardLedger
    | WriteRecord
    | ReadRecord
    | Drain
    | CloseLedger
    | Settle
    | Retry
    | ProbeStore
    | WaitForCandidate
    | Depose
    | Finished
)
