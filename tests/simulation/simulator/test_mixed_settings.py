"""Clients and bookies of one run with settings of their own."""

from __future__ import annotations

import pytest

from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.run import run_plan

MIXED = Plan(seed=3, mixed_settings=True)


def test_processes_differ_where_they_may_and_agree_where_they_must() -> None:
    configs = [MIXED.log_config(f"writer-{number}") for number in range(8)]
    assert len({config.ledger for config in configs}) > 1
    assert len({config.rotation for config in configs}) > 1
    assert len({config.batching for config in configs}) > 1
    assert {config.ledger.wire.value for config in configs} == {"v2", "v3"}
    same = {(each.quorum, each.visibility, each.password, each.hold_limit_s) for each in configs}
    assert len(same) == 1
    assert len({MIXED.storage(f"bookie-{number}") for number in range(8)}) > 1


def test_a_process_has_its_settings_again_after_a_restart() -> None:
    assert MIXED.log_config("writer-1") == MIXED.log_config("writer-1")
    assert MIXED.storage("bookie-1") == MIXED.storage("bookie-1")


@pytest.mark.parametrize("seed", range(1, 4))
def test_a_cluster_of_different_settings_breaks_nothing(seed: int) -> None:
    report = run_plan(make_plan(seed, "chaos", {"mixed_settings": True, "chaos_s": 5.0}))
    assert report.findings == [] and report.acked > 0
