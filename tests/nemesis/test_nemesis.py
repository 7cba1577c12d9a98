"""Real processes, killed and stopped at times that a seed decides; then everything is healed, read back, checked.

    NEMESIS_SECONDS=600 NEMESIS_SEED=17 pytest tests/nemesis

runs one seed for longer. The operating system's scheduling is not seeded, so a seed repeats the plan, not the run.
"""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.index import Index
from dlog.client import LogClient, connect
from dlog.testing.checks.checks import check
from dlog.testing.checks.copies import audit
from dlog.testing.checks.history import History, Outcome
from dlog.testing.checks.ledger_ends import c12_recoverers_agree, c15_fences_are_permanent
from dlog.testing.checks.leftovers import c17_no_file_is_left_over
from dlog.testing.checks.promises import c15_no_ledger_ends_below_its_lac
from dlog.testing.checks.transitions import c13_ledger_metadata_moves_legally, c13_log_records_move_legally
from ledger.model import BookieId
from tests.helpers.nemesis.fault_injector import Faults
from tests.helpers.nemesis.history_file import read_history, whole_lines
from tests.helpers.nemesis.metadata_watch import MetadataWatch
from tests.helpers.nemesis.settings import LOG, log_config
from tests.helpers.processes.cluster import Cluster, running_cluster

SECONDS = float(os.environ.get("NEMESIS_SECONDS", "4"))
SEED = os.environ.get("NEMESIS_SEED")

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(SECONDS + 240)]


@dataclass(frozen=True)
class Plan:
    seed: int
    bookies: int
    options: tuple[str, ...] = ()


PLANS = [Plan(1, 3), Plan(2, 5, ("striped",)), Plan(3, 4, ("fast",))]
if SEED is not None:
    kinds = [(3, ()), (4, ()), (5, ("striped",)), (4, ("fast",))]
    PLANS = [Plan(int(SEED), *kinds[int(SEED) % len(kinds)])]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"seed{plan.seed}")
async def test_nothing_acknowledged_is_lost(plan: Plan, tmp_path: Path) -> None:
    """Writers fight over the log while bookies and writers die and sleep; readers follow from anywhere."""
    chance = random.Random(plan.seed)
    async with running_cluster(tmp_path, bookies=plan.bookies) as cluster:
        faults = Faults(cluster, tmp_path, chance, plan.options)
        try:
            async with connect(cluster.uri, config=log_config()) as client:
                watch = MetadataWatch(client, LOG)
                watching = asyncio.create_task(watch.run())
                await chaos(faults, chance)
                history, wrong = await after_healing(cluster.uri, faults, plan.options)
                watching.cancel()
                await asyncio.wait([watching])
                await watch.look()
        finally:
            await faults.end()
        wrong += await after_the_end(cluster, watch)
        try:
            assert not wrong, wrong[:5]
            check(history)
        except AssertionError as error:
            keep = os.environ.get("NEMESIS_KEEP")
            if keep:
                save(faults, Path(keep) / f"seed{plan.seed}")
            raise AssertionError(
                f"seed {plan.seed}, {SECONDS} s: {error}\n" + "\n".join(faults.told)
            ) from error
    summary(plan, history, faults)


async def chaos(faults: Faults, chance: random.Random) -> None:
    loop = asyncio.get_running_loop()
    await faults.start_writer()
    await faults.start_reader()
    await faults.start_reader()
    end = loop.time() + SECONDS
    while loop.time() < end:
        await asyncio.sleep(chance.uniform(0.05, 1.5))
        await faults.step()
    await faults.heal()


async def after_healing(uri: str, faults: Faults, options: tuple[str, ...]) -> tuple[History, list[str]]:
    """Writers end in order, a last one takes over and appends, everything is read and every copy looked at."""
    await faults.end_writers()
    config = log_config(striped="striped" in options)
    async with asyncio.timeout(60), await connect(uri, config=config) as client:
        async with client.open_writer(LOG, create=True) as writer:
            last_id = await writer.append(b"healed")
        await readers_reach(faults, str(last_id))
        history = read_history(line for path in faults.histories for line in whole_lines(path))
        history.final = [
            (message.id, message.payload or b"") async for message in client.reader(LOG, until="latest")
        ]
        assert history.final[-1] == (last_id, b"healed"), history.final[-1:]
        history.final.pop()
        for observations in history.readers.values():
            observations[:] = [seen for seen in observations if seen.payload != b"healed"]
        return history, await audit(client.ledgers, await sealed_ledgers(client))


async def after_the_end(cluster: Cluster, watch: MetadataWatch) -> list[str]:
    """What metadata told meanwhile, and what bookies leave behind that were stopped in good order."""
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


async def readers_reach(faults: Faults, message_id: str) -> None:
    """C17: after healing, readers come to the end."""
    async with asyncio.timeout(30):
        while not any(  # noqa: ASYNC110 - another process's file
            f" {message_id} " in line for path in faults.histories for line in tail_of(path)
        ):
            await asyncio.sleep(0.1)


def tail_of(path: Path) -> list[str]:
    return whole_lines(path)[-200:]


async def sealed_ledgers(client: LogClient) -> list[int]:
    record = (await client.logs.read(await client.logs.find(client.name(LOG)))).value
    return [one.ledger_id for one in record.ledgers]


def save(faults: Faults, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for path in faults.histories:
        (directory / path.name).write_bytes(path.read_bytes())


def summary(plan: Plan, history: History, faults: Faults) -> None:
    counts = {outcome.value: 0 for outcome in Outcome}
    for append in history.appends:
        counts[append.outcome.value] += 1
    print(
        f"seed {plan.seed}: {counts}, {len(history.takeovers)} takeovers, {len(history.final)} messages, "
        f"{sum(map(len, history.readers.values()))} read by {len(history.readers)} readers, {len(faults.told)} faults"
    )
