"""One seed, from its plan to its verdict."""

from __future__ import annotations

import gc
import warnings
from contextlib import nullcontext
from dataclasses import dataclass, field

from dlog.testing.checks.checks import findings, first_findings
from dlog.testing.checks.decoded import forget_decoded
from dlog.testing.checks.history import History, Outcome
from dlog.testing.cluster import ClusterConfig, SimulatedCluster, logging_into
from dlog.testing.disk.timing import DiskTiming
from dlog.testing.kernel.garbage_collector import collecting_on_request
from dlog.testing.kernel.limits import Limits
from dlog.testing.kernel.loop import START_S, SimulatedLoop
from dlog.testing.kernel.seeds import Seeds
from dlog.testing.metadata.timing import MetadataTiming
from dlog.testing.swarm.actions import Action
from dlog.testing.swarm.audits import metadata_findings
from dlog.testing.swarm.forced_points import ForcedPoints
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.swarm import Swarm

_LIMITS = Limits(steps_max=20_000_000, virtual_s_max=5000.0)


@dataclass(slots=True)
class Report:
    """What a run was and what it found."""

    plan: Plan
    findings: list[str] = field(default_factory=list)
    """Empty: all is well."""
    digest: str = ""
    simulated_s: float = 0.0
    steps: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    forced: dict[str, int] = field(default_factory=dict)
    """How often each point of ledger/buggify.py fired."""
    actions: tuple[Action, ...] = ()
    """What went wrong; a plan that gives them is the same run."""
    struck: tuple[Action, ...] = ()
    """Faults that struck by rates, in addition to `actions`."""
    acked: int = 0
    appends: int = 0
    takeovers: int = 0
    reads: int = 0
    phases_s: dict[str, float] = field(default_factory=dict)
    """How long each phase after the chaos took."""
    timeline: str = ""


def run_plan(plan: Plan, *, detailed: bool = False, timeline: int = 0) -> Report:
    """Run it; the last `timeline` lines of the trace come with the report."""
    with collecting_on_request(), warnings.catch_warnings():
        # Producers drop calls on purpose, and Python warns of that.
        warnings.filterwarnings("ignore", "coroutine 'LogProducer.* was never awaited", RuntimeWarning)
        report = _report(plan, detailed=detailed, timeline=timeline)
        # A simulation is full of cycles, and while one runs nothing collects what the last one left behind.
        gc.collect()
        return report


def _report(plan: Plan, *, detailed: bool, timeline: int) -> Report:
    forget_decoded()
    loop = SimulatedLoop(Seeds(plan.seed), _LIMITS)
    loop.trace.with_events, loop.trace.detailed = detailed or timeline > 0, detailed
    report = Report(plan)
    disk = DiskTiming(sync_s=(DiskTiming().sync_s[0], plan.sync_s_max))
    way_s = (MetadataTiming().request_s[0], plan.store_s_max)
    store = MetadataTiming(request_s=way_s, answer_s=way_s, request_timeout_s=2.0, session_timeout_s=4.0)
    config = ClusterConfig(
        bookies=plan.bookies,
        storage=plan.storage(),
        storage_of=plan.storage,
        disk=disk,
        metadata=store,
        gc_interval_s=plan.gc_interval_s,
        scrub_interval_s=plan.scrub_interval_s,
        rebuild_interval_s=plan.rebuild_interval_s,
        bookie_limits=plan.bookie_limits(),
        racks=plan.racks,
    )
    points = ForcedPoints(loop.seeds, loop.trace)
    try:
        with logging_into(loop), points.installed() if plan.buggify else nullcontext():
            _run(plan, loop, config, report)
    finally:
        loop.close()
        counts = loop.trace.counts
        report.faults = {
            kind.removeprefix("fault."): count
            for kind, count in sorted(counts.items())
            if kind.startswith("fault.")
        } | loop.network.disorder()
        report.forced = dict(sorted(points.counts.items()))
        report.digest = loop.trace.digest()
        report.simulated_s = loop.time() - START_S
        report.steps = loop.steps
        if timeline:
            report.timeline = loop.trace.timeline(timeline)
    return report


def _run(plan: Plan, loop: SimulatedLoop, config: ClusterConfig, report: Report) -> None:
    swarms: list[Swarm] = []
    ended_by: Exception | None = None

    async def main() -> History:
        cluster = SimulatedCluster(loop, config)
        swarms.append(Swarm(plan, cluster))
        await cluster.start()
        history = await swarms[0].run()
        report.findings += metadata_findings(history, cluster.metadata.history)
        return history

    try:
        history = loop.run(main())
        report.findings += findings(history)
        _count(report, history)
    except Exception as error:  # noqa: BLE001  # whatever ends a run is what it found
        notes = "\n".join(getattr(error, "__notes__", []))
        report.findings.append(f"{type(error).__name__}: {error}\n{notes}".rstrip())
        ended_by = error
    report.findings += first_findings(
        "unexpected_error", (str(each) for each in loop.failed_tasks() if each.error is not ended_by)
    )
    for swarm in swarms:
        report.findings += swarm.violations()
        report.actions = tuple(swarm.chaos.drawn) if plan.actions is None else plan.actions
        report.struck = tuple(swarm.chaos.struck)
        report.phases_s = swarm.phases_s


def _count(report: Report, history: History) -> None:
    report.appends = len(history.appends)
    report.acked = sum(append.outcome is Outcome.ACKED for append in history.appends)
    report.takeovers = len(history.takeovers)
    report.reads = sum(len(observations) for observations in history.readers.values())
