"""The table and the plot of the benchmark, and the JSON they are made from."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.availability.outages import OPERATIONS, OUTAGES, PAUSES, Durations, Outage
from benchmarks.histogram import percentile
from benchmarks.machine import describe
from benchmarks.report import amount

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "availability"
COLUMNS = (*OPERATIONS, *PAUSES)
_FIRST_COLUMN = "down"
_FLOOR_MS = 0.1
"""Left end of the plot's logarithmic axis."""


@dataclass(slots=True)
class AvailabilityReport:
    """Durations by store, outage and operation."""

    facts: dict[str, str] = field(default_factory=describe)
    stores: dict[str, dict[str, dict[str, Durations]]] = field(default_factory=dict)

    def add(self, store: str, outage: Outage, found: dict[str, Durations]) -> None:
        self.stores.setdefault(store, {})[outage.name] = found

    def finish(self, results: Path | None) -> None:
        """Print the tables; then write JSON and plot, if there is a place for them."""
        for line in (*(f"{name}: {fact}" for name, fact in self.facts.items()), *self.tables()):
            print(line)
        if results is not None:
            results.mkdir(parents=True, exist_ok=True)
            content = {"facts": self.facts, "stores": self.stores}
            text = json.dumps(content, indent=1, default=asdict)
            (results / f"{NAME}.json").write_text(text + "\n")
            self.plot(results / f"{NAME}.png")

    @classmethod
    def load(cls, results: Path) -> AvailabilityReport:
        content = json.loads((results / f"{NAME}.json").read_text())
        stores = {
            store: {
                outage: {operation: Durations(**durations) for operation, durations in found.items()}
                for outage, found in outages.items()
            }
            for store, outages in content["stores"].items()
        }
        return cls(content["facts"], stores)

    # ---- the tables

    def tables(self) -> list[str]:
        """Lines of Markdown: for each store a heading and a table."""
        lines = []
        for store, outages in self.stores.items():
            lines += [f"### Metadata in {store}", ""]
            lines += [_row(_FIRST_COLUMN, COLUMNS), _row("---", ["---"] * len(COLUMNS))]
            lines += [
                _row(name, [_cell(outages[name][column]) for column in COLUMNS])
                for name in (outage.name for outage in OUTAGES)
                if name in outages
            ]
            lines.append("")
            lines += [
                f"- {store}, {outage}, {operation}: {failure}"
                for outage, found in outages.items()
                for operation, durations in found.items()
                for failure in durations.failures
            ]
        return lines

    # ---- the plot

    def plot(self, path: Path) -> None:
        """For each store and operation the trials of every outage, on a logarithmic axis; a line is the median."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(
            len(COLUMNS),
            len(self.stores),
            squeeze=False,
            sharex=True,
            figsize=(14, 2.2 * len(COLUMNS)),
            layout="constrained",
        )
        for column, (store, outages) in enumerate(self.stores.items()):
            for row, operation in enumerate(COLUMNS):
                title = f"{operation}{' pause' if operation in PAUSES else ''}, metadata in {store}"
                _dots(
                    axes[row, column], title, {name: found[operation].ms for name, found in outages.items()}
                )
            axes[-1, column].set_xlabel("ms")
        figure.savefig(path, dpi=80)
        pyplot.close(figure)


def _row(first: str, cells: list[str] | tuple[str, ...]) -> str:
    return f"| {first} | {' | '.join(cells)} |"


def _cell(durations: Durations) -> str:
    if not durations.worked:
        return f"fails, {durations.trials} of {durations.trials}"
    ordered = sorted(durations.ms)
    times = f"{amount(percentile(ordered, 0.5))} / {amount(percentile(ordered, 0.99))}"
    return times if not durations.failures else f"{times} ({durations.worked} of {durations.trials})"


def _dots(axis: Axes, title: str, durations: dict[str, list[float]]) -> None:
    names = list(durations)
    for position, name in enumerate(names):
        ordered = sorted(max(ms, _FLOOR_MS) for ms in durations[name])
        if not ordered:
            axis.annotate("fails", (_FLOOR_MS, position), va="center", color="#b04030")
            continue
        axis.scatter(ordered, [position] * len(ordered), s=6, alpha=0.4, color="#4878a8", linewidths=0)
        middle = percentile(ordered, 0.5)
        axis.vlines(middle, position - 0.35, position + 0.35, color="black")
        axis.annotate(f" {amount(middle)}", (ordered[-1], position), va="center", fontsize="small")
    axis.set_xscale("log")
    axis.set_yticks(range(len(names)), names, fontsize="small")
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.margins(x=0.15)
    axis.grid(axis="x", alpha=0.3)
    axis.set_title(title, loc="left", fontsize="medium")
