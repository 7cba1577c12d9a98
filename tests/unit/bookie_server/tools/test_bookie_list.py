"""`bookie ls` lists every registered bookie, also one whose address cannot be read."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bookie_server.tools.admin import registered_bookies
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore
from tests.helpers.metadata.drivers import B1, B2, bookie

NO_PORT = 70000


def test_a_bookie_with_a_damaged_registration_is_listed_without_an_address(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path}/meta.db"

    async def registered() -> MetadataStore:
        store = await open_store(uri)
        await store.init_cluster()
        await store.register_bookie(bookie(B1))
        await store.register_bookie(bookie(B2, port=NO_PORT))
        return store

    with asyncio.Runner() as runner:
        store = runner.run(registered())
        rows = registered_bookies(uri)
        runner.run(store.close())
    assert [(row["bookie"], row["address"], row["state"], row["in_limbo"]) for row in rows] == [
        (B1, "127.0.0.1:3181", "writable", False),
        (B2, None, "damaged", None),
    ]
