"""Input as lines, each a message, with its key before a delimiter if there is one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dlog.cli.input.message import Group, NewMessage, check_size
from ledger.errors import ConfigurationError
from ledger.model import ENTRY_BYTES_MAX


def split_lines(chunks: Iterable[bytes], bytes_max: int = ENTRY_BYTES_MAX) -> Iterator[list[bytes]]:
    """For each chunk that ends a line, the lines that are complete, without their line ends.

    Raises:
        MessageTooLargeError: a line is longer than `bytes_max`.
    """
    kept: list[bytes] = []
    kept_bytes = 0
    for chunk in chunks:
        head, end, rest = chunk.partition(b"\n")
        kept.append(head)
        kept_bytes += len(head)
        check_size(kept_bytes, "a line", bytes_max)
        if end:
            complete = rest.split(b"\n")
            first, kept, kept_bytes = b"".join(kept), [complete[-1]], len(complete[-1])
            yield [first, *complete[:-1]]
    last = b"".join(kept)
    if last:
        yield [last]


def line_messages(groups: Iterable[list[bytes]], key_delimiter: bytes | None) -> Iterator[Group]:
    """ConfigurationError: a line without the delimiter."""
    if key_delimiter is None:
        yield from ([NewMessage(None, line) for line in group] for group in groups)
        return
    number = 0
    for lines in groups:
        group = []
        for line in lines:
            number += 1
            key, found, payload = line.partition(key_delimiter)
            if not found:
                shown = key_delimiter.decode(errors="replace")
                raise ConfigurationError(
                    f"line {number} of the input has no key: the delimiter {shown!r} is not in it"
                )
            group.append(NewMessage(key, payload))
        yield group
