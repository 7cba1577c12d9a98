"""When a command reports that it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from dlog.cli import waiting
from dlog.cli.waiting import until_available
from ledger.environment import SystemEnvironment
from ledger.errors import ReadError, UnavailableError
from tests.helpers.simulation.loop import simulate

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


@pytest.mark.parametrize(
    ("outage_s", "lines"),
    [
        (2, []),
        (10, ["dlog: waiting: away", "dlog: reading goes on"]),
        (60, ["dlog: waiting: away"]),
    ],
)
def test_a_position_is_looked_for_until_bookies_respond(
    outage_s: float, lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    async def main(loop: Any) -> int:
        began = loop.time()

        async def find() -> int:
            await asyncio.sleep(0.1)
            if loop.time() < began + outage_s:
                raise AWAY
            return 7

        try:
            return await until_available(find, SystemEnvironment(), timeout_s=20)
        except ReadError:
            assert 20 <= loop.time() - began < 23
            return 0

    assert simulate(main) == (7 if outage_s < 20 else 0)
    assert capsys.readouterr().err.splitlines() == lines
