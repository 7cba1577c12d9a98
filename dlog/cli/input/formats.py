"""The formats that `dlog append` reads, and the options that say what a message gets of them. Pure.

    lines        each line is a payload, without its line end; with a delimiter, the key comes before it
    csv          the first row names the columns; each further row is a message
    jsonl        each line is one JSON value and a payload, unchanged
    messages     each line describes a message, as `dlog read -o json` prints it
    raw-length   each payload is preceded by its length, 4 bytes big-endian

A group is all messages that one chunk of input completed. So the lines of a slow producer are appended immediately,
and a file in large batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from dlog.cli.input.csv_rows import Columns, csv_messages
from dlog.cli.input.json_lines import DESCRIPTION_BYTES_MAX, described_messages, json_messages
from dlog.cli.input.lengths import length_prefixed_messages
from dlog.cli.input.lines import line_messages, split_lines
from dlog.cli.input.message import Group, Headers, NewMessage
from ledger.errors import ConfigurationError


class InputFormat(StrEnum):
    LINES = "lines"
    CSV = "csv"
    JSONL = "jsonl"
    MESSAGES = "messages"
    RAW_LENGTH = "raw-length"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputOptions:
    """ConfigurationError: options that do not go together."""

    form: InputFormat = InputFormat.LINES
    key: bytes | None = None
    """Key of every message."""
    key_delimiter: bytes | None = None
    """Ends the key at the start of a line."""
    key_column: str | None = None
    """Column or member that is the key."""
    payload_column: str | None = None
    columns: Columns = Columns.ROW
    headers: Headers = ()
    """Added to the headers of every message."""
    tombstones: bool = False
    """An empty payload is a tombstone."""

    def __post_init__(self) -> None:
        for option, given, forms in (
            ("--key-delimiter", self.key_delimiter is not None, (InputFormat.LINES,)),
            ("--key-column", self.key_column is not None, (InputFormat.CSV, InputFormat.JSONL)),
            ("--payload-column", self.payload_column is not None, (InputFormat.CSV,)),
            ("--columns", self.columns is not Columns.ROW, (InputFormat.CSV,)),
        ):
            if given and self.form not in forms:
                raise ConfigurationError(
                    f"{option} needs --format {' or '.join(forms)}, not {self.form.value}"
                )
        if self.key is not None and (self.key_column is not None or self.key_delimiter is not None):
            raise ConfigurationError("--key is the key of every message: leave out the other option for keys")
        if self.key is not None and self.form is InputFormat.MESSAGES:
            raise ConfigurationError("--key does not go with --format messages, which has the keys")
        if self.payload_column is not None and self.columns is Columns.JSON:
            raise ConfigurationError(
                "--payload-column does not go with --columns json, which makes the payload of all columns"
            )


def read_messages(chunks: Iterable[bytes], options: InputOptions) -> Iterator[Group]:
    """Groups of the messages in `chunks`.

    Raises:
        ConfigurationError: the input does not have this format; the error names the line.
        MessageTooLargeError: a line, row or message is larger than an entry can be.
    """
    groups = _formatted(chunks, options)
    if options.key is None and not options.headers and not options.tombstones:
        return groups
    return ([_amended(message, options) for message in group] for group in groups)


def _formatted(chunks: Iterable[bytes], options: InputOptions) -> Iterator[Group]:
    match options.form:
        case InputFormat.LINES:
            return line_messages(split_lines(chunks), options.key_delimiter)
        case InputFormat.CSV:
            return csv_messages(
                split_lines(chunks),
                options.columns,
                key_column=options.key_column,
                payload_column=options.payload_column,
            )
        case InputFormat.JSONL:
            return json_messages(split_lines(chunks), options.key_column)
        case InputFormat.MESSAGES:
            return described_messages(split_lines(chunks, DESCRIPTION_BYTES_MAX))
        case InputFormat.RAW_LENGTH:
            return length_prefixed_messages(chunks)


def _amended(message: NewMessage, options: InputOptions) -> NewMessage:
    return NewMessage(
        message.key if options.key is None else options.key,
        None if options.tombstones and not message.payload else message.payload,
        (*message.headers, *options.headers),
    )
