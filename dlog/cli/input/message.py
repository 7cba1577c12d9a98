"""A message to append, and the limits of what it is read from. Pure."""

from __future__ import annotations

from typing import NamedTuple

from dlog.errors import MessageTooLargeError
from ledger.model import ENTRY_BYTES_MAX

Headers = tuple[tuple[bytes, bytes], ...]


class NewMessage(NamedTuple):
    key: bytes | None
    payload: bytes | None
    """None: a tombstone."""
    headers: Headers = ()


Group = list[NewMessage]


def check_size(size: int, what: str, bytes_max: int = ENTRY_BYTES_MAX) -> None:
    """MessageTooLargeError if an input unit of `size` bytes exceeds `bytes_max`, by default the largest message."""
    if size > bytes_max:
        raise MessageTooLargeError(
            f"{what} of the input has {size} bytes or more, the limit of {what} is {bytes_max}: split it",
            entry_bytes=size,
            entry_bytes_max=bytes_max,
        )
