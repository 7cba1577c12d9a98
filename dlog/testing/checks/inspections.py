"""C24: what an inspection reports of a log agrees with what its writers and its bookies know, and it changes nothing.

Each check compares one answer with what was certain when it was asked for. What faults excuse is no contradiction: a
bookie that does not respond, one that was lost or damaged for good, a read that a disk has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from dlog.inspection.explain import Explanation
from dlog.inspection.history import HistoryEvent
from dlog.inspection.overview import Overview
from dlog.inspection.verify import UncheckedLedger
from dlog.model import EARLIEST_ID, ListedLedger, MessageId
from dlog.read.resolution import Resolution
from dlog.testing.checks.history import content_of
from dlog.testing.network.frames import Said
from ledger.errors import ReadError
from ledger.inspection.copies import CopyState, Finding, LedgerCopies, Verdict
from ledger.model import BookieId

_READS = ("READ", "READ_LAC", "AUTH")
_TOO_FEW = (Verdict.BELOW_ACK_QUORUM, Verdict.LOST)
_ACCUSED = (CopyState.MISSING, CopyState.DAMAGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Certain:
    """What was certain of a log when an inspection began; of some of it, what has changed until its end."""

    acked: Sequence[MessageId] = ()
    """Acknowledged messages that every reader must see."""
    trimmed_before: MessageId = EARLIEST_ID
    """As far as any trim was asked for until the end."""
    promised: Mapping[BookieId, Mapping[int, frozenset[int]]] = field(default_factory=dict)
    """By bookie and ledger: the entries that it had acknowledged."""
    ends: Mapping[int, int] = field(default_factory=dict)
    """The last entries of ledgers that were closed."""
    is_sound: Callable[[BookieId], bool] = lambda _: True
    """Whether the bookie must still have what it has acknowledged."""
    has_failed_reads: Callable[[BookieId], bool] = lambda _: False
    """Whether a disk of the bookie has failed a read, after which its index may answer with errors for a while."""

    def kept(self) -> dict[int, int]:
        """Ledgers that the log must list, each with its last entry that is certainly readable."""
        found: dict[int, int] = {}
        for ledger_id, entry_id, _ in self.acked:
            found[ledger_id] = max(entry_id, found.get(ledger_id, -1))
        return {
            ledger_id: entry_id
            for ledger_id, entry_id in found.items()
            if MessageId(ledger_id, entry_id) >= self.trimmed_before
        }


def c24_inspections_change_nothing(said: Said) -> Iterator[str]:
    """`said`: a request to a bookie. A read that fences is a change, and so is every request that is no read."""
    if said.verb not in _READS or "(fence)" in said.besides:
        yield f"sent {said}"


def c24_no_sound_copy_is_accused(
    found: Sequence[LedgerCopies | UncheckedLedger], certain: Certain
) -> Iterator[str]:
    """`verify` says of no entry that it lacks copies which its bookies have, or that these differ."""
    for each in found:
        if isinstance(each, LedgerCopies):
            for finding in each.findings:
                yield from _accusations(each, finding, certain)
        elif not isinstance(each.error, ReadError):
            yield f"ledger {each.ledger_id} could not be checked: {each.error!r}"


def _accusations(ledger: LedgerCopies, finding: Finding, certain: Certain) -> Iterator[str]:
    where = f"entries {finding.first_entry} to {finding.last_entry} of ledger {ledger.ledger_id}"
    entry_ids = range(finding.first_entry, finding.last_entry + 1)
    excused = 0
    for bookie_id, state in finding.copies.items():
        if state not in _ACCUSED:
            continue
        if not certain.is_sound(bookie_id) or (
            state is CopyState.DAMAGED and certain.has_failed_reads(bookie_id)
        ):
            excused += 1
        elif state is CopyState.DAMAGED:
            yield f"{where} are damaged on {bookie_id}: {finding.reasons.get(bookie_id)}"
        elif not certain.promised.get(bookie_id, {}).get(ledger.ledger_id, frozenset()).isdisjoint(entry_ids):
            yield f"{where} are missing on {bookie_id}, which had acknowledged them"
    states = [*finding.copies.values()]
    left = sum(state not in _ACCUSED for state in states)
    is_excused = left < ledger.quorum.ack <= left + excused
    if finding.verdict is Verdict.DIFFERENT or (finding.verdict in _TOO_FEW and not is_excused):
        yield f"{where} are {finding.verdict}: {', '.join(states)}"


def c24_inspections_leave_nothing_out(entries: Mapping[int, int], certain: Certain) -> Iterator[str]:
    """`entries`: the ledgers that were reported, each with the number of its entries, or -1 if that is not known."""
    for ledger_id, last_entry in certain.kept().items():
        found = entries.get(ledger_id)
        if found is None:
            yield f"ledger {ledger_id} is not reported, whose entry {last_entry} was acknowledged"
        elif 0 <= found <= last_entry:
            yield f"ledger {ledger_id} has {found} entries, but entry {last_entry} was acknowledged"
    for ledger_id, last_entry in certain.ends.items():
        if entries.get(ledger_id, -1) not in (-1, last_entry + 1):
            yield f"ledger {ledger_id} has {entries[ledger_id]} entries, but it ends with entry {last_entry}"


def c24_lists_agree(listed: Sequence[ListedLedger], earlier: dict[int, ListedLedger]) -> Iterator[str]:
    """Ids and epochs rise, and what was reported of a ledger before stays so. `earlier` is kept up to date."""
    for before, after in pairwise(listed):
        if after.ledger_id <= before.ledger_id or after.epoch < before.epoch:
            yield f"{after} is after {before}"
    for each in listed:
        known = earlier.get(each.ledger_id, each)
        if (known.epoch, known.created_us) != (each.epoch, each.created_us):
            yield f"{each} was {known} before"
        if known.seal is not None and each.seal is not None and known.seal.last_entry != each.seal.last_entry:
            yield f"{each} was sealed before as {known.seal}"
        if known is each or known.seal is None:
            earlier[each.ledger_id] = each


def c24_histories_are_in_order(events: Sequence[HistoryEvent]) -> Iterator[str]:
    """A takeover has a new epoch, a rotation has that of the ledger before it, and the rest was empty."""
    for before, after in pairwise(events):
        if before.listed is None:
            yield f"{before} is without a ledger, and not the last event"
        if after.takeover != (after.epoch > before.epoch) or after.epoch < before.epoch:
            yield f"{after} follows {before}"
        if after.empty_epochs != range(before.epoch + 1, after.epoch):
            yield f"{after} leaves out {after.empty_epochs} after epoch {before.epoch}"
        if after.pause_us is not None and after.pause_us < 0:
            yield f"{after} has a negative pause"


def c24_overviews_agree_with_acknowledgements(found: Overview, certain: Certain) -> Iterator[str]:
    """The tail is above what was acknowledged, and as many messages are there at least."""
    kept = [each for each in certain.acked if each >= certain.trimmed_before]
    if kept and found.tail is not None and found.tail <= max(kept):
        yield f"the tail is {found.tail}, but {max(kept)} was acknowledged"
    if kept and found.first > min(kept):
        yield f"the log begins at {found.first}, but {min(kept)} was acknowledged and is not trimmed"
    if found.messages is not None and found.messages < len(kept):
        yield f"the log has {found.messages} messages, but {len(kept)} were acknowledged and are not trimmed"


def c24_explanations_agree_with_outcomes(
    found: Explanation, payload: bytes | None, certain: Certain
) -> Iterator[str]:
    """`payload`: of the message with this id, if it was acknowledged and every reader must see it."""
    what = f"{found.message_id} is {found.resolution}"
    message = found.message
    if found.resolution in (Resolution.ABSENT, Resolution.UNDECIDED) and message is not None:
        yield f"{what}, but {message.payload!r} is there"
    if found.resolution is Resolution.COMMITTED and found.metadata is not None and message is None:
        yield f"{what}, but not shown: last readable entry {found.last_readable}, {found.batch} messages"
    if found.copies is not None and found.metadata is not None:
        entry_id = found.message_id.entry_id
        copies = LedgerCopies(found.message_id.ledger_id, found.metadata.quorum)
        copies.add(entry_id, found.copies)
        if entry_id <= found.last_readable:
            yield from c24_no_sound_copy_is_accused([copies], certain)
    if payload is None or found.message_id < certain.trimmed_before:
        return
    if found.resolution is not Resolution.COMMITTED or message is None:
        yield f"{what}, but was acknowledged; last readable entry {found.last_readable}, message {message}"
    elif (shown := content_of(message.payload, message.key, message.headers)) != payload:
        yield f"{what} and shown as {shown!r}, but {payload!r} was acknowledged"
