"""A file or a value of a newer version is refused with a sentence: where it is, its version, the newest understood."""

from __future__ import annotations

import asyncio
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from bookie_server.disk.system_disk import SystemDisk
from dlog.model import RECORD_VERSION
from ledger.errors import MetadataFormatError
from ledger.model import LedgerId
from tests.helpers.bookie.headers import with_version
from tests.helpers.golden.contents import PASSWORD
from tests.helpers.golden.sets import BOOKIE_ID, connected, golden_sets
from tests.helpers.ledger.appender import client_of
from tests.helpers.processes.bookie import BookieProcess
from tests.helpers.processes.command import Command, bookie
from tests.helpers.processes.zookeeper import ZooKeeperProcess

pytestmark = pytest.mark.integration

SET = golden_sets()[-1]


@dataclass(frozen=True, slots=True)
class Copy:
    home: Path
    uri: str
    process: BookieProcess

    @property
    def data(self) -> Path:
        return self.process.data

    def start_is_refused(self, *parts: str, code: int = 1) -> None:
        settings = self.process._write_settings()
        arguments = (
            "--metadata",
            self.uri,
            "--data",
            str(self.data),
            "--port",
            "0",
            "--config",
            str(settings),
        )
        bookie("start", *arguments).must_fail(code, *parts)


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path, *SET.sqlite(tmp_path))


def with_newer_header(path: Path, header_bytes: int, version: int = 2) -> str:
    """This version in a header of magic, version, CRC and the rest; the path."""
    content = path.read_bytes()
    assert content[8:12] == (1).to_bytes(4, "big")
    path.write_bytes(with_version(content[:header_bytes], version) + content[header_bytes:])
    return str(path)


def last(directory: Path, pattern: str) -> Path:
    return max(directory.glob(pattern))


@pytest.mark.parametrize(
    ("find", "header_bytes", "version"),
    [
        (lambda data: min((data / "journal").glob("*.journal")), 512, 3),
        (lambda data: data / "ledgers" / "log-mark", 48, 2),
        (lambda data: data / "ledgers" / "ledger-states", 16, 2),
        (lambda data: last(data / "ledgers" / "entry-logs", "*.log"), 64, 2),
    ],
    ids=["journal", "log mark", "ledger states", "entry log"],
)
def test_a_newer_file_of_a_bookie_ends_its_start(
    copy: Copy, find: Callable[[Path], Path], header_bytes: int, version: int
) -> None:
    path = with_newer_header(find(copy.data), header_bytes, version)
    copy.start_is_refused(path, f"version {version}", f"up to {version - 1}", code=2)


@pytest.mark.parametrize("name", ["ledgers/ledger-states", "ledgers/entry-logs"])
def test_an_index_is_not_rebuilt_from_newer_files(copy: Copy, name: str) -> None:
    """They would pass for damage, and what they say for lost."""
    found = copy.data / name
    path = with_newer_header(*((found, 16) if found.is_file() else (min(found.glob("*.log")), 64)))
    bookie("rebuild-index", "--data", str(copy.data)).must_fail(2, path, "version 2", "up to 1")


def test_a_newer_index_ends_the_start(copy: Copy) -> None:
    path = copy.data / "ledgers" / "index"
    store = SystemDisk().open_key_values(path)
    end = store.get(b"E")
    assert end is not None and end[:4] == (1).to_bytes(4, "big")
    store.write([(b"E", (3).to_bytes(4, "big") + end[4:])])
    store.sync()
    store.close()
    copy.start_is_refused(str(path), "version 3", "up to 2", code=2)


@pytest.mark.parametrize("name", ["journal/VERSION", "ledgers/VERSION"])
def test_a_newer_cookie_in_a_directory_ends_the_start(copy: Copy, name: str) -> None:
    path = copy.data / name
    content = path.read_bytes()
    assert content.startswith(b"5\n")
    path.write_bytes(b"6" + content[1:])
    copy.start_is_refused(str(path), "version '6'", "3 to 5")


def change(copy: Copy, key: str, changed: Callable[[bytes], bytes]) -> None:
    """The value of a node."""
    with closing(sqlite3.connect(copy.home / "meta.db")) as connection, connection:
        [(value,)] = connection.execute("SELECT value FROM nodes WHERE key = ?", (key,)).fetchall()
        connection.execute("UPDATE nodes SET value = ? WHERE key = ?", (changed(value), key))


def test_a_newer_cookie_in_the_store_ends_the_start(copy: Copy) -> None:
    change(copy, f"cookies/{BOOKIE_ID}", lambda value: b"6" + value[1:])
    copy.start_is_refused(BOOKIE_ID, copy.uri, "version '6'", "3 to 5")


def test_a_newer_schema_is_refused(copy: Copy) -> None:
    with closing(sqlite3.connect(copy.home / "meta.db")) as connection:
        connection.execute("PRAGMA user_version = 2")
    path = str(copy.home / "meta.db")
    Command(copy.uri).here("ls").must_fail(2, path, "schema version 2", "knows 1")
    copy.start_is_refused(path, "schema version 2", "knows 1", code=2)


def test_newer_metadata_of_a_ledger_is_refused(copy: Copy) -> None:
    change(copy, f"ledgers/{1:019}", lambda value: value.replace(b"\t3\n", b"\t4\n", 1))

    async def open_it() -> None:
        async with client_of(copy.uri) as client:
            await client.open(LedgerId(1), PASSWORD)

    with pytest.raises(MetadataFormatError, match=r"ledger 1 .*format 4, this program reads 1 to 3"):
        asyncio.run(open_it())


def test_a_newer_layout_of_a_store_is_refused(tmp_path: Path, zookeeper: ZooKeeperProcess) -> None:
    root = zookeeper.new_root()
    uri, _ = SET.zookeeper(tmp_path, zookeeper.address, root)
    with connected(zookeeper.address) as server:
        layout, _ = server.get(f"{root}/LAYOUT")
        server.set(f"{root}/LAYOUT", b"3" + layout[1:])
    Command(uri)("gc").must_fail(1, "LAYOUT", "format '3'", "1 and 2")


def test_a_newer_record_of_a_log_is_refused(copy: Copy) -> None:
    [key] = [each for each in _keys(copy) if "/orders/" in each and each.endswith("/record")]

    def newer(value: bytes) -> bytes:
        body = value[:4] + bytes([RECORD_VERSION + 1]) + value[5:-4]
        return body + zlib.crc32(body).to_bytes(4, "big")

    change(copy, key, newer)
    Command(copy.uri).here("info", "orders").must_fail(
        1, "orders", f"version {RECORD_VERSION + 1}", f"up to {RECORD_VERSION}"
    )


def _keys(copy: Copy) -> list[str]:
    with closing(sqlite3.connect(copy.home / "meta.db")) as connection:
        return [key for (key,) in connection.execute("SELECT key FROM nodes")]
