"""A benchmark's answer: a table on the terminal, JSON and a plot in `benchmarks/results/`.

The JSON holds every run, not only the medians, with the machine and the versions they were measured on.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from benchmarks.machine import describe

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESULTS = Path(__file__).parent / "results"
_PLAIN_WIDTH = 140
"""Columns of a table that goes to a file or a pipe."""
_COSTS = ("ms", "s", "MiB", "cores")
"""Units of which less is better."""
_CURVE_INCHES = 3.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number: what a contender reached in a case, as the median of its runs."""

    contender: str
    case: str
    unit: str
    value: float
    runs: tuple[float, ...] = ()
    floor: float | None = None
    """The same unit, from the same run of the benchmark; the ratio to it is the result."""
    target: float | None = None
    """What the figures to reach ask for: a lower bound, or an upper bound for a duration."""

    @property
    def ratio(self) -> float | None:
        return None if self.floor is None else self.value / self.floor

    @property
    def reached(self) -> bool | None:
        if self.target is None:
            return None
        return self.value <= self.target if self.unit in _COSTS else self.value >= self.target


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """Something that was watched while something else grew: points of several contenders."""

    x_label: str
    y_label: str
    points: dict[str, list[tuple[float, float]]]


@dataclass(slots=True)
class Report:
    """Rows of one question, collected while it runs."""

    name: str
    question: str
    rows: list[Row] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=describe)
    curves: Curves | None = None

    def add(self, row: Row) -> None:
        self.rows.append(row)

    def finish(self, results: Path | None = RESULTS) -> None:
        """Print the table; then write `<name>.json` and `<name>.png`, if there is a place for them."""
        self.print()
        if results is not None:
            self.save(results)
            plot(self, results / f"{self.name}.png")

    def print(self) -> None:
        console = Console() if Console().is_terminal else Console(width=_PLAIN_WIDTH)
        console.print(f"\n[bold]{self.question}[/bold]")
        for name, fact in self.facts.items():
            console.print(f"  {name}: {fact}", highlight=False)
        console.print(_table(self.rows))

    def save(self, results: Path) -> Path:
        """Written aside and renamed, so that an interrupted run leaves the last good file."""
        results.mkdir(parents=True, exist_ok=True)
        path = results / f"{self.name}.json"
        aside = path.with_suffix(".tmp")
        content: dict[str, object] = {
            "question": self.question,
            "facts": self.facts,
            "rows": [asdict(row) for row in self.rows],
        }
        if self.curves is not None:
            content["curves"] = asdict(self.curves)
        aside.write_text(json.dumps(content, indent=2) + "\n")
        return aside.replace(path)


def _table(rows: list[Row]) -> Table:
    table = Table()
    for heading in ("case", "contender"):
        table.add_column(heading)
    for heading in ("median", "runs", "of the floor", "target"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            row.case,
            row.contender,
            f"{amount(row.value)} {row.unit}",
            f"{amount(min(row.runs))} to {amount(max(row.runs))}" if len(row.runs) > 1 else "",
            "" if row.ratio is None else f"{row.ratio:.0%}",
            "" if row.target is None else f"{amount(row.target)} {'reached' if row.reached else 'missed'}",
        )
    return table


def amount(value: float) -> str:
    """A number with three significant digits, thousands separated."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def plot(report: Report, path: Path) -> None:
    """One bar a row, one panel for what can be compared; the floor is a line. Curves have the last panel."""
    # Imported here: the table and the JSON need no plotting library.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels: dict[tuple[str, str], list[Row]] = {}
    for row in report.rows:
        panels.setdefault((row.case, row.unit), []).append(row)
    heights = [0.8 + 0.3 * len(rows) for rows in panels.values()]
    if report.curves is not None:
        heights.append(_CURVE_INCHES)
    figure, axes = pyplot.subplots(
        len(heights),
        1,
        squeeze=False,
        figsize=(11, 0.8 + sum(heights)),
        height_ratios=heights,
        layout="constrained",
    )
    for axis, ((case, unit), rows) in zip(axes[:, 0], panels.items(), strict=False):
        _bars(axis, f"{case}: {unit}", rows)
    if report.curves is not None:
        _lines(axes[-1, 0], report.curves)
    figure.suptitle(report.question)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def _bars(axis: Axes, title: str, rows: list[Row]) -> None:
    positions = range(len(rows))
    axis.barh(positions, [row.value for row in rows], color="#4878a8")
    for position, row in zip(positions, rows, strict=True):
        if row.floor is not None:
            axis.vlines(row.floor, position - 0.4, position + 0.4, color="black", linestyle="--")
        axis.annotate(f" {amount(row.value)}", (row.value, position), va="center")
    axis.set_yticks(positions, [row.contender for row in rows])
    axis.invert_yaxis()
    axis.margins(x=0.15)
    axis.set_title(title, loc="left", fontsize="medium")


def _lines(axis: Axes, curves: Curves) -> None:
    for name, points in curves.points.items():
        axis.plot([x for x, _ in points], [y for _, y in points], label=name)
    axis.set_xlabel(curves.x_label)
    axis.set_ylabel(curves.y_label)
    axis.set_ylim(bottom=0)
    axis.legend()
