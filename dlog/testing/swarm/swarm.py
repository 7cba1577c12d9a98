"""One seed, from its plan to its verdict: chaos, then everything heals and progress is demanded, then all is read,
every copy looked at, and the whole history checked.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.testing.checks.checks import findings, first_findings
from dlog.testing.checks.copies import AckedCopies, audit
from dlog.testing.checks.history import History, Outcome
from dlog.testing.checks.ledger_ends import (
    c1_acknowledged_within_its_ledger,
    c12_recoverers_agree,
    c13_ledgers_are_deleted_by_their_own_log,
    c15_fences_are_permanent,
)
from dlog.testing.checks.leftovers import c17_no_file_is_left_over
from dlog.testing.checks.promises import c15_no_ledger_ends_below_its_lac
from dlog.testing.checks.recorder import Recorder
from dlog.testing.checks.registers import c16_registers_are_linearizable
from dlog.testing.checks.transitions import c13_ledger_metadata_moves_legally, c13_log_records_move_legally
from dlog.testing.checks.waits import c17_appends_end_in_time
from dlog.testing.cluster import ClusterConfig, SimulatedCluster, logging_into
from dlog.testing.disk.timing import DiskTiming
from dlog.testing.kernel.garbage_collector import collecting_on_request
from dlog.testing.kernel.limits import Limits
from dlog.testing.kernel.loop import START_S, SimulatedLoop
from dlog.testing.kernel.seeds import Seeds
from dlog.testing.metadata.timing import MetadataTiming
from dlog.testing.swarm.actions import Action
from dlog.testing.swarm.administrators import OTHER_LOG, SwarmAdministrator
from dlog.testing.swarm.chaos import Chaos
from dlog.testing.swarm.garbage import garbage_is_deleted
from dlog.testing.swarm.neighbours import NEIGHBOUR_ROOT, Belongings, SwarmNeighbour
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.readers import SwarmReader
from dlog.testing.swarm.witnesses import SwarmWitness
from dlog.testing.swarm.writers import SwarmWriter
from ledger.errors import LogStoreError, OutcomeUnknownError, OwnershipLostError, UnavailableError
from ledger.model import BookieId, LedgerId

T = TypeVar("T")
Worker = SwarmWriter | SwarmReader | SwarmWitness | SwarmNeighbour | SwarmAdministrator
LOG = "swarm"
HEALED = b"healed"
BEYOND_S_MAX = 60.0
"""Beyond the contract nothing is promised but errors: after so long without an answer it is one."""
_LIMITS = Limits(steps_max=20_000_000, virtual_s_max=5000.0)
_TRY_AGAIN_S = 0.5


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
    actions: tuple[Action, ...] = ()
    """What went wrong; a plan that gives them is the same run."""
    struck: tuple[Action, ...] = ()
    """What went wrong besides, by rates."""
    acked: int = 0
    appends: int = 0
    takeovers: int = 0
    reads: int = 0
    timeline: str = ""


class StuckError(Exception):
    """C17: after everything was healed this did not come to an end."""


class Swarm:
    """The processes of one run. Violations are collected, so that one run reports all of them."""

    def __init__(self, plan: Plan, cluster: SimulatedCluster) -> None:
        self._plan = plan
        self._cluster = cluster
        self._loop = cluster.loop
        self.recorder = Recorder(
            cluster.loop.time, log_event=cluster.trace.event, log_read=cluster.trace.detail
        )
        self._names = [
            *(f"writer-{number}" for number in range(plan.writers)),
            *(f"reader-{number}" for number in range(plan.readers)),
            *(f"witness-{number}" for number in range(plan.witnesses)),
            *(f"neighbour-{number}" for number in range(plan.neighbours)),
            "administrator",
        ]
        self.chaos = Chaos(plan, cluster, self._names, self._start)
        self.wrong: list[str] = []
        self._belongings = Belongings()
        self._workers: list[Worker] = []
        self._stopping = asyncio.Event()
        self._incarnations: dict[str, asyncio.Task[None]] = {}
        self._writing = True

    async def run(self) -> History:
        if self._plan.profile != "beyond":
            self.recorder.on_acked = AckedCopies(self._cluster, self._plan.ack, self.wrong).check
        for name in self._names:
            self._start(name)
        await self.chaos.run()
        self._loop.trace.note("phase", "world", "heal")
        self._heal()
        await self._in_time("writers end", self._end_writers())
        self._loop.trace.note("phase", "world", "verify")
        verify = self._verify_beyond if self._plan.profile == "beyond" else self._verify
        history = await self._in_time("the log is written and read", self._cluster.run("verifier", verify))
        if self._plan.neighbours and self._plan.profile != "beyond":
            look = self._cluster.run("neighbour-verifier", self._missing_of_neighbours)
            self.wrong += await self._in_time("the neighbours' log is written and read", look)
        await self._in_time("clients close", self._end_everybody())
        if self._plan.profile != "beyond":
            self.wrong += self._broken_promises()
        else:
            self.wrong += [
                each for bookie in self._cluster.bookies for each in bookie.promises.broken_in_limbo
            ]
        in_time = c17_appends_end_in_time(history.appends, self._plan.hold_s, self.chaos.pauses)
        self.wrong += first_findings("c17_appends_end_in_time", in_time)
        self.chaos.leave_the_dead()
        await self._in_time("bookies stop", self._cluster.stop())
        self._look_for_leaks()
        _forget_the_last(history)
        for worker in self._workers:
            self.wrong += worker.wrong
            if self._plan.profile != "beyond":
                self.wrong += worker.loud
        return history

    # ---- processes

    def _start(self, name: str) -> None:
        """Start the process, or the next incarnation of one that was killed."""
        if name in self._incarnations and self._cluster.process(name).alive:
            return
        if name.startswith("writer") and not self._writing:
            return
        self._incarnations[name] = self._cluster.run(name, lambda: self._process(name))

    async def _process(self, name: str) -> None:
        label = self._loop.node.label
        chance = self._loop.seeds.stream(f"workload {label}")
        client = await self._connect(name)
        worker: Worker
        match name.partition("-")[0]:
            case "writer":
                worker = SwarmWriter(
                    self._plan, client, LOG, self.recorder, label, chance, self._stopping.is_set
                )
            case "reader":
                config = self._plan.reader_config()
                worker = SwarmReader(client, LOG, self.recorder, label, chance, config)
            case "witness":
                config = self._plan.reader_config()
                worker = SwarmWitness(client, LOG, self.recorder, label, chance, config)
            case "neighbour":
                worker = SwarmNeighbour(client, LOG, self._belongings, chance)
            case _:
                worker = SwarmAdministrator(
                    client,
                    LOG,
                    self.recorder,
                    label,
                    chance,
                    shrinks=self._plan.shrinks,
                    other_log=self._plan.other_log,
                    strict=not self._plan.fast,
                )
        self._workers.append(worker)
        try:
            await worker.run()
        finally:
            await client.close()

    async def _connect(self, process: str = "") -> LogClient:
        config, root = self._plan.log_config(process), root_of(process)
        while True:
            try:
                return await self._cluster.client(config=config, root=root)
            except (UnavailableError, OutcomeUnknownError):
                await asyncio.sleep(_TRY_AGAIN_S)

    # ---- after the chaos

    def _heal(self) -> None:
        self._writing = False
        self._cluster.heal()
        for name in self._names:
            self._start(name)

    async def _in_time(self, what: str, work: Coroutine[Any, Any, T] | asyncio.Task[T]) -> T:
        task = asyncio.ensure_future(work)
        await asyncio.wait([task], timeout=self._plan.progress_s)
        if not task.done():
            raise StuckError(
                f"c17_progress: not finished within {self._plan.progress_s} s: {what}; waiting tasks:\n"
                + "\n".join(self._loop.waiting())
            )
        return task.result()

    async def _end_writers(self) -> None:
        """And the administrator: what was read at the end is not to be trimmed afterwards. And the neighbours."""
        self._stopping.set()
        ended = [
            task for name, task in self._incarnations.items() if name.startswith(("administrator", "neighb"))
        ]
        for task in ended:
            task.cancel()
        await asyncio.wait(ended)
        for name in self._names:
            if name.startswith("writer") and self._cluster.process(name).alive:
                await self._incarnations[name]

    async def _verify(self) -> History:
        """As one more client: take over, append, read all of it, look at every copy."""
        client = await self._connect()
        try:
            await self._bookies_are_back(client)
            last_id = await self._append_last(client)
            history = self.recorder.history()
            history.final = await self._read_all(client)
            if not history.final or history.final[-1] != (last_id, HEALED):
                self.wrong.append(f"c17_progress: the log ends with {history.final[-1:]}, expected {last_id}")
            await self._readers_reach(last_id)
            record = (await client.describe(LOG)).record
            history.trimmed_before = record.trim_before
            history.strict = not self._plan.fast
            self.wrong += await self._audit(client, [listed.ledger_id for listed in record.ledgers])
            if self._garbage_goes:
                await garbage_is_deleted(client, self._cluster, (LOG, OTHER_LOG))
            return history
        finally:
            await client.close()

    async def _missing_of_neighbours(self) -> list[str]:
        client = await self._connect("neighbour-verifier")
        try:
            while True:
                try:
                    return await self._belongings.missing(client, LOG)
                except (UnavailableError, OutcomeUnknownError, OwnershipLostError):
                    await asyncio.sleep(_TRY_AGAIN_S)
        finally:
            await client.close()

    async def _verify_beyond(self) -> History:
        """C18: each step succeeds or says that it does not; whatever is read is right."""
        client = await self._connect()
        history = self.recorder.history()
        history.strict = not self._plan.fast
        try:
            async with asyncio.timeout(BEYOND_S_MAX):
                await self._append_last(client)
                history.trimmed_before = (await client.describe(LOG)).record.trim_before
                history.final = await self._read_all(client)
        except (TimeoutError, LogStoreError) as error:
            self._loop.trace.note("beyond", "verifier", type(error).__name__)
            history.complete = False
            history.final = sorted(
                {
                    seen.message_id: seen.payload
                    for observations in history.readers.values()
                    for seen in observations
                }.items()
            )
        finally:
            await client.close()
        return history

    async def _bookies_are_back(self, client: LogClient) -> None:
        """C17: whatever befell them, all of them serve and take writes again."""
        for bookie in self._cluster.bookies:
            await bookie.wait_until_serving()
        while len(client.ledgers.bookies().writable) < len(self._cluster.bookies):  # noqa: ASYNC110 - as below
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _append_last(self, client: LogClient) -> Any:
        while True:
            try:
                async with client.open_writer(LOG, create=True) as writer:
                    return await writer.append(HEALED)
            except (UnavailableError, OutcomeUnknownError, OwnershipLostError):
                await asyncio.sleep(_TRY_AGAIN_S)

    async def _read_all(self, client: LogClient) -> list[Any]:
        while True:
            try:
                reader = client.reader(
                    LOG, until="latest", on_trimmed="skip", config=self._plan.reader_config()
                )
                async with reader:
                    return [(message.id, message.payload or b"") async for message in reader]
            except UnavailableError:
                await asyncio.sleep(_TRY_AGAIN_S)

    async def _readers_reach(self, message_id: Any) -> None:
        """C17: those that were there all the time come to the end too."""
        while self.recorder.highest < message_id:  # noqa: ASYNC110 - in no hurry
            await asyncio.sleep(_TRY_AGAIN_S)

    async def _audit(self, client: LogClient, ledger_ids: list[LedgerId]) -> list[str]:
        while True:
            try:
                return await audit(client.ledgers, ledger_ids)
            except UnavailableError:
                await asyncio.sleep(_TRY_AGAIN_S)

    async def _end_everybody(self) -> None:
        """Readers and administrators are cancelled as asyncio.run would at its end."""
        for task in self._incarnations.values():
            task.cancel()
        ended = [task for name, task in self._incarnations.items() if self._cluster.process(name).alive]
        await asyncio.gather(*ended, return_exceptions=True)
        for task in ended:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.wrong.append(f"{task.get_name()} ended with {error!r}")

    @property
    def _garbage_goes(self) -> bool:
        """Where clocks jump, ledgers may be kept for as long as these jumped."""
        return self._plan.garbage and "clock_jump" not in self._plan.faults

    def _broken_promises(self) -> list[str]:
        """C15."""
        found = self._forgotten_fences()
        reported: dict[int, int] = {}
        for bookie in self._cluster.bookies:
            found += bookie.promises.broken
            for ledger_id, lac in bookie.promises.reported_lacs.items():
                reported[ledger_id] = max(lac, reported.get(ledger_id, lac))
        ended = c15_no_ledger_ends_below_its_lac(self._cluster.metadata.history, reported)
        return found + first_findings("c15_no_ledger_ends_below_its_lac", ended)

    def _forgotten_fences(self) -> list[str]:
        bookies = {bookie.bookie_id: bookie for bookie in self._cluster.bookies}

        def refuses(bookie_id: BookieId, ledger_id: int) -> bool:
            return bookies[bookie_id].refuses_adds_to(ledger_id)

        found = c15_fences_are_permanent(self._cluster.metadata.history, refuses)
        return first_findings("c15_fences_are_permanent", found)

    def _look_for_leaks(self) -> None:
        """C17: a process that closed what it opened has no task and no open file left."""
        for node in self._loop.nodes():
            if node.alive and node is not self._loop.world:
                for task in node.pending_tasks():
                    self.wrong.append(f"c17_progress: {node.label} left {task.get_name()} running: {task!r}")
        for bookie in self._cluster.bookies:
            if left := bookie.disk.open_files():
                self.wrong.append(f"c17_progress: {bookie.name} left files open: {left}")
            if self._plan.profile != "beyond":
                found = c17_no_file_is_left_over(bookie.disk, self._plan.storage(), swept=self._garbage_goes)
                self.wrong += first_findings("c17_no_file_is_left_over", found)


def root_of(process: str) -> str:
    """Where the records of its logs are."""
    return NEIGHBOUR_ROOT if process.startswith("neighbour") else metadata_keys.DEFAULT_ROOT


def _forget_the_last(history: History) -> None:
    history.final = [each for each in history.final if each[1] != HEALED]
    for observations in history.readers.values():
        observations[:] = [seen for seen in observations if seen.payload != HEALED]


def run_plan(plan: Plan, *, detailed: bool = False, timeline: int = 0) -> Report:
    """Run it; the last `timeline` lines of the trace come with the report."""
    with collecting_on_request():
        report = _report(plan, detailed=detailed, timeline=timeline)
        # A simulation is full of cycles, and while one runs nothing collects what the last one left behind.
        gc.collect()
        return report


def _report(plan: Plan, *, detailed: bool, timeline: int) -> Report:
    loop = SimulatedLoop(Seeds(plan.seed), _LIMITS)
    loop.trace.with_events, loop.trace.detailed = detailed or timeline > 0, detailed
    report = Report(plan)
    disk = DiskTiming(sync_s=(DiskTiming().sync_s[0], plan.sync_s_max))
    way_s = (MetadataTiming().request_s[0], plan.store_s_max)
    store = MetadataTiming(request_s=way_s, answer_s=way_s, request_timeout_s=2.0, session_timeout_s=4.0)
    config = ClusterConfig(
        bookies=plan.bookies,
        storage=plan.storage(),
        disk=disk,
        metadata=store,
        gc_interval_s=plan.gc_interval_s,
    )
    try:
        with logging_into(loop):
            _run(plan, loop, config, report)
    finally:
        loop.close()
        counts = loop.trace.counts
        report.faults = {
            kind.removeprefix("fault."): count
            for kind, count in sorted(counts.items())
            if kind.startswith("fault.")
        } | loop.network.disorder()
        report.digest = loop.trace.digest()
        report.simulated_s = loop.time() - START_S
        report.steps = loop.steps
        if timeline:
            report.timeline = loop.trace.timeline(timeline)
    return report


def _run(plan: Plan, loop: SimulatedLoop, config: ClusterConfig, report: Report) -> None:
    swarms: list[Swarm] = []

    async def main() -> History:
        cluster = SimulatedCluster(loop, config)
        swarms.append(Swarm(plan, cluster))
        await cluster.start()
        history = await swarms[0].run()
        report.findings += first_findings(
            "c16_registers_are_linearizable", c16_registers_are_linearizable(cluster.metadata.history)
        )
        for check in (c12_recoverers_agree, c13_ledger_metadata_moves_legally, c13_log_records_move_legally):
            report.findings += first_findings(check.__name__, check(cluster.metadata.history))
        deletions = c13_ledgers_are_deleted_by_their_own_log(cluster.metadata.history, root_of)
        report.findings += first_findings("c13_ledgers_are_deleted_by_their_own_log", deletions)
        within = c1_acknowledged_within_its_ledger(history, cluster.metadata.history)
        report.findings += first_findings("c1_acknowledged_within_its_ledger", within)
        return history

    try:
        history = loop.run(main())
        report.findings += findings(history)
        _count(report, history)
    except Exception as error:  # noqa: BLE001  # whatever ends a run is what it found
        notes = "\n".join(getattr(error, "__notes__", []))
        report.findings.append(f"{type(error).__name__}: {error}\n{notes}".rstrip())
    for swarm in swarms:
        report.findings += swarm.wrong
        report.actions = tuple(swarm.chaos.drawn) if plan.actions is None else plan.actions
        report.struck = tuple(swarm.chaos.struck)


def _count(report: Report, history: History) -> None:
    report.appends = len(history.appends)
    report.acked = sum(append.outcome is Outcome.ACKED for append in history.appends)
    report.takeovers = len(history.takeovers)
    report.reads = sum(len(observations) for observations in history.readers.values())
