"""A golden set on disk, and copies of it that a bookie of today can be started on.

    <release>/manifest.json             what must be read back
    <release>/bookie-<store>.tar.gz     journal and ledger directory of a bookie that was killed
    <release>/meta.db.gz                the SQLite store (store `sqlite`)
    <release>/zookeeper.json            each node's path and data in base64 (store `zookeeper`)

A bookie's cookie names its directories. In a copy they are elsewhere, so the copy's cookies are changed, in the
directories and in the store, and nothing else is.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from tests.helpers.processes.bookie import BookieProcess
from tests.helpers.repository import ROOT

GOLDEN = ROOT / "tests" / "golden"
BOOKIE_ID = "golden-bookie"
SETTINGS: dict[str, Any] = {
    "bookie_id": BOOKIE_ID,
    "storage": {"journal_segment_bytes": 64 << 10, "entry_log_bytes_max": 16 << 10, "reserve_bytes": 0},
}
COOKIES = ("journal/VERSION", "ledgers/VERSION")
NODES = "/cookies/"


@dataclass(frozen=True, slots=True)
class GoldenSet:
    directory: Path

    @property
    def release(self) -> str:
        return self.directory.name

    @property
    def manifest(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / "manifest.json").read_text("utf-8"))
        return found

    def sqlite(self, home: Path) -> tuple[str, BookieProcess]:
        """A copy of the SQLite cluster below `home`: its address, and its bookie, which is not started."""
        path = home / "meta.db"
        path.write_bytes(gzip.decompress((self.directory / "meta.db.gz").read_bytes()))
        data = self._bookie("sqlite", home)
        with sqlite3.connect(path) as connection:
            rows = connection.execute("SELECT key, value FROM nodes WHERE key LIKE '%cookie%'").fetchall()
            for key, value in rows:
                moved = value.replace(self._home("sqlite"), str(home).encode())
                connection.execute("UPDATE nodes SET value = ? WHERE key = ?", (moved, key))
        connection.close()
        uri = f"sqlite:///{path}"
        return uri, BookieProcess(uri, data, **SETTINGS)

    def zookeeper(self, home: Path, address: str, root: str) -> tuple[str, BookieProcess]:
        """The same on a ZooKeeper server, below a root of its own."""
        dump = json.loads((self.directory / "zookeeper.json").read_text("utf-8"))
        with connected(address) as server:
            for path, encoded in sorted(dump["nodes"].items()):
                data = base64.b64decode(encoded)
                if NODES in path:
                    data = data.replace(self._home("zookeeper"), str(home).encode())
                server.create(path.replace(dump["root"], root, 1), data, makepath=True)
        uri = f"zk://{address}{root}"
        return uri, BookieProcess(uri, self._bookie("zookeeper", home), **SETTINGS)

    def _home(self, store: str) -> bytes:
        home: str = self.manifest[store]["home"]
        return home.encode()

    def _bookie(self, store: str, home: Path) -> Path:
        with tarfile.open(self.directory / f"bookie-{store}.tar.gz") as archive:
            archive.extractall(home, filter="data")
        data = home / "bookie"
        for name in COOKIES:
            cookie = data / name
            cookie.write_bytes(cookie.read_bytes().replace(self._home(store), str(home).encode()))
        return data


def golden_sets() -> list[GoldenSet]:
    """Of all releases so far."""
    return [GoldenSet(path) for path in sorted(GOLDEN.iterdir()) if path.is_dir()]


# ---- writing one


def pack_bookie(data: Path, target: Path) -> None:
    """Journal and ledgers under the name `bookie`, without times and owners."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(data.rglob("*")):
            # RocksDB's own log is no format, and the port may be another process's by now.
            if path.name in ("lock", "LOCK", "port") or path.name.startswith("LOG"):
                continue
            name = Path("bookie") / path.relative_to(data)
            found = archive.gettarinfo(path, str(name))
            found.uid = found.gid = 0
            found.uname = found.gname = ""
            found.mtime = 0
            if path.is_file():
                with path.open("rb") as file:
                    archive.addfile(found, file)
            else:
                archive.addfile(found)
    target.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=0))


def dump_zookeeper(address: str, root: str) -> dict[str, Any]:
    """Every node at and below the root's parent that outlives its session."""
    nodes: dict[str, str] = {}
    with connected(address) as server:

        def walk(path: str) -> None:
            data, stat = server.get(path)
            if stat.ephemeralOwner:
                return
            nodes[path] = base64.b64encode(data or b"").decode()
            for child in server.get_children(path):
                walk(f"{path}/{child}")

        parent, _, name = root.rpartition("/")
        for child in server.get_children(parent):
            if child.startswith(name):
                walk(f"{parent}/{child}")
    return {"root": root, "nodes": nodes}


@contextmanager
def connected(address: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=address, timeout=20)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()
