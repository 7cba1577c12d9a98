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


def check_size(size: int, what: str) -> None:
    """MessageTooLargeError if an input unit of `size` bytes exceeds the largest possible message."""
    if size > ENTRY_BYTES_MAX:
        raise MessageTooLargeError(
            f"{what} of the input has {size} bytes or more, the limit of a message is {ENTRY_BYTES_MAX}: split it",
            entry_bytes=size,
            entry_bytes_max=ENTRY_BYTES_MAX,
        )
