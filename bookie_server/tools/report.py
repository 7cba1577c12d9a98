"""Results on stdout: aligned text for people, one JSON value for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

Row = Mapping[str, object]


def _say(line: str) -> None:
    print(line, flush=True)


def print_rows(rows: Sequence[Row], *, as_json: bool) -> None:
    """A table; nothing but its headings when it is empty."""
    if as_json:
        _say(json.dumps([dict(row) for row in rows]))
        return
    if not rows:
        _say("none")
        return
    names = list(rows[0])
    cells = [names, *([str(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(names))]
    for line in cells:
        _say("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_lines(rows: Iterable[Row], *, as_json: bool) -> None:
    """A line for each row as it comes, however many there are; with JSON one object a line."""
    for row in rows:
        _say(json.dumps(dict(row)) if as_json else "  ".join(f"{name}={row[name]}" for name in row))


def print_facts(facts: Row, *, as_json: bool) -> None:
    """One thing, a line for each fact."""
    if as_json:
        _say(json.dumps(dict(facts)))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        _say(f"{name.ljust(width)}  {value}")
