"""Whole numbers that were written as text by another program or by a person. Pure."""

from __future__ import annotations

_DIGITS_MAX = 40
"""More than any number of ours has, and far fewer than those from which on Python refuses to convert."""


def whole_number(text: str | bytes, most: int) -> int | None:
    """The number of ASCII digits that `text` is; None if it is anything else, or above `most`.

    int() alone raises a ValueError for thousands of digits and takes those of other scripts for numbers.
    """
    if len(text) > _DIGITS_MAX or not text.isascii() or not text.isdigit():
        return None
    number = int(text)
    return number if number <= most else None
