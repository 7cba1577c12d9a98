"""What a cluster holds, as a client reads it; a golden set's manifest has what the release that made it read."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import Any

from ledger.client import LedgerClient
from ledger.errors import LedgerNotFoundError
from ledger.model import LedgerId, LedgerState
from tests.helpers.ledger.appender import client_of
from tests.helpers.processes.command import Command

PASSWORD = b"golden"
"""Of each ledger that has one."""


def contents_of(uri: str, *, deleted: list[int]) -> dict[str, Any]:
    """Ledgers with the digests of their entries, logs with those of their messages, cookies."""
    return {**asyncio.run(_contents(uri, deleted)), "logs": logs_of(uri)}


async def _contents(uri: str, deleted: list[int]) -> dict[str, Any]:
    async with client_of(uri) as client:
        listed = [int(each) async for each in client.store.ledger_ids()]
        ledgers = {str(each): await _ledger(client, LedgerId(each)) for each in listed}
        for ledger_id in deleted:
            try:
                await client.store.read_ledger(LedgerId(ledger_id))
            except LedgerNotFoundError:
                continue
            raise AssertionError(f"ledger {ledger_id} was deleted and is back")
        cookies = [str(each) for each in await client.store.list_cookies()]
        instance = await client.store.instance_id()
    return {"instance": instance, "cookies": cookies, "ledgers": ledgers, "deleted": deleted}


async def _ledger(client: LedgerClient, ledger_id: LedgerId) -> dict[str, Any]:
    metadata = (await client.store.read_ledger(ledger_id)).value
    handle = await client.open(ledger_id, metadata.password)
    entries = await handle.read(0, handle.last_readable) if handle.last_readable >= 0 else []
    await handle.close()
    return {
        "state": LedgerState(metadata.state).name,
        "last_entry": metadata.last_entry,
        "length": metadata.length,
        "digest_type": metadata.digest_type.name,
        "custom": sorted(name for name, _ in metadata.custom),
        "readable": len(entries),
        "sha256": _digest(bytes(entry.payload) for entry in entries),
    }


def logs_of(uri: str) -> dict[str, Any]:
    """As the command line prints them."""
    dlog = Command(uri)
    found: dict[str, Any] = {}
    for name in dlog.here("ls").must_succeed().split():
        info = json.loads(dlog.here("info", name, "-o", "json").must_succeed())
        rows = [
            json.loads(line) for line in dlog.here("read", name, "-o", "json").must_succeed().splitlines()
        ]
        lines = (json.dumps([row["id"], row["key"], row["payload"]]).encode() for row in rows)
        found[name] = {"state": info["state"], "messages": len(rows), "sha256": _digest(lines)}
    return found


def _digest(parts: Any) -> str:
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(4, "big") + part)
    return found.hexdigest()
