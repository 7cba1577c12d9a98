"""The SQLite driver in processes that are killed, paused, locked out, without space: calls stay linearizable."""

from __future__ import annotations

import asyncio
import os
import resource
import sqlite3
from pathlib import Path
from random import Random

import pytest

from ledger.metadata.drivers import open_store
from tests.helpers.components.register_campaign import CLIENTS, RegisterCampaign

SECONDS = float(os.environ.get("NEMESIS_SECONDS", "4"))

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(SECONDS + 120)]


@pytest.mark.parametrize("seed", [1, 2])
async def test_calls_are_linearizable_whatever_happens_to_the_processes(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "meta.db"
    uri = f"sqlite:///{path}"
    store = await open_store(uri)
    await store.init_cluster()
    await store.close()

    async def uri_for(client: str) -> str:
        return uri

    random = Random(seed)
    campaign = RegisterCampaign(tmp_path, random, uri_for)

    async def lock() -> None:
        """For longer than clients wait, sometimes."""
        connection = sqlite3.connect(path, timeout=5.0, isolation_level=None, check_same_thread=False)
        try:
            await asyncio.to_thread(_begin_exclusive, connection)
            await asyncio.sleep(random.choice([0.05, 0.6]))
        finally:
            connection.close()

    async def no_space() -> None:
        """A process cannot write above this offset: in the middle of a commit, of journal or database."""
        victim = random.choice(campaign.clients)
        before = resource.prlimit(victim.pid, resource.RLIMIT_FSIZE)
        limit = random.choice([0, 512, 1024, 4096, 8192, path.stat().st_size // 2])
        resource.prlimit(victim.pid, resource.RLIMIT_FSIZE, (limit, before[1]))
        await asyncio.sleep(random.uniform(0.02, 0.3))
        resource.prlimit(victim.pid, resource.RLIMIT_FSIZE, before)

    async def kill_without_space() -> None:
        """It dies with a commit that was cut short in the journal or in the database."""
        victim = random.choice(campaign.clients)
        _, hard = resource.prlimit(victim.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(victim.pid, resource.RLIMIT_FSIZE, (random.choice([512, 4096, 8192]), hard))
        await asyncio.sleep(random.uniform(0.0, 0.02))
        victim.kill()
        await victim.stop()
        campaign.clients.remove(victim)
        await campaign.start_client()

    try:
        for _ in range(CLIENTS):
            await campaign.start_client()
        await campaign.run(
            SECONDS,
            {
                "kill": campaign.kill_client,
                "pause": campaign.pause_client,
                "lock": lock,
                "no space": no_space,
                "kill without space": kill_without_space,
            },
        )
        await campaign.end()
    finally:
        await campaign.kill_all()
    await campaign.check(uri)
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def _begin_exclusive(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN EXCLUSIVE")
