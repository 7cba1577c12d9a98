"""The samples of the hour as JSON, what follows from them as lines, and the plot."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from os import getloadavg
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.histogram import percentile
from benchmarks.hour.load import Load
from benchmarks.hour.messages import MESSAGE_BYTES
from benchmarks.hour.samples import (
    DAMAGE_FOUND,
    DAMAGE_REPAIRED,
    FOUND_UNDER_REPLICATED,
    REPLICATED,
    SPACE_BACK,
    CopiesSample,
    Event,
    Seconds,
    SpaceSample,
    damage_repaired_at,
    deleted_mb,
    first_after,
    longest_gap_s,
    space_returned_at,
)
from benchmarks.hour.schedule import (
    ADDED,
    DELETED,
    DELETED_LOGS,
    FLIPPED,
    LOGS,
    LOST,
    PER_SECOND,
    Schedule,
)
from benchmarks.hour.verdict import LogResult, LostError, Verdict
from benchmarks.machine import describe
from benchmarks.report import amount

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAME = "hour"
_COPIES = 3
_COLORS = ("#4878a8", "#b04030", "#58a058", "#8868a8", "#a88848")
_OF_CLUSTER = "#777777"
_MEAN_S = 10
_LABELS_APART = 0.015
"""Part of the axis."""
_PHASES = ((None, LOST), (LOST, ADDED), (ADDED, DELETED), (DELETED, FLIPPED), (FLIPPED, None))


@dataclass(slots=True)
class HourReport:
    minutes: float
    store: str
    facts: dict[str, str] = field(default_factory=describe)
    events: list[Event] = field(default_factory=list)
    seconds: Seconds = field(default_factory=Seconds)
    space: list[SpaceSample] = field(default_factory=list)
    copies: list[CopiesSample] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)

    # ---- what was measured

    def load(self, load: Load) -> None:
        """The appends; no more come."""
        self.seconds = load.seconds
        self.seconds.finish(int(self.minutes * 60))

    def take(self, space: Sequence[SpaceSample], copies: Sequence[CopiesSample]) -> None:
        """The samples, and the events that follow from them."""
        self.space, self.copies = list(space), list(copies)
        self.events += self.found_events()
        self.events.sort(key=lambda event: event.at_s)

    def deliveries(self, lines: Sequence[dict[str, Any]], began: float) -> None:
        """What the tailing reader reported, about once a second."""
        totals = [(0.0, 0), *((line["at"] - began, line["delivered"]) for line in lines)]
        bounds = [round(_interpolated(totals, second)) for second in range(len(self.seconds.acked) + 1)]
        self.seconds.delivered = [after - before for before, after in pairwise(bounds)]

    def found_events(self) -> list[Event]:
        """What the cluster did by itself, when a sample shows it first."""
        at = {event.name: event.at_s for event in self.events}
        found: list[tuple[str, float | None, str]] = []
        if LOST in at:
            marked = first_after(at[LOST], self.space, lambda each: each.marks > 0)
            found.append((FOUND_UNDER_REPLICATED, marked, ""))
        if ADDED in at:
            restored = first_after(at[ADDED], self.copies, lambda each: not each.short_entries)
            found.append((REPLICATED, restored, "each entry has its write quorum of registered bookies"))
        if DELETED in at:
            part = DELETED_LOGS / LOGS
            grows = PER_SECOND * MESSAGE_BYTES * _COPIES / 1e6
            size = deleted_mb(self.space, at[DELETED], part)
            returned = space_returned_at(self.space, at[DELETED], part, grows)
            found.append((SPACE_BACK, returned, f"nine tenths of {size:.0f} MB"))
        if FLIPPED in at:
            damaged = first_after(at[FLIPPED], self.space, lambda each: each.damaged_blocks > 0)
            found.append((DAMAGE_FOUND, damaged, "the scrubber's record has damaged blocks"))
            intact = damage_repaired_at(self.copies)
            found.append((DAMAGE_REPAIRED, intact, "all copies of the entries with flipped bits are intact"))
        return [Event(at_s, name, detail) for name, at_s, detail in found if at_s is not None]

    # ---- what is written

    def finish(self, results: Path | None) -> None:
        """Print the story; write JSON and plot, if there is a place for them.

        Raises:
            LostError: an acknowledged message was not read, or an entry lacks copies at the end.
        """
        self.facts["load at the end"] = f"{getloadavg()[0]:.1f}"
        for line in (*(f"{name}: {fact}" for name, fact in self.facts.items()), *self.lines()):
            print(line)
        if results is not None:
            results.mkdir(parents=True, exist_ok=True)
            (results / f"{NAME}.json").write_text(self.to_json(), "utf-8")
            self.plot(results / f"{NAME}.png")
        if lost := self.verdict.lost():
            raise LostError("; ".join(lost))

    def to_json(self) -> str:
        """One line for each sample."""
        lines = [
            f'"minutes": {json.dumps(self.minutes)}',
            f'"store": {json.dumps(self.store)}',
            f'"facts": {json.dumps(self.facts)}',
            f'"settings": {json.dumps(Schedule(self.minutes).bookie_config())}',
            f'"events": {_list(self.events)}',
            f'"verdict": {json.dumps(asdict(self.verdict))}',
            f'"seconds": {json.dumps(self.seconds.columns(), separators=(",", ":"))}',
            f'"space": {_list(self.space)}',
            f'"copies": {_list(self.copies)}',
        ]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> HourReport:
        """The report that `to_json` wrote."""
        content = json.loads(text)
        verdict = content["verdict"]
        verdict["logs"] = [LogResult(**each) for each in verdict["logs"]]
        return cls(
            content["minutes"],
            content["store"],
            content["facts"],
            [Event(**each) for each in content["events"]],
            Seconds(**content["seconds"]),
            [SpaceSample(**each) for each in content["space"]],
            [CopiesSample(**each) for each in content["copies"]],
            Verdict(**verdict),
        )

    def lines(self) -> list[str]:
        """Events, latencies by phase, and the verdict; Markdown where it is a table."""
        lines = ["", "| minute | | |", "| --- | --- | --- |"]
        lines += [f"| {each.at_s / 60:.1f} | {each.name} | {each.detail} |" for each in self.events]
        lines += [
            "",
            "| from | appends/s | p50 of p50 | p50 / p99 / largest of p99 | largest |",
            "| --- | --- | --- | --- | --- |",
        ]
        lines += [self._phase(begin, end) for begin, end in _PHASES]
        lines += ["", f"longest time without an acknowledgement: {longest_gap_s(self.seconds)} whole seconds"]
        if loads := sorted(each.load for each in self.space):
            lines.append(
                f"load of the machine: {loads[0]:.1f} to {loads[-1]:.1f}, median {percentile(loads, 0.5):.1f}"
            )
        return lines + self.verdict.lines()

    def _phase(self, begin: str | None, end: str | None) -> str:
        at = {event.name: int(event.at_s) for event in self.events}
        first, last = at.get(begin or "", 0), at.get(end or "", len(self.seconds.acked))
        acked = self.seconds.acked[first:last]
        p50, p99, largest = (
            sorted(ms for ms in column[first:last] if ms is not None)
            for column in (self.seconds.p50_ms, self.seconds.p99_ms, self.seconds.largest_ms)
        )
        if not p99:
            return f"| {begin or 'the beginning'} | no appends | | | |"
        quantiles = " / ".join(amount(percentile(p99, share)) for share in (0.5, 0.99, 1))
        return (
            f"| {begin or 'the beginning'} | {sum(acked) / len(acked):.1f} | {amount(percentile(p50, 0.5))} ms "
            f"| {quantiles} ms | {amount(largest[-1])} ms |"
        )

    # ---- the plot

    def plot(self, path: Path) -> None:
        """Throughput, latency, space, what is under-replicated and copies, over the same minutes."""
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure, axes = pyplot.subplots(5, 1, sharex=True, figsize=(16, 15), layout="constrained")
        panels = (self._throughput, self._latency, self._space, self._under_replicated, self._counts)
        for axis, panel in zip(axes, panels, strict=True):
            panel(axis)
            axis.grid(alpha=0.3)
            axis.legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize="small", frameon=False)
            for event in self._shown():
                ours = event.name in (LOST, ADDED, DELETED, FLIPPED)
                axis.axvline(
                    event.at_s / 60, color="black" if ours else _OF_CLUSTER, linestyle="-" if ours else ":"
                )
        shown = self._shown()
        places = _label_places([event.at_s / 60 for event in shown], self.minutes * _LABELS_APART)
        for event, place in zip(shown, places, strict=True):
            axes[0].annotate(
                event.name,
                (place, 1.02),
                xycoords=("data", "axes fraction"),
                rotation=40,
                fontsize="small",
            )
        axes[-1].set_xlabel("minutes")
        axes[-1].set_xlim(0, self.minutes)
        figure.savefig(path, dpi=80)
        pyplot.close(figure)

    def _shown(self) -> list[Event]:
        return [event for event in self.events if event.at_s < self.minutes * 60]

    def _throughput(self, axis: Axes) -> None:
        minutes = _minutes(range(len(self.seconds.acked)))
        axis.plot(minutes, self.seconds.acked, color=_COLORS[0], linewidth=0.7, label="acknowledged")
        delivered = _means(self.seconds.delivered)
        axis.plot(minutes, delivered, color=_COLORS[2], label=f"read by the tail, mean of {_MEAN_S} s")
        axis.set_ylabel("messages/s")
        axis.set_ylim(0, PER_SECOND * 2)

    def _latency(self, axis: Axes) -> None:
        minutes = _minutes(range(len(self.seconds.acked)))
        for name, column, color in (
            ("largest", self.seconds.largest_ms, "#c8c8c8"),
            ("p99", self.seconds.p99_ms, _COLORS[1]),
            ("p50", self.seconds.p50_ms, _COLORS[0]),
        ):
            points = [(at, ms) for at, ms in zip(minutes, column, strict=True) if ms is not None]
            axis.plot(
                *zip(*points, strict=True), color=color, linewidth=0.7, label=f"{name} of a second"
            ) if points else None
        axis.set_yscale("log")
        axis.set_ylabel("append, ms")

    def _space(self, axis: Axes) -> None:
        minutes = _minutes(each.at_s for each in self.space)
        names = sorted({name for each in self.space for name in each.entry_logs_mb})
        for name, color in zip(names, _COLORS, strict=False):
            sizes = [each.entry_logs_mb.get(name, float("nan")) for each in self.space]
            axis.plot(minutes, sizes, color=color, label=f"{name}, entry logs")
        axis.plot(
            minutes, [each.entry_logs_total_mb for each in self.space], color="black", label="all entry logs"
        )
        total = [each.entry_logs_total_mb + sum(each.journal_mb.values()) for each in self.space]
        axis.plot(minutes, total, color=_OF_CLUSTER, linestyle="--", label="with journals")
        axis.set_ylabel("MB on the disk")
        axis.set_ylim(bottom=0)

    def _under_replicated(self, axis: Axes) -> None:
        minutes = _minutes(each.at_s for each in self.copies)
        axis.plot(
            minutes,
            [each.short_fragments for each in self.copies],
            color=_COLORS[1],
            label="fragments that lack copies",
        )
        axis.plot(
            _minutes(each.at_s for each in self.space),
            [each.marks for each in self.space],
            color=_COLORS[0],
            label="ledgers marked for repair",
        )
        axis.plot(
            minutes,
            [each.flipped - each.flipped_intact for each in self.copies],
            color=_COLORS[3],
            label="entries with a damaged copy (of those with flipped bits)",
        )
        axis.set_yscale("symlog", linthresh=10)
        axis.set_ylim(bottom=0)

    def _counts(self, axis: Axes) -> None:
        samples = [each for each in self.copies if each.by_copies]
        minutes = _minutes(each.at_s for each in samples)
        axis.plot(
            minutes,
            [each.mean_copies for each in samples],
            color=_COLORS[0],
            label="mean, all entries, by metadata",
        )
        axis.plot(
            minutes,
            [each.mean_intact for each in samples],
            color=_COLORS[2],
            linewidth=0.8,
            label="mean, 200 entries read from all bookies",
        )
        axis.step(
            minutes,
            [each.least_copies for each in samples],
            color=_COLORS[1],
            where="post",
            label="least, all entries",
        )
        axis.set_ylabel("copies of an entry")
        axis.set_ylim(0, _COPIES + 0.3)


def _interpolated(points: Sequence[tuple[float, float]], at: float) -> float:
    """The value at `at` on the line through the points, which ascend; before and after them that of the nearest."""
    after = bisect_left(points, (at,))
    if after in (0, len(points)):
        return points[0 if after == 0 else -1][1]
    (x0, y0), (x1, y1) = points[after - 1], points[after]
    return y0 + (y1 - y0) * (at - x0) / (x1 - x0)


def _means(values: Sequence[float]) -> list[float]:
    """Of each value and those before it, _MEAN_S of them."""
    return [
        sum(some) / len(some)
        for some in (values[max(0, at - _MEAN_S + 1) : at + 1] for at in range(len(values)))
    ]


def _label_places(at: Sequence[float], apart: float) -> list[float]:
    """The places themselves, moved to the right where they are less than `apart` from the one before."""
    places: list[float] = []
    for each in at:
        places.append(max(each, places[-1] + apart) if places else each)
    return places


def _minutes(seconds: Any) -> list[float]:
    return [each / 60 for each in seconds]


def _list(values: Sequence[Any]) -> str:
    return "[\n" + ",\n".join(json.dumps(asdict(each), separators=(",", ":")) for each in values) + "\n]"
