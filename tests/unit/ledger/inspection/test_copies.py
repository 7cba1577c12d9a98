"""What the copies of an entry mean, and how findings are put into words."""

from __future__ import annotations

import pytest

from ledger.inspection.copies import (
    FINDINGS_MAX,
    Copies,
    Copy,
    CopyState,
    LedgerCopies,
    Verdict,
    judge,
    sentences,
)
from ledger.model import BookieId, QuorumSizes

SIZES = QuorumSizes(ensemble=3, write=3, ack=2)
LETTERS = {
    "i": Copy(CopyState.INTACT, b"1", 10),
    "o": Copy(CopyState.INTACT, b"2", 10),
    "m": Copy(CopyState.MISSING, reason="ENOENTRY"),
    "d": Copy(CopyState.DAMAGED, reason="digest"),
    "u": Copy(CopyState.UNREACHABLE, reason="refused"),
}


def copies(letters: str) -> Copies:
    return {BookieId(f"b{at}"): LETTERS[letter] for at, letter in enumerate(letters, 1)}


@pytest.mark.parametrize(
    ("letters", "verdict"),
    [
        ("iii", Verdict.COMPLETE),
        ("iim", Verdict.ON_ACK_QUORUM),
        ("iid", Verdict.ON_ACK_QUORUM),
        ("iiu", Verdict.ON_ACK_QUORUM),
        ("imu", Verdict.UNPROVED),
        ("uum", Verdict.UNPROVED),
        ("uuu", Verdict.UNPROVED),
        ("imm", Verdict.BELOW_ACK_QUORUM),
        ("idm", Verdict.BELOW_ACK_QUORUM),
        ("mmu", Verdict.BELOW_ACK_QUORUM),
        ("mmm", Verdict.LOST),
        ("mmd", Verdict.LOST),
        ("iio", Verdict.DIFFERENT),
        ("iom", Verdict.DIFFERENT),
    ],
)
def test_copies_are_judged_by_the_quorums(letters: str, verdict: Verdict) -> None:
    assert judge(copies(letters), SIZES) is verdict


@pytest.mark.parametrize(
    ("letters", "proved", "damaged"),
    [
        ("iii", True, False),
        ("iim", True, False),
        ("iiu", True, False),
        ("iid", True, True),
        ("imu", False, False),
        ("imm", False, False),
        ("mmm", False, False),
        ("iio", False, True),
    ],
)
def test_a_ledger_is_as_its_worst_entry(letters: str, proved: bool, damaged: bool) -> None:
    found = LedgerCopies(7, SIZES)
    found.add(0, copies("iii"))
    found.add(1, copies(letters))
    found.add(2, copies("iii"))
    assert (found.proved, found.damaged) == (proved, damaged)
    assert (found.entries, found.payload_bytes) == (3, 20 + 10 * ("i" in letters))
    assert sum(found.copies.values()) == 9
    assert sum(found.verdicts.values()) == 3


def test_entries_with_the_same_copies_are_one_finding() -> None:
    found = LedgerCopies(7, SIZES)
    for entry_id, letters in enumerate(("iii", "iim", "iim", "imi", "iii", "imi", "mdu", "iio", "iii")):
        found.add(entry_id, copies(letters))
    assert list(sentences(found)) == [
        "entries 1 to 2 of ledger 7 have 2 intact copies of 3 (on its ack quorum): missing on b3 (ENOENTRY)",
        "entry 3 of ledger 7 has 2 intact copies of 3 (on its ack quorum): missing on b2 (ENOENTRY)",
        "entry 5 of ledger 7 has 2 intact copies of 3 (on its ack quorum): missing on b2 (ENOENTRY)",
        "entry 6 of ledger 7 has 0 intact copies of 3 (below the ack quorum): missing on b1 (ENOENTRY); "
        "damaged on b2 (digest); unreachable on b3 (refused)",
        "entry 7 of ledger 7 has 3 intact copies of 3 (different): the copies differ",
    ]


def test_a_damaged_copy_is_reported_even_if_the_write_quorum_has_others() -> None:
    """More copies than the write quorum: none is written today, but the count must not hide the damage."""
    found = LedgerCopies(7, QuorumSizes(ensemble=3, write=2, ack=2))
    found.add(0, copies("iid"))
    assert [each.verdict for each in found.findings] == [Verdict.COMPLETE]


def test_findings_are_bounded() -> None:
    found = LedgerCopies(7, SIZES)
    for entry_id in range(FINDINGS_MAX + 5):
        found.add(entry_id, copies("iim" if entry_id % 2 else "imi"))
    assert len(found.findings) == FINDINGS_MAX
    assert found.verdicts[Verdict.ON_ACK_QUORUM] == FINDINGS_MAX + 5
    assert list(sentences(found))[-1] == "and 5 more entries of ledger 7"
