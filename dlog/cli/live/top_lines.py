"""The text of `dlog top`: all of it, or what fits on a screen. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from dlog.cli.describe.activity import TOP_COLUMNS, Damaged, damaged_lines, top_rows
from dlog.cli.live.view import Size, folded
from dlog.inspection.activity import LogActivity
from ledger.printing import counted, narrow_table_lines, table_lines


def all_lines(cluster: str, found: Sequence[LogActivity], damaged: Damaged, width: int | None) -> list[str]:
    rows = table_lines(TOP_COLUMNS, top_rows(found, damaged), width)
    return [cluster, "", *rows, *damaged_lines(damaged)]


def lines_that_fit(cluster: str, found: Sequence[LogActivity], damaged: Damaged, size: Size) -> list[str]:
    """What is damaged comes first, on at most half of the screen; then the busiest logs, in as many columns as fit."""
    above = folded(cluster, size.width)
    reasons = [folded(line, size.width) for line in damaged_lines(damaged)[1:]]
    above += [*_cut(reasons, size.height // 2, len(reasons), "more damaged", "more damaged"), ""]
    rows = top_rows(found, damaged)
    table = narrow_table_lines(TOP_COLUMNS, rows[: size.height], size.width)
    names, *shown = [folded(line, size.width) for line in table]
    above += names
    return above + _cut(shown, size.height - len(above), len(rows), "more log", "more logs")


def _cut(shown: list[list[str]], height: int, total: int, noun: str, plural: str) -> list[str]:
    """The lines of the first of `total` things, as many as fit, and how many more there are."""
    ends = list(accumulate(map(len, shown)))
    count = len(shown)
    if count < total or (ends and ends[-1] > height):
        count = sum(end < height for end in ends)
    lines = [line for lines in shown[:count] for line in lines]
    return lines if count == total else [*lines, f"… {counted(total - count, noun, plural)}"]
