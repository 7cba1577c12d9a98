"""The matrix of clients, bookies, protocol versions and digests: `python -m tests.helpers.matrix` prints it."""

from __future__ import annotations

from itertools import product

import pytest

from tests.helpers.apache.cluster import MixedCluster
from tests.helpers.apache.java_client import JavaClient
from tests.helpers.matrix.__main__ import both_versions
from tests.helpers.matrix.cells import CELLS, MIXES, WIRES, members_of, spares_of, stage
from tests.helpers.matrix.runner import (
    Results,
    kind_of,
    play,
    play_death_of_a_bookie,
    play_death_of_zookeeper,
)

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]  # the first test starts nine JVMs

ALWAYS = {
    "scenarios": {("ours", "v3"), ("apache", "v2"), ("2+1", "v2"), ("1+2", "v3")},
    "a bookie dies": {("2+1", "ours"), ("1+2", "apache")},
    "ZooKeeper dies": {("apache",), ("2+1",)},
}
"""Tried in each run of the suite; the other cases are nightly. Each mix, version and kind of bookie is here."""


def cases(of: str, every: list[tuple[str, ...]]) -> list[object]:
    return [pytest.param(*each, marks=() if each in ALWAYS[of] else pytest.mark.nightly) for each in every]


@pytest.mark.parametrize(("mix", "wire"), cases("scenarios", list(product(MIXES, WIRES))))
async def test_every_scenario_holds_for_both_clients_and_all_digests(
    mixed: MixedCluster, java: dict[str, JavaClient], mix: str, wire: str
) -> None:
    results = Results()
    async with stage(mixed, java[wire], wire) as both:
        await both.allow(members_of(mixed, mix), spares_of(mixed, mix))
        await play(both, [cell for cell in CELLS if cell.mix == mix and cell.wire == wire], results)
    assert not results.failures, "\n".join(results.failures)


@pytest.mark.parametrize(
    ("mix", "kind"),
    cases(
        "a bookie dies",
        [
            (mix, kind)
            for mix, counts in MIXES.items()
            for kind, count in zip(("ours", "apache"), counts, strict=True)
            if count
        ],
    ),
)
async def test_nothing_acknowledged_is_lost_when_a_bookie_dies(
    mixed: MixedCluster, java: dict[str, JavaClient], mix: str, kind: str
) -> None:
    results = Results()
    victim = next(bookie for bookie in members_of(mixed, mix) if kind_of(bookie) == kind)
    async with both_versions(mixed, java, mix) as stages:
        await play_death_of_a_bookie(stages, [cell for cell in CELLS if cell.mix == mix], victim, results)
    assert not results.failures, "\n".join(results.failures)


@pytest.mark.parametrize("mix", cases("ZooKeeper dies", [(mix,) for mix in MIXES]))
async def test_nothing_acknowledged_is_lost_when_zookeeper_dies(
    mixed: MixedCluster, java: dict[str, JavaClient], mix: str
) -> None:
    results = Results()
    async with both_versions(mixed, java, mix) as stages:
        await play_death_of_zookeeper(stages, [cell for cell in CELLS if cell.mix == mix], results)
    assert not results.failures, "\n".join(results.failures)
