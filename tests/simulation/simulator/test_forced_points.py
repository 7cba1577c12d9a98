"""Points in production code that force what is legal but rare: each fires, is documented, and costs appends nothing."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain
from typing import Any

from dlog.testing import SimulatedCluster, simulate
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.run import run_plan
from ledger import buggify
from tests.helpers.repository import ROOT

POINTS = {
    point
    for path in chain.from_iterable(
        (ROOT / package).rglob("*.py") for package in ("ledger", "dlog", "bookie_server")
    )
    for point in re.findall(r'(?:buggify|linger)\(\s*"([^"]+)"', path.read_text("utf-8"))
}
OFTEN: dict[str, Any] = {
    "buggify": True,
    "chaos_s": 5.0,
    "rotation_age_s": 0.7,
    "shrinks": True,
    "other_log": True,
    "gc_interval_s": 0.7,
    "small_disks": True,
    "bookies": 4,
    "wire": "v2",
    "faults": ("kill_bookie", "kill_client"),
}
SEEDS = range(1, 31)


def test_every_point_fires_in_one_of_a_few_seeds_and_breaks_nothing() -> None:
    fired: Counter[str] = Counter()
    for seed in SEEDS:
        report = run_plan(make_plan(seed, "chaos", OFTEN))
        assert report.findings == [], f"seed {seed}"
        assert report.faults.get("buggify", 0) == sum(report.forced.values())
        fired.update(report.forced)
        if fired.keys() == POINTS:
            break
    assert fired.keys() == POINTS


def test_every_point_is_documented() -> None:
    text = (ROOT / "docs/simulation.md").read_text("utf-8")
    assert {point for point in POINTS if f"`{point}`" not in text} == set()


def test_nothing_is_forced_after_a_run_or_without_it() -> None:
    assert run_plan(make_plan(1, "calm", {"chaos_s": 2.0})).forced == {}
    assert buggify.fires is None and buggify.buggify("writer.early-rotation") == 0.0


def test_no_point_is_on_the_path_of_an_append() -> None:
    """As many points are passed while ten times as many messages are appended."""
    assert passed_points(1000) - passed_points(100) < 50


def passed_points(appends: int) -> int:
    passed = 0

    def fires(_: str) -> float:
        nonlocal passed
        passed += 1
        return 0.0

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, client.open_writer("orders", create=True) as writer:
            buggify.fires = fires
            for _ in range(appends):
                await writer.append(b"message")
            buggify.fires = None

    try:
        simulate(main, seed=1)
    finally:
        buggify.fires = None
    return passed
