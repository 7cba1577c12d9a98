"""Messages and tables as text, JSON or raw bytes. Pure but for the printing at the end.

Text is for people: id, key and payload, separated by tabs, what cannot be shown escaped. JSON is one object a
line; bytes that are not UTF-8 appear under a name ending in `_base64`. Raw is the payload and a line end.
"""

from __future__ import annotations

import json
import shutil
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dlog.cli.options import Output

if TYPE_CHECKING:
    from dlog.model import Message

_CONTROLS = {n: f"\\x{n:02x}" for n in (*range(32), *range(127, 160))} | {9: "\\t", 10: "\\n", 13: "\\r"}


def printable(value: bytes | None) -> str:
    """Bytes as one line of text; None as `-`."""
    if value is None:
        return "-"
    return value.decode("utf-8", "backslashreplace").translate(_CONTROLS)


def instant(time_us: int) -> str:
    """Microseconds since 1970 as ISO 8601 in UTC; 0 is unknown."""
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="milliseconds") if time_us else "-"


def to_the_second(time_us: int) -> str:
    """The same in 20 characters, for tables."""
    return (
        datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if time_us else "-"
    )


def json_instant(time_us: int) -> str | None:
    """The same for programs, to whom the unknown is null."""
    return instant(time_us) if time_us else None


def as_text(message: Message) -> bytes:
    text = f"{message.id}\t{printable(message.key)}\t{printable(message.payload)}\n"
    return text.encode("utf-8", "backslashreplace")


def as_json(message: Message) -> bytes:
    found: dict[str, Any] = {"id": str(message.id), "time": json_instant(message.append_time_us)}
    found |= _json_bytes("key", message.key)
    found |= _json_bytes("payload", message.payload)
    if message.headers:
        found["headers"] = [
            {**_json_bytes("key", key), **_json_bytes("value", value)} for key, value in message.headers
        ]
    return json.dumps(found, ensure_ascii=False).encode() + b"\n"


def as_raw(message: Message) -> bytes:
    return (message.payload or b"") + b"\n"


def _json_bytes(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(value).decode()}


def formatter(output: Output) -> Callable[[Message], bytes]:
    """The function that turns a message into the bytes to print."""
    return {Output.TEXT: as_text, Output.JSON: as_json, Output.RAW: as_raw}[output]


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table for people, as wide as it needs to be; on a narrower terminal a block for each row."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in table_lines(columns, rows, width):
        sys.stdout.write(line + "\n")


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[object]], width_max: int | None
) -> Iterator[str]:
    """The table's lines. No value is ever cut or folded: where it is too wide, a row becomes a block."""
    cells = [[_shown(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    if width_max is not None and sum(widths) + 2 * (len(widths) - 1) > width_max:
        for number, row in enumerate(cells):
            yield from ["", *facts_lines(columns, row)] if number else facts_lines(columns, row)
        return
    numeric = [all(map(_is_number, column)) for column in zip(*cells, strict=True)] or [False] * len(columns)
    for line in (columns, *cells):
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        yield "  ".join(aligned).rstrip()


def facts_lines(names: Sequence[str], values: Sequence[str]) -> list[str]:
    """Names and values, one a line."""
    width = max(map(len, names))
    return [f"{name:<{width}}  {value}" for name, value in zip(names, values, strict=True)]


def print_facts(facts: Sequence[tuple[str, object]]) -> None:
    """One thing, a line for each fact."""
    for line in facts_lines([name for name, _ in facts], [_shown(value) for _, value in facts]):
        sys.stdout.write(line + "\n")


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").isdecimal()


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)
