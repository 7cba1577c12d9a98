"""The processes of one run and its phases: chaos, then everything heals and progress is demanded, then all is read,
every copy looked at, and what the cluster promised is checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from logging import LogRecord
from random import Random
from typing import Any, TypeVar

from bookie_server.storage.scrub.record import ScrubPass
from dlog.client import LogClient
from dlog.config import LogConfig
from dlog.ledger_list.listing import SHORT_SIZES
from dlog.model import MessageId
from dlog.testing.checks.checks import first_findings
from dlog.testing.checks.copies import AckedCopies
from dlog.testing.checks.history import History
from dlog.testing.checks.instants.new_ledgers import NewLedgers
from dlog.testing.checks.instants.recovered_fences import RecoveredFences
from dlog.testing.checks.instants.visible_acks import VisibleAcks
from dlog.testing.checks.recorder import Recorder
from dlog.testing.checks.scrubbing import c20_damage_is_marked, pass_from_now
from dlog.testing.checks.waits import c17_appends_end_in_time
from dlog.testing.cluster import SimulatedCluster
from dlog.testing.swarm.audits import broken_promises, leaks, root_of, unfound_damage
from dlog.testing.swarm.chaos import Chaos
from dlog.testing.swarm.garbage import dead_files_are_removed, garbage_is_deleted
from dlog.testing.swarm.lasting_faults import victims_max
from dlog.testing.swarm.losses.lost_ledger import LostLedger
from dlog.testing.swarm.losses.lost_page import LostPage
from dlog.testing.swarm.losses.lost_value import LostValue
from dlog.testing.swarm.plan import RACKS_MIN, Plan
from dlog.testing.swarm.processes.administrators import OTHER_LOG, SwarmAdministrator
from dlog.testing.swarm.processes.cancellers import Appended, SwarmCanceller
from dlog.testing.swarm.processes.consumers import Consumed, SwarmConsumer
from dlog.testing.swarm.processes.copiers import SwarmCopier
from dlog.testing.swarm.processes.inspectors import INSPECTOR, Inspections, SwarmInspector
from dlog.testing.swarm.processes.neighbours import Belongings, SwarmNeighbour
from dlog.testing.swarm.processes.parallel_logs import ParallelLogs, SwarmParallelLogs
from dlog.testing.swarm.processes.producers import Produced, SwarmProducer
from dlog.testing.swarm.processes.readers import SwarmReader
from dlog.testing.swarm.processes.sinks import Sunk, SwarmSink
from dlog.testing.swarm.processes.visitors import SwarmVisitors
from dlog.testing.swarm.processes.witnesses import SwarmWitness
from dlog.testing.swarm.processes.writers import SwarmWriter
from dlog.testing.swarm.repair.operators import OPERATOR, Departures, SwarmOperator
from dlog.testing.swarm.repair.repairers import (
    REPAIRER,
    SwarmRepairer,
    closed_unheard,
    patient,
    wrong_in_the_end,
)
from dlog.testing.swarm.verification import Verification
from ledger.errors import LogStoreError, OutcomeUnknownError, OwnershipLostError, UnavailableError
from ledger.writing.late_copies import LateCopies
from ledger.writing.missed_copies import MissedCopies

T = TypeVar("T")
Worker = (
    SwarmWriter
    | SwarmReader
    | SwarmWitness
    | SwarmVisitors
    | SwarmNeighbour
    | SwarmCanceller
    | SwarmConsumer
    | SwarmCopier
    | SwarmRepairer
    | SwarmOperator
    | SwarmInspector
    | SwarmParallelLogs
    | SwarmProducer
    | SwarmSink
    | SwarmAdministrator
)
LOG = "swarm"
_TRY_AGAIN_S = 0.5
_REQUESTS_END_S = 20.0
"""Requests of a process that has ended are at the metadata store by then."""


class StuckError(Exception):
    """C17: after everything was healed this did not come to an end."""


class Swarm:
    """The processes of one run. Violations are collected, so that one run reports all of them."""

    def __init__(self, plan: Plan, cluster: SimulatedCluster) -> None:
        self._plan = plan
        self._cluster = cluster
        self._loop = cluster.loop
        self.recorder = Recorder(
            lambda: cluster.loop.now, log_event=cluster.trace.event, log_read=cluster.trace.detail
        )
        self._names = [
            *(f"writer-{number}" for number in range(plan.writers)),
            *(f"reader-{number}" for number in range(plan.readers)),
            *(f"witness-{number}" for number in range(plan.witnesses)),
            *(f"neighbour-{number}" for number in range(plan.neighbours)),
            *(f"canceller-{number}" for number in range(plan.cancellers)),
            *(f"copier-{number}" for number in range(plan.copiers)),
            *(f"{REPAIRER}-{number}" for number in range(plan.repairers)),
            *(f"{OPERATOR}-{number}" for number in range(plan.operators)),
            *(f"{INSPECTOR}-{number}" for number in range(plan.inspectors)),
            *(f"consumer-{number}" for number in range(plan.consumers)),
            *(["parallel-0"] if plan.parallel_logs else []),
            *(f"producer-{number}" for number in range(plan.producers)),
            *(f"sink-{number}" for number in range(plan.sinks)),
            *(f"visitors-{number}" for number in range(plan.visitors)),
            "administrator",
        ]
        self.chaos = Chaos(plan, cluster, self._names, self._start)
        self.wrong: list[str] = []
        self._belongings = Belongings()
        self._appended = Appended()
        self._consumed = Consumed(lambda: cluster.loop.now)
        self._scrubbed: dict[str, ScrubPass] = {}
        """The last whole pass of each bookie's scrubber."""
        self._parallel = ParallelLogs(plan, lambda: cluster.loop.now, cluster.trace)
        self._produced = Produced()
        self._sunk = Sunk()
        self._departures = Departures(cluster)
        self._inspections = Inspections(
            cluster,
            self.recorder,
            LOG,
            strict=not plan.fast,
            processes=[name for name in self._names if name.startswith(INSPECTOR)],
        )
        self._workers: list[Worker] = []
        self._stopping = asyncio.Event()
        self._incarnations: dict[str, asyncio.Task[None]] = {}
        self._missed: list[tuple[MissedCopies, LateCopies]] = []
        """Of each client so far."""
        self._readers: dict[str, SwarmReader | None] = {}
        """By process; None until it has connected."""
        self.phases_s: dict[str, float] = {}
        """How long each phase after the chaos took."""
        self._writing = True

    async def run(self) -> History:
        if self._plan.profile != "beyond":
            self._watch_instants()
        for name in self._names:
            self._start(name)
        await self.chaos.run()
        self._loop.trace.note("phase", "world", "heal")
        self._heal()
        # A writer that lacks the bookies that operators have removed waits for its limit before it gives up.
        held_s = self._plan.hold_s if self._plan.operators else 0.0
        await self._in_time("writers end", self._end_writers(), self._plan.phase_s_max + held_s)
        self._loop.trace.note("phase", "world", "verify")
        verification = Verification(
            self._plan,
            self._cluster,
            LOG,
            self.recorder,
            self._connect,
            self.wrong,
            self._in_time,
            self._readers_reach,
        )
        within = self._plan.profile != "beyond"
        if within:
            # Each of its steps has a limit of its own.
            history = await self._cluster.run("verifier", verification.within_the_contract)
        else:
            verify = self._cluster.run("verifier", verification.beyond_the_contract)
            history = await self._in_time("the log is written and read", verify)
        if within:
            await self._verify_the_others()
        await self._in_time("clients close", self._end_everybody())
        self.wrong += self._consumed.wrong()
        if within:
            self.wrong += broken_promises(self._cluster)
        else:
            self.wrong += [
                each for bookie in self._cluster.bookies for each in bookie.promises.broken_in_limbo
            ]
        slowest = min(node.clock.rate for node in self._loop.nodes())
        in_time = c17_appends_end_in_time(history.appends, self._plan.hold_s / slowest, self.chaos.pauses)
        self.wrong += first_findings("c17_appends_end_in_time", in_time)
        if within and (self._plan.loses or self._plan.short_lists):
            check = self._cluster.run("loss-verifier", self._lose_something)
            # As many requests to the metadata store, one after the other, as several other phases: up to 156 s in 60
            # seeds with a store that takes half a second for each.
            what = f"a log that has lost its {self._plan.loses or 'page'} is used and deleted"
            self.wrong += await self._in_time(what, check, limit_s=6 * self._plan.phase_s_max)
        self.chaos.leave_the_dead()
        await self._in_time("bookies stop", self._cluster.stop())
        self.wrong += leaks(self._cluster, self._plan)
        self.wrong += unfound_damage(self._cluster, self._plan, self._scrubbed)
        if within and self._plan.waits_for_garbage:
            removed = dead_files_are_removed(self._cluster, self._plan.storage())
            self.wrong += await self._in_time("files without a live ledger are removed", removed)
        return history

    async def _verify_the_others(self) -> None:
        """What the log's own verification does not see: other processes, repair, scrubbers."""
        plan = self._plan
        checks: tuple[tuple[object, str, str, Callable[[], Coroutine[Any, Any, list[str]]]], ...] = (
            (plan.neighbours, "neighbour", "the neighbours' log is read", self._missing_of_neighbours),
            (plan.cancellers, "canceller", "the cancellers' log is read", self._wrong_of_cancellers),
            (plan.parallel_logs, "parallel", "the parallel logs are read", self._wrong_of_parallel_logs),
            (plan.producers, "producer", "the producers' log is read", self._wrong_of_producers),
            (plan.sinks, "sink", "the sinks' log is read", self._wrong_of_sinks),
            (True, "repairer", "every ledger is repaired", self._wrong_of_repair),
            (plan.inspectors, INSPECTOR, "the log is inspected", self._wrong_of_inspections),
            (plan.scrubs, "scrub", "every bookie is scrubbed", self._scrub_everything),
        )
        for takes_part, who, what, check in checks:
            if takes_part:
                verify = self._cluster.run(f"{who}-verifier", check)
                # Repair makes several requests to the metadata store for each ledger, one after the other.
                limit_s = 3 * plan.phase_s_max if who == "repairer" else None
                self.wrong += await self._in_time(what, verify, limit_s)

    async def _lose_something(self) -> list[str]:
        """Last of all, since nothing else may use the log any more."""
        chance, config = self._loop.seeds.stream("lost page"), self._plan.reader_config()
        metadata, value = self._cluster.metadata, self._plan.loses
        check: LostPage | LostLedger | LostValue
        match value:
            case "":
                check = LostPage(self._connect, LOG, chance, config, metadata=metadata)
            case "ledger":
                self._explain_damaged_ledgers()
                check = LostLedger(self._connect, LOG, chance, config, metadata=metadata)
            case _:
                check = LostValue(self._connect, LOG, chance, config, metadata=metadata, value=value)
        if value:
            metadata.history.end()
        wrong = await check.check()
        if self._plan.waits_for_garbage:
            client = await self._connect()
            try:
                await garbage_is_deleted(client, self._cluster, (LOG, OTHER_LOG))
            finally:
                await client.close()
        return wrong

    def _explain_damaged_ledgers(self) -> None:
        """A bookie in limbo reports each ledger that it cannot check."""
        for bookie in self._cluster.bookies:
            before = self._loop.explained.get(bookie.name, lambda record: False)

            def is_explained(record: LogRecord, before: Callable[[LogRecord], bool] = before) -> bool:
                return "the metadata of ledger" in record.getMessage() or before(record)

            self._loop.explained[bookie.name] = is_explained

    def violations(self) -> list[str]:
        """What was found wrong so far, by the phases and by every process."""
        found = list(self.wrong)
        for worker in self._workers:
            found += worker.wrong
            if self._plan.profile != "beyond":
                found += worker.loud
        return found

    def _watch_instants(self) -> None:
        copies = AckedCopies(self._cluster, self._plan.ack, self.wrong)
        visible = VisibleAcks(self._cluster, self.wrong)

        def acked(message_id: MessageId) -> None:
            copies.on_acked(message_id)
            if not self._plan.fast:
                visible.check(message_id)

        self.recorder.on_acked, self.recorder.on_first_read = acked, copies.on_read
        RecoveredFences(self._cluster, self.wrong)
        if self._plan.enforces_racks:
            NewLedgers(self._cluster, RACKS_MIN, self.wrong)

    # ---- processes

    def _start(self, name: str) -> None:
        """Start the process, or the next incarnation of one that was killed."""
        if name in self._incarnations and self._cluster.process(name).alive:
            return
        if name.startswith(("writer", "producer", "sink", OPERATOR, INSPECTOR)) and not self._writing:
            return
        if name.startswith("reader"):
            self._readers[name] = None
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
                worker = self._readers[name] = SwarmReader(client, LOG, self.recorder, label, chance, config)
            case "witness":
                config = self._plan.reader_config()
                worker = SwarmWitness(client, LOG, self.recorder, label, chance, config)
            case "visitors":
                config = self._plan.reader_config()
                worker = SwarmVisitors(client, LOG, self.recorder, label, chance, config)
            case "neighbour":
                worker = SwarmNeighbour(client, LOG, self._belongings, chance)
            case "canceller":
                trace, strict = self._loop.trace, not self._plan.fast
                worker = SwarmCanceller(client, self._appended, label, chance, trace, strict=strict)
            case "consumer":
                config, strict = self._plan.reader_config(), not self._plan.fast
                worker = SwarmConsumer(
                    client, LOG, self.recorder, self._consumed, label, chance, config, strict=strict
                )
            case "copier":
                worker = SwarmCopier(client, LOG, label, chance)
            case "repairer":
                worker = SwarmRepairer(client, label)
            case "operator":
                kept = self._plan.ensemble + victims_max(self._plan)
                worker = SwarmOperator(client, self._cluster, self._departures, chance, kept=kept)
            case "inspector":
                worker = self._inspector(client, label, chance)
            case "parallel":
                worker = SwarmParallelLogs(self._plan, client, self._parallel, label, chance, self._stopping)
            case "producer":
                plan, produced, stopping = self._plan, self._produced, self._stopping
                worker = SwarmProducer(plan, client, produced, name, label, chance, stopping)
            case "sink":
                worker = self._sink(client, name, label, chance)
            case _:
                worker = self._administrator(client, label, chance)
        self._workers.append(worker)
        try:
            await worker.run()
        except LogStoreError as error:
            worker.loud.append(f"{label} ended with {error!r}")
        finally:
            await client.close()

    def _administrator(self, client: LogClient, label: str, chance: Random) -> SwarmAdministrator:
        return SwarmAdministrator(
            client,
            LOG,
            self.recorder,
            label,
            chance,
            shrinks=self._plan.shrinks,
            other_log=self._plan.other_log,
            strict=not self._plan.fast,
            cancels=self._plan.cancellers > 0,
            rotates=self._plan.polite > 0,
            retains=self._plan.retains,
        )

    def _inspector(self, client: LogClient, label: str, chance: Random) -> SwarmInspector:
        stopping, other_log = self._stopping.is_set, self._plan.other_log
        return SwarmInspector(client, LOG, self._inspections, label, chance, stopping, other_log=other_log)

    def _sink(self, client: LogClient, name: str, label: str, chance: Random) -> SwarmSink:
        return SwarmSink(client, self._sunk, name, label, chance, self._stopping, lambda: self._connect(name))

    async def _connect(self, process: str = "", config: LogConfig | None = None) -> LogClient:
        """`config`: None: the one that the plan has for the process."""
        config, root = config or self._plan.log_config(process), root_of(process)
        while True:
            try:
                client = await self._cluster.client(config=config, root=root)
            except (UnavailableError, OutcomeUnknownError):
                await asyncio.sleep(_TRY_AGAIN_S)
                continue
            self._missed.append((client.ledgers.missed_copies, client.ledgers.late_copies))
            if self._plan.short_lists:
                client.logs.list_sizes = SHORT_SIZES
            return client

    # ---- after the chaos

    def _heal(self) -> None:
        self._writing = False
        self._cluster.heal()
        for name in self._names:
            self._start(name)

    async def _in_time(
        self, what: str, work: Coroutine[Any, Any, T] | asyncio.Task[T], limit_s: float | None = None
    ) -> T:
        """The result, if it comes within the limit: as long as a phase may take, unless another one is given."""
        task, began = asyncio.ensure_future(work), self._loop.now
        limit_s = self._plan.phase_s_max if limit_s is None else limit_s
        await asyncio.wait([task], timeout=limit_s)
        self.phases_s[what] = self._loop.now - began
        if not task.done():
            raise StuckError(
                f"c17_progress: not finished within {limit_s:g} s: {what}; waiting tasks:\n"
                + "\n".join(self._loop.waiting())
            )
        return task.result()

    async def _end_writers(self) -> None:
        """And the administrator: what was read at the end is not to be trimmed afterwards. And the neighbours."""
        self._stopping.set()
        ended = [
            task
            for name, task in self._incarnations.items()
            if name.startswith(("administrator", "neighb", "cancell", "consum", "copier", REPAIRER, OPERATOR))
            and self._cluster.process(name).alive
        ]
        for task in ended:
            task.cancel()
        await asyncio.wait(ended)
        if self._plan.operators:
            await asyncio.sleep(_REQUESTS_END_S)
            await self._cluster.run("undo", self._undo_departures)
        for name in self._names:
            if (
                name.startswith(("writer", "producer", "sink", INSPECTOR))
                and self._cluster.process(name).alive
            ):
                await self._incarnations[name]

    async def _undo_departures(self) -> None:
        async def undo(client: LogClient) -> list[str]:
            await self._departures.undo(client)
            return []

        await self._asked("undo", undo)

    async def _readers_reach(self, message_id: MessageId) -> None:
        """C17: each reader process comes to the end of the log by its own tail."""
        for reader in list(self._readers):
            while (worker := self._readers[reader]) is None or not worker.has_passed(message_id):  # noqa: ASYNC110
                await asyncio.sleep(_TRY_AGAIN_S)

    async def _missing_of_neighbours(self) -> list[str]:
        return await self._asked("neighbour-verifier", lambda client: self._belongings.missing(client, LOG))

    async def _wrong_of_cancellers(self) -> list[str]:
        return await self._asked("canceller-verifier", self._appended.wrong_in_the_end)

    async def _wrong_of_parallel_logs(self) -> list[str]:
        return await self._asked("parallel-verifier", self._parallel.wrong_in_the_end)

    async def _wrong_of_producers(self) -> list[str]:
        return await self._asked("producer-verifier", self._produced.wrong_in_the_end)

    async def _wrong_of_sinks(self) -> list[str]:
        return await self._asked("sink-verifier", self._sunk.wrong_in_the_end)

    async def _wrong_of_repair(self) -> list[str]:
        process = "repairer-verifier"
        config = patient(self._plan.log_config(process))
        # A client that was killed may not have marked what it knew: only a full check would find it.
        unmarked = closed_unheard(self._cluster.metadata.history)
        for missed, late in self._missed:
            for ledger_id, bookies in missed.unmarked.items():
                unmarked.setdefault(ledger_id, set()).update(bookies)
            for member in late.owed:
                unmarked.setdefault(member.ledger_id, set()).add(member.connection.bookie_id)
        has_copiers = self._plan.copiers > 0
        return await self._asked(
            process,
            lambda client: wrong_in_the_end(client, self._cluster, unmarked, has_copiers=has_copiers),
            config,
        )

    async def _wrong_of_inspections(self) -> list[str]:
        process = f"{INSPECTOR}-verifier"
        config = patient(self._plan.log_config(process))
        return await self._asked(process, self._inspections.wrong_in_the_end, config)

    async def _scrub_everything(self) -> list[str]:
        async def scrub(client: LogClient) -> list[str]:
            wrong: list[str] = []
            for bookie in self._cluster.bookies:
                await bookie.checkpoint()  # a pass checks what the index holds
                found = await pass_from_now(bookie)
                if found is None:
                    continue
                self._scrubbed[bookie.name] = found
                if not self._plan.repairers:
                    wrong += await c20_damage_is_marked(client.ledgers.store, bookie.bookie_id, found)
            return wrong

        return await self._asked("scrub-verifier", scrub)

    async def _asked(
        self,
        process: str,
        ask: Callable[[LogClient], Awaitable[list[str]]],
        config: LogConfig | None = None,
    ) -> list[str]:
        client = await self._connect(process, config)
        try:
            while True:
                try:
                    return await ask(client)
                except (UnavailableError, OutcomeUnknownError, OwnershipLostError):
                    await asyncio.sleep(_TRY_AGAIN_S)
        finally:
            await client.close()

    async def _end_everybody(self) -> None:
        """Readers and administrators are cancelled as asyncio.run would at its end."""
        for task in self._incarnations.values():
            task.cancel()
        ended = [task for name, task in self._incarnations.items() if self._cluster.process(name).alive]
        await asyncio.gather(*ended, return_exceptions=True)
        for task in ended:
            if not task.cancelled() and (error := task.exception()) is not None:
                self.wrong.append(f"{task.get_name()} ended with {error!r}")
