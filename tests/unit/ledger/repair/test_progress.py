"""Counts of copies: those of a copy that fails are taken back, those of a ledger that is done stay."""

from __future__ import annotations

import pytest

from ledger.model import LedgerId
from ledger.repair.progress import CopyProgress, copied_so_far


def test_a_ledger_is_current_while_it_is_repaired_and_counts_afterwards() -> None:
    progress = CopyProgress()
    with progress.of(LedgerId(1), 1000) as one:
        one.add(10, 500)
        assert (list(progress.current), progress.entries, progress.payload_bytes) == ([1], 10, 500)
    with progress.of(LedgerId(2), 2000) as two:
        two.add(1, 50)
        assert (list(progress.current), progress.entries, progress.payload_bytes) == ([2], 11, 550)
    assert (progress.current, progress.entries, progress.payload_bytes) == ({}, 11, 550)


def test_a_copy_that_fails_is_taken_back() -> None:
    progress = CopyProgress()
    with progress.of(LedgerId(1), 0) as one:
        one.add(10, 500)
        with pytest.raises(OSError), one.attempt():
            one.add(5, 250)
            raise OSError
        with one.attempt():
            one.add(7, 350)
    assert (progress.entries, progress.payload_bytes) == (17, 850)


def test_what_is_to_copy_may_not_be_known_yet() -> None:
    with CopyProgress().of(LedgerId(1), 0) as one:
        assert copied_so_far(one) == "reading copies"
        one.entries_total = 2000
        one.add(1000, 2_000_000)
        assert copied_so_far(one) == "copied 1,000 of 2,000 entries, 2.0 MB"
