"""Input as binary messages, each preceded by its length, 4 bytes big-endian. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dlog.cli.input.message import Group, NewMessage, check_size
from ledger.errors import ConfigurationError
from ledger.printing import counted

_LENGTH_BYTES = 4


def length_prefixed_messages(chunks: Iterable[bytes]) -> Iterator[Group]:
    """ConfigurationError: the input ends inside a message."""
    held = bytearray()
    for chunk in chunks:
        held += chunk
        group, start = [], 0
        while len(held) - start >= _LENGTH_BYTES:
            payload_at = start + _LENGTH_BYTES
            size = int.from_bytes(held[start:payload_at], "big")
            check_size(size, "a message")
            if len(held) - payload_at < size:
                break
            group.append(NewMessage(None, bytes(held[payload_at : payload_at + size])))
            start = payload_at + size
        del held[:start]
        if group:
            yield group
    if held:
        raise ConfigurationError(
            f"the input ends inside a message: its end, {counted(len(held), 'byte')}, is not a whole message"
        )
