"""The skeleton of a story: what a shrunken plan sets up, what goes wrong in it, and what was found."""

from __future__ import annotations

from dlog.testing.failures.shrinking import Shrunken
from dlog.testing.swarm.plan import Plan

_FIRST_LINES = 3


def report_of(shrunken: Shrunken) -> str:
    """For somebody who then writes why."""
    plan = shrunken.plan
    lines = [_setting(plan)]
    lines += [f"{each.at_s:9.3f} s  {each.describe()}" for each in plan.actions or ()]
    if plan.faults:
        lines.append("Now and then: " + ", ".join(each.replace("_", " ") for each in plan.faults))
    for finding in shrunken.report.findings:
        lines += ["Found: " + finding.splitlines()[0], *finding.splitlines()[1:_FIRST_LINES]]
    return "\n".join(lines)


def summary_of(shrunken: Shrunken) -> str:
    left = len(shrunken.plan.actions or ())
    end = "nothing more can be left out" if shrunken.complete else "there may be more to leave out"
    return f"{shrunken.actions_before} faults became {left} in {shrunken.runs} runs; {end}"


def _setting(plan: Plan) -> str:
    copies = f"ensemble {plan.ensemble}, write quorum {plan.write}, ack quorum {plan.ack}"
    besides = [
        text
        for wanted, text in (
            (plan.shrinks, "an administrator shrinks the log"),
            (plan.other_log, "a second log comes and goes"),
            (plan.neighbours > 0, "neighbours under another root"),
            (plan.fast, "fast visibility"),
            (plan.small_disks, "small disks"),
        )
        if wanted
    ]
    return (
        f"{_many(plan.bookies, 'bookie')} ({copies}), {_many(plan.writers, 'writer')}, "
        f"{_many(plan.readers, 'reader')}{''.join(f', {each}' for each in besides)}; "
        f"{plan.chaos_s:.1f} s, then everything is healed."
    )


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
