"""One run: chaos, then everything is healed, read back and checked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from random import Random

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.index import Index
from dlog.client import LogClient, connect
from dlog.inspection.ledgers import listed_ledgers
from dlog.testing.checks.checks import findings
from dlog.testing.checks.copies import audit
from dlog.testing.checks.history import History, Outcome
from dlog.testing.checks.ledger_ends import c12_recoverers_agree, c15_fences_are_permanent
from dlog.testing.checks.leftovers import c17_no_file_is_left_over
from dlog.testing.checks.promises import c15_no_ledger_ends_below_its_lac
from dlog.testing.checks.recorder import Recorder
from dlog.testing.checks.transitions import c13_ledger_metadata_moves_legally, c13_log_records_move_legally
from ledger.model import BookieId
from tests.helpers.nemesis.cluster import NemesisCluster, nemesis_cluster
from tests.helpers.nemesis.fault_injector import Faults
from tests.helpers.nemesis.history_file import NewLines, read_history, whole_lines
from tests.helpers.nemesis.metadata_watch import MetadataWatch
from tests.helpers.nemesis.reader_process import SHRINKS
from tests.helpers.nemesis.settings import HEALED, LOG, log_config

_AFTER_HEALING_S = 300.0
_READERS_STOP_S = 60.0
"""A tail that returns nothing for so long hangs. How many messages a second one returns depends on the machine."""


@dataclass(frozen=True)
class Plan:
    seed: int
    bookies: int
    options: tuple[str, ...] = ()
    """striped, fast, and a planted bug's name."""
    metadata: str = "sqlite"
    seconds: float = 4.0
    only: tuple[str, ...] = ()
    """Methods of the fault injector; none means all."""


_KINDS: list[tuple[int, tuple[str, ...]]] = [(3, ()), (4, ()), (5, ("striped",)), (4, ("fast",))]


def plan_of(seed: int, metadata: str, seconds: float) -> Plan:
    bookies, options = _KINDS[seed % len(_KINDS)]
    return Plan(seed, bookies, options, metadata, seconds)


@dataclass(frozen=True)
class Run:
    """What came of a plan."""

    plan: Plan
    history: History
    faults: dict[str, int]
    wrong: list[str]
    """Each violation, as a sentence that begins with the name of the check."""
    steps: list[str]

    @property
    def acked(self) -> int:
        return sum(append.outcome is Outcome.ACKED for append in self.history.appends)

    @property
    def lost(self) -> int:
        """Violations of C1: none is ever excused."""
        return sum(found.startswith("c1_") for found in self.wrong)

    @property
    def batches(self) -> int:
        """Acknowledged."""
        appends = self.history.appends
        return sum(append.outcome is Outcome.ACKED and append.batch == append.number for append in appends)

    def summary(self) -> str:
        counts = {outcome.value: 0 for outcome in Outcome}
        for append in self.history.appends:
            counts[append.outcome.value] += 1
        ended = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        answers = [each.answer for each in self.history.resolutions]
        resolved = ", ".join(f"{answers.count(answer)} {answer}" for answer in sorted(set(answers)))
        return (
            f"seed {self.plan.seed} on {self.plan.metadata}: appends {ended}, {self.batches} batches; "
            f"resolved {resolved or 'none'}; {len(self.history.trims)} trims to {self.history.trimmed_before}; "
            f"{len(self.history.takeovers)} takeovers, {len(self.history.final)} messages, "
            f"{sum(map(len, self.history.readers.values()))} returned by {len(self.history.readers)} readers, "
            f"{len(self.history.whole_reads)} of them whole; {sum(self.faults.values())} faults, lost {self.lost}"
        )


async def run(plan: Plan, directory: Path) -> Run:
    """Writers compete for the log while processes die and pause and links break; readers follow from anywhere."""
    random = Random(plan.seed)
    async with nemesis_cluster(directory, plan.metadata, plan.bookies) as cluster:
        faults = Faults(cluster, directory, random, plan.options, plan.only)
        try:
            uri = await cluster.store.uri_for("watch")
            async with connect(uri, config=log_config()) as client:
                watch = MetadataWatch(client, LOG)
                watching = asyncio.create_task(watch.run())
                await _chaos(faults, random, plan.seconds)
                history, wrong = await _after_healing(cluster, faults, plan.options)
                watching.cancel()
                await asyncio.wait([watching])
                await watch.look()
        except Exception as error:
            error.add_note("\n".join(faults.chaos.steps))
            raise
        finally:
            await faults.end()
        wrong += await _after_the_end(cluster, watch)
        return Run(plan, history, dict(faults.chaos.counts), findings(history) + wrong, faults.chaos.steps)


async def _chaos(faults: Faults, random: Random, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    await faults.start_writer()
    await faults.start_reader(SHRINKS)
    await faults.start_reader()
    end = loop.time() + seconds
    while loop.time() < end:
        await asyncio.sleep(random.uniform(0.05, 1.5))
        await faults.step()
    await faults.heal()


async def _after_healing(
    cluster: NemesisCluster, faults: Faults, options: tuple[str, ...]
) -> tuple[History, list[str]]:
    """Writers end in order, a last one takes over and appends, everything is read and every copy compared."""
    await faults.end_writers()
    config = log_config(striped="striped" in options)
    uri = await cluster.store.uri_for("auditor")
    async with asyncio.timeout(_AFTER_HEALING_S), await connect(uri, config=config) as client:
        own = Recorder(time.monotonic)
        readers = {
            path.stem: NewLines(path, path.stat().st_size)
            for path in faults.histories
            if path.stem in faults.readers
        }
        own.asked_for("auditor")
        async with client.open_writer(LOG, create=True) as writer:
            own.takeover("auditor", writer.epoch)
            number = own.invoke("auditor", HEALED)
            last_id = await writer.append(HEALED)
            own.end("auditor", number, Outcome.ACKED, last_id)
        wrong = await _readers_reach(readers, str(last_id))
        await faults.end_readers()
        history = read_history(line for path in faults.histories for line in whole_lines(path))
        history.strict = "fast" not in options
        history.skipping = set(history.readers)
        history.trimmed_before = (await client.describe(LOG)).record.trim_before
        history.final = [
            (message.id, message.payload or b"") async for message in client.reader(LOG, until="latest")
        ]
        wrong += _tails_are_whole(history, list(faults.readers))
        assert history.final[-1:] == [(last_id, HEALED)], history.final[-1:]
        history.appends += own.history().appends
        history.takeovers += own.history().takeovers
        return history, wrong + await audit(client.ledgers, await _sealed_ledgers(client))


async def _readers_reach(readers: Mapping[str, NewLines], last_id: str) -> list[str]:
    """C17: after healing each reader process comes to the end, on the tail that is never timed out.

    `readers`: what each writes from before the last append on.
    """
    since = dict.fromkeys(readers, time.monotonic())
    """When each was seen to return something."""
    while since:
        for name in list(since):
            found = [line for line in readers[name].read() if line.startswith(f"r {name}.tail ")]
            if any(line.split(" ")[2] == last_id for line in found):
                del since[name]
            elif found:
                since[name] = time.monotonic()
        stuck = [name for name, at in since.items() if time.monotonic() - at > _READERS_STOP_S]
        if stuck:
            return [
                f"c17_progress: the tail of {name} has not reached {last_id}, and returned nothing for "
                f"{_READERS_STOP_S} s"
                for name in stuck
            ]
        await asyncio.sleep(0.1)
    return []


def _tails_are_whole(history: History, names: list[str]) -> list[str]:
    """C17: what an endless tail from the earliest message returned is the log, from what no trim was asked for.

    Below that C11 sees to it that a tail left out only what was to be trimmed before it came there.
    """
    wrong = []
    first = history.trim_asked_until(inf)
    expected = [pair for pair in history.final if pair[0] >= first]
    for name in names:
        found = [
            (seen.message_id, seen.payload)
            for seen in history.readers.get(f"{name}.tail", [])
            if seen.message_id >= first
        ]
        if found != expected:
            differing = (n for n, pair in enumerate(zip(found, expected, strict=False)) if pair[0] != pair[1])
            place = next(differing, min(len(found), len(expected)))
            wrong.append(
                f"c17_tail_is_whole: {name}.tail returned {len(found)} messages from {first} on, the log has "
                f"{len(expected)}; they differ from message {place} on: {found[place : place + 1]}, expected "
                f"{expected[place : place + 1]}"
            )
    return wrong


async def _after_the_end(cluster: NemesisCluster, watch: MetadataWatch) -> list[str]:
    """What metadata showed during the run, and what bookies leave behind that were stopped in good order."""
    wrong = [
        *c12_recoverers_agree(watch.history),
        *c13_ledger_metadata_moves_legally(watch.history),
        *c13_log_records_move_legally(watch.history),
        *c15_no_ledger_ends_below_its_lac(watch.history, watch.reported_lacs),
    ]
    indexes: dict[BookieId, Index] = {}
    disk = SystemDisk()
    for number, bookie in enumerate(cluster.bookies):
        assert await bookie.stop() == 0, bookie.last_lines
        home = cluster.bookie_directory(number)
        config = StorageConfig(journal_directory=home / "journal", ledger_directory=home / "ledgers")
        wrong += c17_no_file_is_left_over(disk, config, swept=False)
        indexes[BookieId(f"{bookie.host}:{bookie.port}")] = Index(
            disk.open_key_values(home / "ledgers" / "index")
        )

    def is_fenced(bookie_id: BookieId, ledger_id: int) -> bool:
        state = indexes[bookie_id].state(ledger_id)
        return state is not None and (state.fenced or state.deleted)

    wrong += c15_fences_are_permanent(watch.history, is_fenced)
    for index in indexes.values():
        index.close()
    return wrong


async def _sealed_ledgers(client: LogClient) -> list[int]:
    return [one.ledger_id for one in await listed_ledgers(client, LOG)]
