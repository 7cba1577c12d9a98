"""A short run that finds a planted bug, made from a long one, so that every test run can afford it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dlog.testing.swarm.plan import Plan
from tests.helpers.mutations.mutation import Mutation
from tests.helpers.mutations.search import run_planted

ENOUGH_STEPS = 12_000
"""About a quarter of a second: little is gained below."""
_CHAOS_S_MIN = 0.5
_SEEDS_BESIDE = 2
_TRIES_MAX = 5
_PROGRESS_S = 40.0
"""Sound code may need more; whether it does is tried."""


def shortened(mutation: Mutation, plan: Plan) -> Plan:
    """The cheapest run that was tried of those in which sound code is well and the bug shows."""
    cost = run_planted(plan, (*mutation.given, *mutation.edits)).steps
    candidates, tries = _shorter(plan), 0
    while cost > ENOUGH_STEPS and tries < _TRIES_MAX and (candidate := next(candidates, None)) is not None:
        tries += 1
        verdict = run_planted(candidate, (*mutation.given, *mutation.edits))
        if verdict.findings and verdict.steps < cost and not run_planted(candidate, mutation.given).findings:
            plan, cost = candidate, verdict.steps
            candidates = _shorter(plan)
    return plan


def _shorter(plan: Plan) -> Iterator[Plan]:
    """Each plan with less to do, with its seed and with the neighbours of it."""
    for smaller in _with_less_to_do(plan):
        for seed in range(plan.seed, plan.seed + _SEEDS_BESIDE):
            yield replace(smaller, seed=seed)


def _with_less_to_do(plan: Plan) -> Iterator[Plan]:
    """The greatest saving first."""
    if plan.phase_s_max > _PROGRESS_S:
        yield replace(plan, progress_s=_PROGRESS_S)
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
