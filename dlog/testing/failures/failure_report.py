"""Report of a shrunken plan: what it sets up, which faults occur and what was found."""

from __future__ import annotations

from dlog.testing.failures.shrinking import Shrunken
from dlog.testing.swarm.plan import Plan

_FIRST_LINES = 3


def report_of(shrunken: Shrunken) -> str:
    """The report as text: a line for the setup, one per fault, then the findings."""
    plan = shrunken.plan
    lines = [_setting(plan)]
    lines += [f"{each.at_s:9.3f} s  {each.describe()}" for each in plan.actions or ()]
    if plan.faults:
        lines.append("At random times: " + ", ".join(each.replace("_", " ") for each in plan.faults))
    for finding in shrunken.report.findings:
        lines += ["Found: " + finding.splitlines()[0], *finding.splitlines()[1:_FIRST_LINES]]
    return "\n".join(lines)


def summary_of(shrunken: Shrunken) -> str:
    """What shrinking has achieved, as a sentence."""
    left = len(shrunken.plan.actions or ())
    end = "no other can be removed" if shrunken.complete else "more may be removable, raise --runs"
    return f"reduced {shrunken.actions_before} faults to {left} in {shrunken.runs} runs; {end}"


def _setting(plan: Plan) -> str:
    copies = f"ensemble {plan.ensemble}, write quorum {plan.write}, ack quorum {plan.ack}"
    features = [
        text
        for wanted, text in (
            (plan.shrinks, "an administrator shrinks the log"),
            (plan.other_log, "a second log is created and deleted"),
            (plan.neighbours > 0, "other applications in the same store"),
            (plan.fast, "fast visibility"),
            (plan.small_disks, "small disks"),
        )
        if wanted
    ]
    return (
        f"{_many(plan.bookies, 'bookie')} ({copies}), {_many(plan.writers, 'writer')}, "
        f"{_many(plan.readers, 'reader')}{''.join(f', {each}' for each in features)}; "
        f"faults for {plan.chaos_s:.1f} s, then all are healed."
    )


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
