"""The ZooKeeper driver against three real servers that are killed, paused and cut off: calls stay linearizable."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from random import Random

import pytest

from ledger.metadata.drivers import open_store
from tests.helpers.apache.java_libs import class_path
from tests.helpers.components.register_campaign import CLIENTS, RegisterCampaign
from tests.helpers.nemesis.chaos import Chaos
from tests.helpers.nemesis.zookeeper_store import ZooKeeperStore

SECONDS = float(os.environ.get("NEMESIS_SECONDS", "6"))

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(SECONDS + 200)]


async def test_calls_are_linearizable_whatever_happens_to_the_servers(tmp_path: Path) -> None:
    class_path()  # skips the test where there is no ZooKeeper
    random = Random(1)
    chaos = Chaos(random)
    servers = ZooKeeperStore(tmp_path)
    campaign = RegisterCampaign(tmp_path, random, servers.uri_for)
    faults = {
        "kill client": campaign.kill_client,
        "pause client": campaign.pause_client,
        "kill server": partial(servers.kill_server, chaos),
        "pause server": partial(servers.pause_server, chaos),
        "cut off server": partial(servers.cut_off_server, chaos),
        "no quorum": partial(servers.pause_quorum, chaos),
        "stall client": partial(servers.stall_client, chaos),
        "reset clients": partial(servers.reset_clients, chaos),
        "lose responses": partial(servers.lose_responses, chaos),
    }
    await servers.start()
    try:
        uri = await servers.uri_for("last")
        store = await open_store(uri)
        await store.init_cluster()
        await store.close()
        for _ in range(CLIENTS):
            await campaign.start_client()
        await campaign.run(SECONDS, faults)
        await chaos.settled()
        await servers.heal()
        await campaign.end()
        await campaign.check(uri)
    finally:
        await campaign.kill_all()
        await servers.close()
    print(dict(chaos.counts))
