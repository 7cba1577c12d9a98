"""Input as CSV: the first row names the columns, each further row is a message. Pure."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterable, Iterator
from enum import StrEnum

from dlog.cli.input.message import Group, Headers, NewMessage, check_size
from ledger.errors import ConfigurationError
from ledger.printing import counted

csv.field_size_limit(2**31 - 1)
"""`check_size` limits a row; Python's own limit of 128 KiB for a field is below a message's."""


class Columns(StrEnum):
    """Where the columns of a row go."""

    ROW = "row"
    JSON = "json"
    HEADERS = "headers"


def csv_messages(
    groups: Iterable[list[bytes]],
    columns: Columns = Columns.ROW,
    *,
    key_column: str | None = None,
    payload_column: str | None = None,
) -> Iterator[Group]:
    """ConfigurationError: a row does not have the columns of the header, or the input is not CSV."""
    rows = _Rows(columns, key_column, payload_column)
    for lines in groups:
        group = [message for line in lines if (message := rows.feed(line)) is not None]
        if group:
            yield group
    rows.finish()


class _Rows:
    """Joins lines to rows, since a quoted field may contain newlines, and makes messages of rows."""

    def __init__(self, columns: Columns, key_column: str | None, payload_column: str | None) -> None:
        self._columns = columns
        self._key_column = key_column
        self._payload_column = payload_column
        self._needs_fields = (
            columns is not Columns.ROW or key_column is not None or payload_column is not None
        )
        self._header: list[str] | None = None
        self._key_index: int | None = None
        self._payload_index: int | None = None
        self._names: list[tuple[int, bytes]] = []
        """Index and name of each column that becomes a header."""
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._quoted = False
        self._line = 0

    def feed(self, line: bytes) -> NewMessage | None:
        """Take a line. Returns a message if the line completes a row after the header."""
        self._line += 1
        self._pending.append(line)
        self._pending_bytes += len(line)
        # A row is complete when its quotes pair up; an escaped quote is two, so it keeps the parity.
        self._quoted ^= line.count(b'"') % 2 == 1
        if self._quoted:
            check_size(self._pending_bytes, "a row")
            return None
        raw = b"\n".join(self._pending).removesuffix(b"\r")
        is_joined = len(self._pending) > 1
        self._pending, self._pending_bytes = [], 0
        if self._header is None:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        if not raw:
            return None
        if self._header is None:
            self._take_header(raw)
            return None
        if self._needs_fields:
            return self._message(raw, self._header)
        if is_joined:
            self._fields(raw)  # quotes inside two fields pair up, too: such rows must not be joined
        return NewMessage(None, raw)

    def finish(self) -> None:
        if self._pending:
            raise ConfigurationError(
                f"the CSV input ends inside a quoted field, at line {self._line}: close the quote"
            )

    def _take_header(self, raw: bytes) -> None:
        self._header = self._fields(raw)
        self._key_index = self._index_of(self._key_column, self._header)
        self._payload_index = self._index_of(self._payload_column, self._header)
        if self._columns is Columns.JSON and len(set(self._header)) < len(self._header):
            twice = next(name for name in self._header if self._header.count(name) > 1)
            raise ConfigurationError(f"the CSV header has column {twice!r} twice, so a row is no JSON object")
        if self._columns is Columns.HEADERS:
            self._names = [
                (index, _bytes(name))
                for index, name in enumerate(self._header)
                if index not in (self._key_index, self._payload_index)
            ]
            self._check_header_count()

    def _check_header_count(self) -> None:
        from dlog.format.message import HEADERS_MAX

        if len(self._names) > HEADERS_MAX:
            raise ConfigurationError(
                f"the CSV header has {len(self._names)} columns that become headers, a message has at most "
                f"{HEADERS_MAX}: use --columns json"
            )

    def _index_of(self, name: str | None, header: list[str]) -> int | None:
        if name is None:
            return None
        if name not in header:
            raise ConfigurationError(f"the CSV header has no column {name!r}: use one of {', '.join(header)}")
        if header.count(name) > 1:
            raise ConfigurationError(
                f"the CSV header has column {name!r} twice, so it is not known which one is meant: rename one"
            )
        return header.index(name)

    def _message(self, raw: bytes, header: list[str]) -> NewMessage:
        fields = self._fields(raw)
        if self._columns is not Columns.ROW and len(fields) != len(header):
            raise ConfigurationError(
                f"line {self._line} of the CSV input has {counted(len(fields), 'column')}, the header has {len(header)}"
            )
        key = self._field(fields, self._key_index, "key", self._key_column)
        if self._columns is Columns.JSON:
            return NewMessage(key, self._as_json(dict(zip(header, fields, strict=True))))
        payload = self._field(fields, self._payload_index, "payload", self._payload_column)
        headers: Headers = tuple((name, _bytes(fields[index])) for index, name in self._names)
        return NewMessage(key, raw if payload is None else payload, headers)

    def _field(self, fields: list[str], index: int | None, use: str, name: str | None) -> bytes | None:
        if index is None:
            return None
        if index >= len(fields):
            raise ConfigurationError(
                f"line {self._line} of the CSV input has {counted(len(fields), 'column')}, but the {use} {name!r} is "
                f"column {index + 1}"
            )
        return _bytes(fields[index])

    def _as_json(self, row: dict[str, str]) -> bytes:
        try:
            return json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"line {self._line} of the CSV input is not UTF-8, which JSON needs"
            ) from error

    def _fields(self, raw: bytes) -> list[str]:
        try:
            return next(csv.reader([raw.decode("utf-8", "surrogateescape")]), [])
        except csv.Error as error:
            if lines := raw.count(b"\n"):
                raise ConfigurationError(
                    f"lines {self._line - lines} to {self._line} of the CSV input have quotes that pair up "
                    "around the end of a line, but not around a field: put a field that has quotes in quotes, and "
                    "double those that it has"
                ) from error
            reason = str(error)
            if b"\r" in raw:  # Python's reason is advice for programmers
                reason = "it has a carriage return outside quotes: put the field in quotes, or end lines with a newline"
            raise ConfigurationError(f"line {self._line} of the input is not CSV: {reason}") from error


def _bytes(field: str) -> bytes:
    return field.encode("utf-8", "surrogateescape")
