"""Input of `dlog append`: splits a stream of bytes into groups of messages. Opens nothing and waits for nothing.

    lines        each line is a message, without its line end
    csv          the first row names the columns; each further row is a message, unchanged
    jsonl        each line is one JSON value and a message, unchanged
    raw-length   each message is preceded by its length, 4 bytes big-endian

A group is all messages that one chunk of input completed. So the lines of a slow producer are appended immediately,
and a file in large batches.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple

from dlog.errors import MessageTooLargeError
from ledger.errors import ConfigurationError
from ledger.model import ENTRY_BYTES_MAX


class InputFormat(StrEnum):
    LINES = "lines"
    CSV = "csv"
    JSONL = "jsonl"
    RAW_LENGTH = "raw-length"


class Keyed(NamedTuple):
    """A message to append."""

    key: bytes | None
    payload: bytes


Group = list[Keyed]


def read_messages(chunks: Iterable[bytes], form: InputFormat, key_column: str | None) -> Iterator[Group]:
    """Groups of the messages in `chunks`.

    Raises:
        ConfigurationError: the input does not have this format; the error names the line.
        MessageTooLargeError: a line, row or message is larger than an entry can be.
    """
    if key_column is not None and form not in (InputFormat.CSV, InputFormat.JSONL):
        raise ConfigurationError(f"--key-column needs --format csv or jsonl, not {form.value}")
    if form is InputFormat.RAW_LENGTH:
        return _length_prefixed(chunks)
    lines = _lines(chunks)
    if form is InputFormat.CSV:
        return _csv(lines, key_column)
    if form is InputFormat.JSONL:
        return _jsonl(lines, key_column)
    return ([Keyed(None, line) for line in group] for group in lines)


def _lines(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    kept: list[bytes] = []
    kept_bytes = 0
    for chunk in chunks:
        head, end, rest = chunk.partition(b"\n")
        kept.append(head)
        kept_bytes += len(head)
        _check_size(kept_bytes, "a line")
        if end:
            complete = rest.split(b"\n")
            first, kept, kept_bytes = b"".join(kept), [complete[-1]], len(complete[-1])
            yield [first, *complete[:-1]]
    last = b"".join(kept)
    if last:
        yield [last]


def _check_size(size: int, what: str) -> None:
    if size > ENTRY_BYTES_MAX:
        raise MessageTooLargeError(
            f"{what} of the input has {size} bytes or more, the limit of a message is {ENTRY_BYTES_MAX}: split it",
            entry_bytes=size,
            entry_bytes_max=ENTRY_BYTES_MAX,
        )


class _CsvRows:
    """Splits lines into rows. A quoted field may contain newlines, so a row may be several lines."""

    def __init__(self, key_column: str | None) -> None:
        self._key_column = key_column
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._quoted = False
        self._key_index: int | None = None
        self._header: list[str] | None = None
        self._line = 0

    def feed(self, line: bytes) -> Keyed | None:
        """Take a line. Returns a message if the line completes a row after the header."""
        self._line += 1
        self._pending.append(line)
        self._pending_bytes += len(line)
        # A row is complete when its quotes pair up; an escaped quote is two, so it keeps the parity.
        self._quoted ^= line.count(b'"') % 2 == 1
        if self._quoted:
            _check_size(self._pending_bytes, "a row")
            return None
        raw = b"\n".join(self._pending)
        self._pending, self._pending_bytes = [], 0
        raw = raw.removesuffix(b"\r")
        if self._header is None:
            self._take_header(raw)
            return None
        return Keyed(self._key(raw), raw) if raw else None

    def finish(self) -> None:
        if self._pending:
            raise ConfigurationError(
                f"the CSV input ends inside a quoted field, at line {self._line}: close the quote"
            )

    def _take_header(self, raw: bytes) -> None:
        self._header = self._fields(raw)
        if self._key_column is None:
            return
        if self._key_column not in self._header:
            raise ConfigurationError(
                f"the CSV header has no column {self._key_column!r}: use one of {', '.join(self._header)}"
            )
        self._key_index = self._header.index(self._key_column)

    def _key(self, raw: bytes) -> bytes | None:
        if self._key_index is None:
            return None
        fields = self._fields(raw)
        if self._key_index >= len(fields):
            raise ConfigurationError(
                f"line {self._line} of the CSV input has {len(fields)} columns, but the key {self._key_column!r} is "
                f"column {self._key_index + 1}"
            )
        return fields[self._key_index].encode("utf-8", "surrogateescape")

    def _fields(self, raw: bytes) -> list[str]:
        try:
            return next(csv.reader([raw.decode("utf-8", "surrogateescape")]), [])
        except csv.Error as error:
            raise ConfigurationError(f"line {self._line} of the input is not CSV: {error}") from error


def _csv(groups: Iterable[list[bytes]], key_column: str | None) -> Iterator[Group]:
    rows = _CsvRows(key_column)
    for lines in groups:
        group = [message for line in lines if (message := rows.feed(line)) is not None]
        if group:
            yield group
    rows.finish()


def _jsonl(groups: Iterable[list[bytes]], key_column: str | None) -> Iterator[Group]:
    number = 0
    for lines in groups:
        group = []
        for line in lines:
            number += 1
            if line.strip():
                group.append(Keyed(_json_key(line, number, key_column), line))
        if group:
            yield group


def _json_key(line: bytes, number: int, key_column: str | None) -> bytes | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"line {number} of the input is not JSON: {error}") from error
    if key_column is None:
        return None
    if not isinstance(value, dict) or key_column not in value:
        raise ConfigurationError(
            f"line {number} of the input is not a JSON object with a member {key_column!r}"
        )
    key = value[key_column]
    return (key if isinstance(key, str) else json.dumps(key)).encode()


def _length_prefixed(chunks: Iterable[bytes]) -> Iterator[Group]:
    held = bytearray()
    for chunk in chunks:
        held += chunk
        group, start = [], 0
        while len(held) - start >= 4:
            size = int.from_bytes(held[start : start + 4], "big")
            _check_size(size, "a message")
            if len(held) - start - 4 < size:
                break
            group.append(Keyed(None, bytes(held[start + 4 : start + 4 + size])))
            start += 4 + size
        del held[:start]
        if group:
            yield group
    if held:
        raise ConfigurationError(
            f"the input ends inside a message: its last {len(held)} bytes are not a whole message"
        )
