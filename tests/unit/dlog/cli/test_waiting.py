"""When a command reports that it waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dlog.cli import waiting
from ledger.errors import ReadError, UnavailableError

AWAY = ReadError("away")


class Looks:
    """A reader with these outages, one at each look; then the watch ends."""

    def __init__(self, outages: list[UnavailableError | None]) -> None:
        self._left: Iterator[UnavailableError | None] = iter(outages)
        self._count = len(outages)

    @property
    def outage(self) -> UnavailableError | None:
        return next(self._left)

    def wait(self, _seconds: float) -> bool:
        self._count -= 1
        return self._count < 0


@pytest.mark.parametrize(
    ("outages", "lines"),
    [
        ([AWAY, AWAY, None, AWAY], []),
        ([AWAY] * 5, ["dlog: waiting: away"]),
        ([AWAY] * 4 + [None] * 2, ["dlog: waiting: away", "dlog: reading goes on"]),
        ([*[AWAY] * 3, None] * 2, ["dlog: waiting: away", "dlog: reading goes on"] * 2),
    ],
)
def test_an_outage_and_its_end_are_reported_once(
    outages: list[UnavailableError | None], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    looks: Any = Looks(outages)
    waiting._watch(looks, looks)
    assert capsys.readouterr().err.splitlines() == lines
