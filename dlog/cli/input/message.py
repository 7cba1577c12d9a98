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
    """MessageTooLargeError if an input unit of `size` bytes exceeds `bytes_max`, by default the largest entry.

    A message may have less than that: it is checked when its key and headers are known, and named here, so that a
    line is not split in vain.
    """
    if size <= bytes_max:
        return
    from dlog.config import LogConfig

    message_max = LogConfig().batching.entry_bytes_max
    unit_max = "" if what == "a message" else f"the limit of {what} is {bytes_max}, and "
    raise MessageTooLargeError(
        f"{what} of the input has {size} bytes or more; {unit_max}the limit of a message is an entry of {message_max} "
        "bytes: split it",
        entry_bytes=size,
        entry_bytes_max=message_max,
    )
