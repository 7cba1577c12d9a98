"""What does an hour look like in which everything goes wrong that a cluster must bear? Real processes on one disk.

Three bookies, E3 Qw3 Qa2, twenty logs under constant appends, a process that tails them all. At minute 10 a bookie is
killed and its disk is lost, at 20 a new one is added, at 30 nine of ten logs are deleted, at 40 bits are flipped in
files of a bookie. `bookie autorecovery`, garbage collection, compaction and scrubbers do the rest. At the end
the bookies are restarted, every message of the remaining logs is read and compared, and all copies of every entry are
verified; the benchmark fails if an acknowledged message is lost or an entry lacks copies.

`--minutes 6` has the same story in six minutes: all times and the sizes that follow from them are in proportion.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.hour.load import Load, LoadedLog, log_name
from benchmarks.hour.messages import ReadCheck
from benchmarks.hour.report import HourReport
from benchmarks.hour.samples import CopiesSample, Event, SpaceSample
from benchmarks.hour.schedule import (
    ADDED,
    BOOKIES,
    DELETED,
    DELETED_LOGS,
    FLIPPED,
    FLIPPED_BLOCKS,
    LOGS,
    LOST,
    PER_SECOND,
    Schedule,
)
from benchmarks.hour.verdict import LogResult, Verdict
from benchmarks.options import Options
from benchmarks.stores import cluster_on
from dlog.client import LogClient, connect
from dlog.inspection.verify import UncheckedLedger
from ledger.inspection.copies import Verdict as CopiesVerdict
from ledger.model import BookieId, QuorumSizes
from tests.helpers.processes.cluster import Cluster
from tests.helpers.processes.python import Child, start_python
from tests.helpers.repository import ROOT

_START_S = 8.0
"""From the opening of the logs to the first append; the other processes start in this time."""
_TAIL_S_MAX = 60.0
"""For the tailing reader to get what was acknowledged."""
_REPAIR_S_MAX = 180.0
"""After the last append, for repairs that are under way."""
_LOST, _FLIPPED = 0, 1
"""Numbers of bookies."""
T = TypeVar("T")


async def run(options: Options) -> HourReport:
    schedule = Schedule(options.minutes)
    store = options.stores[0]
    config = options.directory / "hour-benchmark.toml"
    schedule.write_bookie_config(config)
    try:
        async with cluster_on(
            store, options.directory, bookies=BOOKIES, extra=("--config", str(config))
        ) as cluster:
            return await _Hour(schedule, cluster, config, HourReport(schedule.minutes, store)).run()
    finally:
        config.unlink()


class _Hour:
    def __init__(self, schedule: Schedule, cluster: Cluster, config: Path, report: HourReport) -> None:
        self._schedule = schedule
        self._cluster = cluster
        self._config = config
        self._report = report
        self._children: list[Child] = []
        self._progress = cluster.directory / "tail"

    async def run(self) -> HourReport:
        uri, home = self._cluster.uri, self._cluster.directory
        async with AsyncExitStack() as stack:
            await self._start(
                stack, "bookie_server", "autorecovery", "--metadata", uri, "--config", str(self._config)
            )
            client = await stack.enter_async_context(connect(uri, config=self._schedule.log_config))
            load = await Load.open(client, LOGS, PER_SECOND, time.monotonic() + _START_S)
            await self._start(stack, "benchmarks.hour.tail_process", uri, str(self._progress), str(LOGS))
            await self._start(
                stack,
                "benchmarks.hour.watch_process",
                uri,
                str(home),
                str(self._schedule.minutes),
                repr(load.began),
            )
            appending = asyncio.create_task(load.run())
            try:
                await self._story(client, load)
            finally:
                load.end()
                await appending
            self._note(load.now_s(), "appends end", f"{sum(log.submitted for log in load.every):,} messages")
            for log in list(load.logs):
                await load.remove(log)
            await self._wait_for_tail(load.remaining)
            await self._wait_for_repair(client)
            self._require_running()
            self._report.load(load)
            self._report.take(self._samples("space", SpaceSample), self._samples("copies", CopiesSample))
            self._report.deliveries(list(map(json.loads, self._tail_lines())), load.began)
        await self._restart_bookies()
        self._report.verdict = await self._verdict(load)
        return self._report

    async def _start(self, stack: AsyncExitStack, module: str, *arguments: str) -> None:
        child = await start_python(["-m", module, *arguments])
        stack.push_async_callback(child.stop)
        self._children.append(child)

    def _require_running(self) -> None:
        """What a process that has ended did not measure would look like nothing."""
        for child in self._children:
            if not child.running:
                raise RuntimeError(f"a process of the benchmark has ended: {' | '.join(child.last_lines)}")

    # ---- the story

    async def _story(self, client: LogClient, load: Load) -> None:
        for event, step in (
            (LOST, self._lose),
            (ADDED, self._add),
            (DELETED, self._delete),
            (FLIPPED, self._flip),
        ):
            await asyncio.sleep(self._schedule.at_s(event) - load.now_s())
            at_s = load.now_s()
            self._note(at_s, event, await step(client, load))
        await asyncio.sleep(self._schedule.seconds - load.now_s())

    def _note(self, at_s: float, name: str, detail: str) -> None:
        event = Event(round(at_s, 1), name, detail)
        self._report.events.append(event)
        print(f"minute {event.at_s / 60:.1f}: {name}: {detail}", file=sys.stderr, flush=True)

    async def _lose(self, client: LogClient, load: Load) -> str:
        bookie = self._cluster.bookies[_LOST]
        bookie.kill()
        await bookie.stop()
        await asyncio.to_thread(shutil.rmtree, self._cluster.bookie_directory(_LOST))
        return f"bookie-{_LOST} is killed and its files are removed"

    async def _add(self, client: LogClient, load: Load) -> str:
        number = await self._cluster.add_bookie(extra=("--config", str(self._config)))
        return f"bookie-{number} starts with empty directories"

    async def _delete(self, client: LogClient, load: Load) -> str:
        deleted = load.logs[:DELETED_LOGS]
        for log in deleted:
            await load.remove(log)
        await self._wait_for_tail(deleted)
        for log in deleted:
            if not await client.delete(log_name(log.number)):
                load.failures.append(f"log {log.number}: some ledgers are kept although it is deleted")
            log.deleted = True
        return f"{len(deleted)} of {LOGS} logs"

    async def _flip(self, client: LogClient, load: Load) -> str:
        bookie = self._cluster.bookies[_FLIPPED]
        bookie_id = BookieId(f"{bookie.host}:{bookie.port}")
        store = client.ledgers.store
        ledgers = [
            ledger_id
            async for ledger_id in store.ledger_ids()
            if bookie_id in (await store.read_ledger(ledger_id)).value.members()
        ]
        directory = self._cluster.bookie_directory(_FLIPPED)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.hour.bit_flips",
            str(directory),
            str(FLIPPED_BLOCKS),
            *map(str, ledgers),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"bits could not be flipped in {directory}: exit code {process.returncode}")
        (self._cluster.directory / "flipped").write_bytes(out)
        blocks = json.loads(out)
        entries = sum(each["last"] - each["first"] + 1 for each in blocks)
        return f"one in each of {len(blocks)} blocks of bookie-{_FLIPPED}, {entries} entries"

    # ---- waiting

    def _tail_lines(self) -> list[str]:
        """What the tailing reader has reported, without a line that is being written."""
        text = self._progress.read_text("utf-8") if self._progress.exists() else ""
        return text.rpartition("\n")[0].splitlines()

    def _last_tail_line(self) -> dict[str, Any]:
        lines = self._tail_lines()
        found: dict[str, Any] = (
            json.loads(lines[-1]) if lines else {"next": [0] * LOGS, "ends": {}, "faulty": []}
        )
        return found

    async def _wait_for_tail(self, logs: list[LoadedLog]) -> None:
        """Return when the tailing reader has all of these logs; it counts as lost what has not come in time."""
        until = time.monotonic() + _TAIL_S_MAX
        while time.monotonic() < until:
            reached = self._last_tail_line()["next"]
            if all(reached[log.number] >= log.submitted for log in logs):
                return
            await asyncio.sleep(0.2)

    async def _wait_for_repair(self, client: LogClient) -> None:
        """Return when no ledger is marked, or a while later."""
        until = time.monotonic() + _REPAIR_S_MAX
        while time.monotonic() < until:
            if not [mark async for mark in client.ledgers.store.repair.marks()]:
                return
            await asyncio.sleep(0.5)

    async def _restart_bookies(self) -> None:
        """So that what is read then comes from their disks, and not from their memory."""
        for number, bookie in enumerate(self._cluster.bookies):
            if number != _LOST:
                await bookie.stop()
                await self._cluster.restart(number, extra=("--config", str(self._config)))

    def _samples(self, name: str, kind: Callable[..., T]) -> list[T]:
        lines = (self._cluster.directory / name).read_text("utf-8").rpartition("\n")[0].splitlines()
        return [kind(**json.loads(line)) for line in lines]

    # ---- the end

    async def _verdict(self, load: Load) -> Verdict:
        """By a client that knows nothing of the hour."""
        tail = self._last_tail_line()
        verdict = Verdict(failures=load.failures, tail_ends=self._unexpected_ends(load, tail["ends"]))
        faulty = {check["log"]: ReadCheck(**check) for check in tail["faulty"]}
        for log in load.every:
            check = faulty.get(log.number) or ReadCheck(log.number, next=tail["next"][log.number])
            verdict.tail_faults += check.faults(log.acked)
        async with connect(self._cluster.uri) as client:
            for log in load.remaining:
                check = ReadCheck(log.number)
                async with client.reader(log_name(log.number), until="latest") as reader:
                    async for message in reader:
                        check.take(bytes(message.payload or b""))
                result = LogResult(
                    log=log.number,
                    acked=len(log.acked),
                    read=check.count,
                    faults=check.faults(log.acked),
                )
                for found in await client.verify(log_name(log.number)):
                    if isinstance(found, UncheckedLedger):
                        raise found.error
                    result.entries += found.entries
                    result.complete += found.verdicts[CopiesVerdict.COMPLETE]
                    result.damaged += found.damaged
                    if found.quorum.write < QuorumSizes().write:
                        result.smaller_quorum += found.entries
                verdict.logs.append(result)
        return verdict

    @staticmethod
    def _unexpected_ends(load: Load, ends: dict[str, str]) -> list[str]:
        deleted = {log.number for log in load.every if log.deleted}
        return [f"log {number}: {reason}" for number, reason in ends.items() if int(number) not in deleted]
