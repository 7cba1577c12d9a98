"""How often the owner of an idle log checks whether its ledger is due."""

from __future__ import annotations

import asyncio

import pytest

from dlog.client import LogClient
from dlog.config import LogConfig
from dlog.core.rotation_triggers import RotationLimits
from dlog.testing import SimulatedCluster, simulate
from dlog.write.rotation_monitor import RotationMonitor

LOG = "orders"
IDLE_S = RotationLimits().idle_s


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """When checks were made, in virtual seconds."""
    made: list[float] = []
    check = RotationMonitor._on_timer

    def noted(self: RotationMonitor) -> None:
        made.append(asyncio.get_running_loop().time())
        check(self)

    monkeypatch.setattr(RotationMonitor, "_on_timer", noted)
    return made


@pytest.mark.parametrize("appends", [0, 1])
def test_an_idle_owner_checks_no_more_often_than_a_ledger_may_become_idle(
    checks: list[float], appends: int
) -> None:
    """With an empty ledger nothing is due however much time passes."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client, client.open_writer(LOG, create=True) as writer:
            for _ in range(appends):
                await writer.append(b"x")
            await asyncio.sleep(10 * IDLE_S)
            assert 5 <= len(checks) <= 12

    simulate(main)


def test_a_ledger_that_was_empty_for_long_is_replaced_once_it_is_idle() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        config = LogConfig(rotation=RotationLimits(age_s=10**6))
        async with (
            await cluster.client(config=config) as client,
            client.open_writer(LOG, create=True) as writer,
        ):
            await asyncio.sleep(3.4 * IDLE_S)
            await writer.append(b"x")
            await asyncio.sleep(0.95 * IDLE_S)
            assert await ledgers(client) == 1
            await asyncio.sleep(0.1 * IDLE_S)
            assert await ledgers(client) == 2

    simulate(main)


async def ledgers(client: LogClient) -> int:
    return len((await client.describe(LOG)).record.ledgers)


def test_a_ledger_that_is_due_and_cannot_be_replaced_is_checked_now_and_then(checks: list[float]) -> None:
    """With thousands of idle logs and a metadata store that is away, the checks would take the whole processor."""

    async def main(cluster: SimulatedCluster) -> None:
        config = LogConfig(rotation=RotationLimits(idle_s=10.0))
        async with await cluster.client(config=config) as client:
            writer = await client.open_writer(LOG, create=True)
            await writer.append(b"one")
            await asyncio.sleep(5)
            cluster.metadata.partition(cluster.loop.node.name)
            await asyncio.sleep(10)
            checks.clear()
            await asyncio.sleep(60)
            assert len(checks) <= 12
            cluster.metadata.heal(cluster.loop.node.name)
            old = writer.record.ledger_ids
            await asyncio.sleep(20)
            assert writer.record.ledger_ids > old
            writer.abort()

    simulate(main)
