"""Values of several rounds, by case and contender, and the rows of a table that they become. Pure."""

from __future__ import annotations

from collections import defaultdict

from benchmarks.histogram import median
from benchmarks.report import Row


class Runs:
    """One value a round for every contender in every case."""

    def __init__(self) -> None:
        self._values: defaultdict[tuple[str, str], list[float]] = defaultdict(list)

    def add(self, case: str, contender: str, value: float) -> None:
        self._values[case, contender].append(value)

    def values(self, case: str, contender: str) -> list[float]:
        """Round by round."""
        return list(self._values[case, contender])

    def median(self, case: str, contender: str) -> float:
        return median(self._values[case, contender])

    def row(
        self,
        case: str,
        contender: str,
        unit: str,
        *,
        floor: float | None = None,
        target: float | None = None,
    ) -> Row:
        values = self._values[case, contender]
        return Row(
            contender=contender,
            case=case,
            unit=unit,
            value=median(values),
            runs=tuple(values),
            floor=floor,
            target=target,
        )
