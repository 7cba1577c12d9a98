"""A function of production code that no simulated run calls is tested by no seed: it is listed with the reason."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.plan import LOSSES, Plan
from dlog.testing.swarm.run import run_plan
from tests.helpers.coverage.functions import called_by, defined

LISTED = tomllib.loads(Path(__file__).with_name("uncalled.toml").read_text("utf-8"))
SOMETIMES = LISTED["rare"]["functions"] + [name for group in LISTED["seldom"] for name in group["functions"]]
RUNS: tuple[tuple[str, int, dict[str, Any]], ...] = (
    ("calm", 2, {}),
    *(("chaos", seed, {}) for seed in (35, 39, 46, 49, 56, 70)),
    *(("scenes", seed, {}) for seed in (28, 31, 33, 37, 38)),
    *(("narrow", seed, {}) for seed in (44, 47)),
    ("beyond", 51, {}),
    ("chaos", 9, {"repairers": 2}),
    ("chaos", 1, {"operators": 2, "chaos_s": 12.0, "bookies": 6, "ensemble": 3, "write": 3, "ack": 2}),
    ("chaos", 3, {"inspectors": 2, "shrinks": True, "other_log": True, "short_lists": True}),
    ("chaos", 2, {"compaction": True, "retains": True, "writers": 2}),
    ("chaos", 21, {"rebuilds": True, "single_write_bytes_min": 1, "compaction": False}),
    *(("narrow", 48 + number, {"loses": loses}) for number, loses in enumerate(LOSSES)),
)
"""Few that together call nearly everything: to watch each call makes a run take three times as long."""
MORE: tuple[tuple[str, int, dict[str, Any]], ...] = tuple(
    (profile, seed, {}) for seed in range(21, 46) for profile in ("chaos", "scenes")
)
"""Made one after the other, and only while functions are lacking that no other list names.

What a seed does shifts with every change. A function that few of the runs above call is then still called here.
"""


@pytest.fixture(scope="module")
def called() -> frozenset[str]:
    found = called_by(partial(run_plan, planned(run)) for run in RUNS)
    for run in MORE:
        if not unlisted(found):
            break
        found |= called_by([partial(run_plan, planned(run))])
    return found


def planned(run: tuple[str, int, dict[str, Any]]) -> Plan:
    profile, seed, fields = run
    return make_plan(seed, profile, fields)


def unlisted(called: frozenset[str]) -> set[str]:
    never = [pattern for group in LISTED["never"] for pattern in group["functions"]]
    functions = defined()
    return functions - called - matching([*never, *SOMETIMES], functions)


def matching(patterns: Iterable[str], names: Iterable[str]) -> set[str]:
    known = set(names)
    exact = {pattern for pattern in patterns if pattern in known}
    globs = [pattern for pattern in patterns if "*" in pattern]
    return exact | {name for name in known if any(fnmatchcase(name, pattern) for pattern in globs)}


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_each_function_is_called_or_listed_with_a_reason(called: frozenset[str]) -> None:
    assert not unlisted(called), (
        "no run calls these: reach them with a fault or a workload, or list them in uncalled.toml"
    )


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_no_function_is_called_that_is_listed_as_never_called(called: frozenset[str]) -> None:
    never = [pattern for group in LISTED["never"] for pattern in group["functions"]]
    assert not matching(never, defined() & called), "remove them from uncalled.toml"


def test_the_list_names_functions_that_exist() -> None:
    functions = defined()
    listed = [LISTED["rare"], *LISTED["seldom"], *LISTED["never"]]
    assert all(matching([pattern], functions) for group in listed for pattern in group["functions"])
