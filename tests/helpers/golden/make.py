"""Makes the golden set of this release with real processes: tests/golden/<version>/.

    python -m tests.helpers.golden.make

At a release, once; the sets of earlier releases are never made again. Needs ZooKeeper (CONTRIBUTING.md, Commands).
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sqlite3
import tempfile
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from dlog.client import connect
from dlog.config import LogConfig
from dlog.write.writer import LogWriter
from ledger.client import LedgerClient
from ledger.metadata.drivers import open_store
from ledger.model import DigestType, LedgerState, QuorumSizes
from tests.helpers.golden.contents import PASSWORD, contents_of
from tests.helpers.golden.sets import GOLDEN, SETTINGS, dump_zookeeper, pack_bookie
from tests.helpers.ledger.appender import client_of
from tests.helpers.processes.bookie import BookieProcess
from tests.helpers.processes.zookeeper import ZooKeeperProcess
from tests.helpers.repository import ROOT

ONE = QuorumSizes(ensemble=1, write=1, ack=1)
COLLECTED_S = 2.0
"""After which garbage collection has deleted the ledger, and a checkpoint has stored that."""


def main() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        release = tomllib.load(file)["project"]["version"]
    target = GOLDEN / release
    with tempfile.TemporaryDirectory(prefix="golden-") as home:
        manifest = {"release": release, **_of_sqlite(Path(home), target), **_of_zookeeper(Path(home), target)}
    (target / "manifest.json").write_text(json.dumps(manifest, indent=1, sort_keys=True) + "\n", "utf-8")
    for path in sorted(target.iterdir()):
        print(f"{path.relative_to(ROOT)} {path.stat().st_size} bytes")


def _of_sqlite(home: Path, target: Path) -> dict[str, Any]:
    home = home / "sqlite"
    home.mkdir()
    target.mkdir(parents=True, exist_ok=True)
    path = home / "meta.db"
    manifest = _fill(f"sqlite:///{path}", home, target / "bookie-sqlite.tar.gz")
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    (target / "meta.db.gz").write_bytes(gzip.compress(path.read_bytes(), 9, mtime=0))
    return {"sqlite": manifest}


def _of_zookeeper(home: Path, target: Path) -> dict[str, Any]:
    home = home / "zookeeper"
    (home / "server").mkdir(parents=True)
    server = ZooKeeperProcess(home / "server")
    server.start()
    try:
        root = "/golden/ledgers"
        uri = f"zk://{server.address}{root}"
        manifest = _fill(uri, home, target / "bookie-zookeeper.tar.gz")
        dump = dump_zookeeper(server.address, root)
    finally:
        server.kill()
    (target / "zookeeper.json").write_text(json.dumps(dump, indent=1, sort_keys=True) + "\n", "utf-8")
    return {"zookeeper": manifest}


def _fill(uri: str, home: Path, packed: Path) -> dict[str, Any]:
    """One bookie in two lives: the first with checkpoints, the second with none and killed."""
    asyncio.run(_initialise(uri))
    often = {
        **SETTINGS,
        "storage": {**SETTINGS["storage"], "checkpoint_interval_s": 0.2},
        "gc_interval_s": 0.2,
        "gc_grace_s": 0.2,
    }
    first = BookieProcess(uri, home / "bookie", **often)
    first.start()
    try:
        deleted = asyncio.run(_first_life(uri))
    finally:
        first.terminate()
    seldom = {**SETTINGS, "storage": {**SETTINGS["storage"], "checkpoint_interval_s": 3600.0}}
    second = BookieProcess(uri, home / "bookie", **seldom)
    second.start()
    try:
        asyncio.run(_second_life(uri))
        manifest = contents_of(uri, deleted=deleted)
    finally:
        second.kill()
    pack_bookie(home / "bookie", packed)
    return {**manifest, "home": str(home)}


async def _initialise(uri: str) -> None:
    store = await open_store(uri)
    await store.init_cluster()
    await store.close()


async def _first_life(uri: str) -> list[int]:
    """Ledgers of every digest, one recovered, one in recovery, one deleted; a log that was trimmed, others."""
    async with client_of(uri) as client:
        for digest in DigestType:
            await _ledger(client, digest, 12, closed=True)
        abandoned = await _ledger(client, DigestType.CRC32C, 9, closed=False)
        await _ledger(client, DigestType.CRC32, 5, closed=False)
        interrupted = await _ledger(client, DigestType.HMAC, 7, closed=False)
        gone = await _ledger(client, DigestType.CRC32C, 6, closed=True)
    async with client_of(uri) as client:
        await (await client.open_with_recovery(abandoned, PASSWORD)).close()
        found = await client.store.read_ledger(interrupted)
        in_recovery = replace(found.value, state=LedgerState.IN_RECOVERY)
        await client.store.write_ledger(interrupted, in_recovery, found.version)
        await client.delete(gone)
    async with connect(uri, config=_config()) as logs:
        writer = await logs.open_writer("orders", create=True)
        ids = [await _append(writer, number) for number in range(20)]
        await logs.rotate("orders")
        writer = await logs.open_writer("orders")
        ids += [await _append(writer, number) for number in range(20, 40)]
        await logs.rotate("orders")
        writer = await logs.open_writer("orders")
        ids += [await _append(writer, number) for number in range(40, 60)]
        await writer.close()
        await logs.shrink("orders", ids[25])
        sealed = await logs.open_writer("sealed", create=True)
        await _append(sealed, 1)
        await sealed.close()
        await logs.seal("sealed")
        dropped = await logs.open_writer("dropped", create=True)
        await _append(dropped, 1)
        await dropped.close()
        await logs.delete("dropped")
        await logs.create("empty")
    await asyncio.sleep(COLLECTED_S)
    return [int(gone)]


async def _second_life(uri: str) -> None:
    """What only the journal has: more of each, and writers that end without closing."""
    async with client_of(uri) as client:
        recovered = await _ledger(client, DigestType.CRC32C, 8, closed=False)
        await _ledger(client, DigestType.CRC32C, 4, closed=False)
    async with client_of(uri) as client:
        await (await client.open_with_recovery(recovered, PASSWORD)).close()
    async with connect(uri, config=_config()) as logs:
        writer = await logs.open_writer("orders")
        for number in range(60, 75):
            await _append(writer, number)
        writer.abort()


async def _append(writer: LogWriter, number: int) -> Any:
    key = None if number % 3 == 0 else b"key-%d" % number
    payload = None if key is not None and number % 7 == 0 else b"order %d " % number * (1 + number % 50)
    return await writer.append(payload, key=key, headers=((b"number", b"%d" % number),))


async def _ledger(client: LedgerClient, digest: DigestType, count: int, *, closed: bool) -> Any:
    handle = await client.create(ONE, digest_type=digest, password=PASSWORD, custom=(("made-by", b"golden"),))
    for entry_id in range(count):
        await handle.add(b"entry %d of ledger %d " % (entry_id, handle.ledger_id) * (20 + 40 * entry_id))
    if closed:
        await handle.close()
    return handle.ledger_id


def _config() -> LogConfig:
    return LogConfig(quorum=ONE)


if __name__ == "__main__":
    main()
