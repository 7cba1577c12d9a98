"""A short run that finds a planted bug, made from a long one, so that every test run can afford it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dlog.testing.plan import Plan
from tests.simulation.mutations.hunt import judge
from tests.simulation.mutations.mutation import Mutation

ENOUGH_STEPS = 6000
"""About a tenth of a second: nothing is gained below."""
_CHAOS_S_MIN = 0.5
_SEEDS_BESIDE = 4


def shrunk(mutation: Mutation, plan: Plan) -> Plan:
    """The cheapest run that was tried of those in which sound code is well and the bug shows."""
    cost = judge(plan, (*mutation.given, *mutation.edits)).steps
    progress = True
    while progress and cost > ENOUGH_STEPS:
        progress = False
        for shorter in _shorter(plan):
            found = _cheapest(mutation, shorter, cost)
            if found is not None:
                plan, cost = found
                progress = True
                break
    return plan


def _cheapest(mutation: Mutation, plan: Plan, cost: int) -> tuple[Plan, int] | None:
    """The plan, with its seed or a neighbour of it, if the bug shows for less than `cost`."""
    for seed in range(plan.seed, plan.seed + _SEEDS_BESIDE):
        candidate = replace(plan, seed=seed)
        verdict = judge(candidate, (*mutation.given, *mutation.edits))
        if verdict.findings and verdict.steps < cost and not judge(candidate, mutation.given).findings:
            return candidate, verdict.steps
    return None


def _shorter(plan: Plan) -> Iterator[Plan]:
    """Plans with less to do, the greatest saving first."""
    for part in (0.25, 0.5, 0.75):
        if plan.chaos_s * part >= _CHAOS_S_MIN:
            yield replace(plan, chaos_s=round(plan.chaos_s * part, 2))
    if plan.other_log:
        yield replace(plan, other_log=False)
    if plan.readers > 1:
        yield replace(plan, readers=1)
    if plan.writers > 1:
        yield replace(plan, writers=plan.writers - 1)
    if plan.append_every_s < 0.1:
        yield replace(plan, append_every_s=2 * plan.append_every_s)
