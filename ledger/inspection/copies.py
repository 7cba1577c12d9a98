"""The copies of a ledger's entries, judged. Pure.

An entry is acknowledged with an ack quorum of copies; repair brings it to its write quorum. So fewer copies than the
write quorum are usual after a failure of a bookie, fewer than the ack quorum are not (docs/bookkeeper.md#recovery).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ledger.model import BookieId, QuorumSizes


class CopyState(StrEnum):
    """What a bookie has of an entry that was written to it."""

    INTACT = "intact"
    MISSING = "missing"
    DAMAGED = "damaged"
    """Its digest is wrong, or the bookie cannot read it, or has lost part of its journal and may have lost it."""
    UNREACHABLE = "unreachable"
    """The bookie does not respond, so nothing is known."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One bookie's copy of one entry. `reason`: why it is not intact."""

    state: CopyState
    hashed: bytes = b""
    """Of an intact copy: a hash of its payload and of the ledger's length that it states."""
    payload_bytes: int = 0
    reason: str = ""


Copies = Mapping[BookieId, Copy]

FINDINGS_MAX = 1000
"""Of one ledger: one whose copies alternate entry by entry must not fill the memory."""


class Verdict(StrEnum):
    """What the copies of an entry mean, the best first."""

    COMPLETE = "complete"
    """The write quorum has it."""
    ON_ACK_QUORUM = "on its ack quorum"
    """Fewer than the write quorum are known to have it, as many as its acknowledgement needed."""
    UNPROVED = "unproved"
    """Bookies that do not respond may have the copies that the ack quorum lacks."""
    BELOW_ACK_QUORUM = "below the ack quorum"
    LOST = "lost"
    """Every bookie has responded, and none has an intact copy."""
    DIFFERENT = "different"
    """Intact copies with different contents."""


def judge(copies: Copies, quorum: QuorumSizes) -> Verdict:
    states = Counter(copy.state for copy in copies.values())
    contents = {copy.hashed for copy in copies.values() if copy.state is CopyState.INTACT}
    intact, unknown = states[CopyState.INTACT], states[CopyState.UNREACHABLE]
    if len(contents) > 1:
        return Verdict.DIFFERENT
    if intact >= quorum.write:
        return Verdict.COMPLETE
    if intact >= quorum.ack:
        return Verdict.ON_ACK_QUORUM
    if intact + unknown >= quorum.ack:
        return Verdict.UNPROVED
    return Verdict.BELOW_ACK_QUORUM if intact + unknown else Verdict.LOST


@dataclass(slots=True)
class Finding:
    """Consecutive entries of which the copies are the same, and not all intact."""

    first_entry: int
    last_entry: int
    verdict: Verdict
    copies: dict[BookieId, CopyState]
    reasons: dict[BookieId, str]
    """Of the first of them."""


@dataclass(slots=True)
class LedgerCopies:
    """What was found of one ledger, up to the entries checked so far."""

    ledger_id: int
    quorum: QuorumSizes
    entries: int = 0
    payload_bytes: int = 0
    copies: Counter[CopyState] = field(default_factory=Counter)
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    findings_omitted: int = 0
    """Number of entries with findings beyond the first FINDINGS_MAX."""

    @property
    def damaged(self) -> bool:
        """Whether a copy is damaged or differs, although the entry may have enough others."""
        return bool(self.copies[CopyState.DAMAGED] or self.verdicts[Verdict.DIFFERENT])

    @property
    def proved(self) -> bool:
        """Whether each entry has the copies that its acknowledgement promised."""
        return not any(
            self.verdicts[each]
            for each in (Verdict.UNPROVED, Verdict.BELOW_ACK_QUORUM, Verdict.LOST, Verdict.DIFFERENT)
        )

    def add(self, entry_id: int, copies: Copies) -> None:
        """The copies of the next entry."""
        verdict = judge(copies, self.quorum)
        self.entries += 1
        self.payload_bytes += max((copy.payload_bytes for copy in copies.values()), default=0)
        self.verdicts[verdict] += 1
        states = {bookie_id: copy.state for bookie_id, copy in copies.items()}
        self.copies.update(states.values())
        if verdict is Verdict.COMPLETE and not any(state is CopyState.DAMAGED for state in states.values()):
            return
        last = self.findings[-1] if self.findings else None
        if last is not None and last.last_entry == entry_id - 1 and last.copies == states:
            last.last_entry = entry_id
            return
        if len(self.findings) >= FINDINGS_MAX:
            self.findings_omitted += 1
            return
        reasons = {bookie_id: copy.reason for bookie_id, copy in copies.items() if copy.reason}
        self.findings.append(Finding(entry_id, entry_id, verdict, states, reasons))


def sentences(found: LedgerCopies) -> Iterator[str]:
    """One sentence per finding."""
    for each in found.findings:
        intact = sum(state is CopyState.INTACT for state in each.copies.values())
        which = (
            f"entry {each.first_entry} of ledger {found.ledger_id} has"
            if each.first_entry == each.last_entry
            else f"entries {each.first_entry} to {each.last_entry} of ledger {found.ledger_id} have"
        )
        yield (
            f"{which} {_counted(intact, 'intact copy', 'intact copies')} of {found.quorum.write} ({each.verdict}): "
            f"{'; '.join(_by_state(each)) or 'the copies differ'}"
        )
    if found.findings_omitted:
        yield f"and {_counted(found.findings_omitted, 'more entry', 'more entries')} of ledger {found.ledger_id}"


def _by_state(finding: Finding) -> Iterable[str]:
    for state in (CopyState.MISSING, CopyState.DAMAGED, CopyState.UNREACHABLE):
        names = [bookie_id for bookie_id, found in finding.copies.items() if found is state]
        if names:
            reason = next((finding.reasons[name] for name in names if name in finding.reasons), "")
            yield f"{state} on {', '.join(names)}" + (f" ({reason})" if reason else "")


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
