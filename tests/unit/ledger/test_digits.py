"""Numbers in text: ASCII digits up to a limit, and no exception for anything else."""

from __future__ import annotations

import pytest

from ledger.digits import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("17", 17), (b"017", 17), ("100", 100)])
def test_digits_are_a_number(text: str | bytes, number: int) -> None:
    assert whole_number(text, 100) == number


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", " 1", "1_0", "1.0", "101", "²", "\u0661", b"\xb2", "1" * 5000]
)
def test_anything_else_is_none(text: str | bytes) -> None:
    """Superscripts and digits of other scripts satisfy str.isdigit; int() refuses thousands of digits."""
    assert whole_number(text, 100) is None
