"""Results of a command on stdout: aligned text for people, JSON for programs. Only command lines import this.

In text an integer is a quantity and gets thousands separators; an id, an epoch or a port is given as a string.
None is `-`, a boolean `yes` or `no`. JSON keeps numbers as numbers and None as null. Both have control characters as
escapes: names that others chose are not to move the cursor of a terminal.
"""

from __future__ import annotations

import errno
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

_CONTROLS = {n: f"\\x{n:02x}" for n in (*range(32), *range(127, 160))} | {9: "\\t", 10: "\\n", 13: "\\r"}
_CONTROLS_IN_JSON = {n: f"\\u{n:04x}" for n in range(127, 160)}
"""What JSON may have as it is, and only inside of texts."""

Row = Mapping[str, object]
"""One thing by the names of its fields. In text a name's underscores are spaces."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 byte`, `2,000 bytes`, `3 copies`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def one_line(text: str) -> str:
    """The text with its control characters as escapes."""
    return text.translate(_CONTROLS)


def json_text(value: object, *, indent: int | None = None, ensure_ascii: bool = False) -> str:
    """One JSON document without control characters but the newlines of `indent`."""
    text = json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)
    return text.translate(_CONTROLS_IN_JSON) if _has_controls(text) else text


def _has_controls(text: str) -> bool:
    """Quickly, since few texts do; false for none."""
    return "\x7f" in text or not (text.isascii() or text.isprintable())


def with_words(row: Row) -> Row:
    """The row for text, with each list as its values and spaces between them: names of bookies are copied."""
    return {
        name: " ".join(map(str, value)) if isinstance(value, list) else value for name, value in row.items()
    }


def utc(ms: int | None) -> str | None:
    """A time as people read it, to the second. `ms`: since 1970; a number that is no time stays one."""
    if ms is None:
        return None
    try:
        return f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return str(ms)


def with_times(row: Row) -> Row:
    """The row for text: each field NAME_ms is a time under NAME."""
    found: dict[str, object] = {}
    for name, value in row.items():
        if name.endswith("_ms"):
            assert value is None or isinstance(value, int), "times are integers"
            found[name.removesuffix("_ms")] = utc(value)
        else:
            found[name] = value
    return found


def require_stdout() -> None:
    """For a command whose result is what it prints. OSError: the process was started without stdout."""
    from ledger.environment import is_closed

    if is_closed("stdout"):
        raise OSError(errno.EBADF, "cannot write the output: stdout is closed")


def print_json(value: object) -> None:
    """One JSON document."""
    require_stdout()
    sys.stdout.write(json_text(value, ensure_ascii=_needs_ascii(), indent=2) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table as wide as its values need. On a terminal that is narrower, one block per row instead."""
    _print_text(table_lines(columns, rows, terminal_width()))


def terminal_width() -> int | None:
    """None if stdout is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_facts(facts: Row) -> None:
    """One thing, one line per field."""
    _print_text(lines_of_facts(facts))


def lines_of_facts(facts: Row) -> list[str]:
    """The lines that `print_facts` prints."""
    return facts_lines(list(facts), [_shown(value) for value in facts.values()])


def print_stream(rows: Iterable[Row], *, as_json: bool) -> None:
    """One line per row as soon as it is there: `name=value` in text, one JSON object in JSON."""
    require_stdout()
    for row in rows:
        line = json_text(dict(row), ensure_ascii=_needs_ascii()) if as_json else "  ".join(_pairs(row))
        print(line, flush=True)


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[object]], width_max: int | None
) -> Iterator[str]:
    """The table's lines, at most `width_max` wide. No value is cut: if it does not fit, each row is a block."""
    names = [_spaced(name) for name in columns]
    cells = [[_shown(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    if width_max is not None and sum(widths) + 2 * (len(widths) - 1) > width_max:
        for number, row in enumerate(cells):
            yield from ["", *facts_lines(names, row)] if number else facts_lines(names, row)
        return
    numeric = [all(map(_is_number, column)) for column in zip(*cells, strict=True)] or [False] * len(names)
    for line in (names, *cells):
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        )
        yield "  ".join(aligned).rstrip()


def narrow_table_lines(columns: Sequence[str], rows: Sequence[Sequence[object]], width_max: int) -> list[str]:
    """The lines of a table without the columns on the right that do not fit; the first one stays. No value is cut."""
    for count in range(len(columns), 0, -1):
        lines = list(table_lines(columns[:count], [row[:count] for row in rows], None))
        if max(map(len, lines)) <= width_max:
            break
    return lines


def facts_lines(names: Sequence[str], values: Sequence[str]) -> list[str]:
    """Names and values, one pair per line, the values aligned."""
    width = max(map(len, names))
    return [f"{_spaced(name):<{width}}  {value}".rstrip() for name, value in zip(names, values, strict=True)]


def _needs_ascii() -> bool:
    """Whether stdout may lack characters: the escapes that text gets there are not those of JSON."""
    return (sys.stdout.encoding or "").lower().replace("-", "") != "utf8"


def _print_text(lines: Iterable[str]) -> None:
    require_stdout()
    for line in lines:
        sys.stdout.write(line + "\n")


def _pairs(row: Row) -> Iterator[str]:
    return (one_line(f"{name}={'-' if value is None else value}") for name, value in row.items())


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "", 1).isdecimal()


def _shown(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list():
            return one_line(", ".join(map(str, value))) or "-"
    return one_line(str(value))
