"""A journal that a crash left is played into its own file, and into no other one that has come to its place."""

from __future__ import annotations

import asyncio
import shutil
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from ledger.errors import LayoutMismatchError
from ledger.metadata.drivers import open_store
from ledger.metadata.store import MetadataStore

SECTOR_BYTES, PAGE_BYTES = 512, 4096


def at(path: Path, work: Callable[[MetadataStore], Awaitable[object]]) -> object:
    async def run() -> object:
        store = await open_store(f"sqlite:///{path}")
        try:
            return await work(store)
        finally:
            await store.close()

    return asyncio.run(run())


async def value(store: MetadataStore) -> tuple[bytes, int]:
    found = await store.read_record("/a")
    return found.value, found.version


def change(path: Path) -> None:
    async def write(store: MetadataStore) -> None:
        found = await store.read_record("/a")
        await store.write_record("/a", b"changed %d" % (found.version + 1), found.version)

    at(path, write)


def journal_of(path: Path) -> Path:
    return path.with_name(path.name + "-journal")


def revive_journal(path: Path) -> None:
    """Take back the end of the last commit, which zeroes the journal's header: a crash just before leaves that."""
    journal = journal_of(path)
    data = journal.read_bytes()
    assert data[:28] == bytes(28), "a commit has ended"
    nonces = []
    for start in range(SECTOR_BYTES, len(data) - PAGE_BYTES - 7, PAGE_BYTES + 8):
        page = data[start + 4 : start + 4 + PAGE_BYTES]
        checksum = int.from_bytes(data[start + 4 + PAGE_BYTES : start + 8 + PAGE_BYTES], "big")
        nonces.append((checksum - sum(page[PAGE_BYTES - 200 : 0 : -200])) & 0xFFFFFFFF)
    records = nonces.count(nonces[0])  # others are of an earlier, longer transaction
    magic = bytes.fromhex("d9d505f920a163d7")
    pages = path.stat().st_size // PAGE_BYTES
    header = struct.pack(">8sIIIII", magic, records, nonces[0], pages, SECTOR_BYTES, PAGE_BYTES)
    journal.write_bytes(header + data[28:])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a record, whose journal has ended."""

    async def populate(store: MetadataStore) -> None:
        await store.init_cluster()
        await store.create_record("/a", b"first")

    made = tmp_path / "meta.db"
    at(made, populate)
    return made


def test_its_own_journal_takes_an_unfinished_commit_back(path: Path) -> None:
    """Both with the file's pages written and with none of them."""
    change(path)
    unwritten = path.read_bytes()
    change(path)
    revive_journal(path)
    left = journal_of(path).read_bytes()
    assert at(path, value) == (b"changed 1", 1)

    path.write_bytes(unwritten)
    journal_of(path).write_bytes(left)
    assert at(path, value) == (b"changed 1", 1)


def test_a_backup_next_to_another_files_journal_is_refused(path: Path) -> None:
    backup = path.read_bytes()
    change(path)
    change(path)
    revive_journal(path)
    path.write_bytes(backup)
    with pytest.raises(LayoutMismatchError, match="db-journal was left by a crash while another file was at"):
        at(path, value)
    assert path.read_bytes() == backup

    journal_of(path).unlink()
    assert at(path, value) == (b"first", 0)


def test_a_file_of_the_same_age_is_refused_too(path: Path, tmp_path: Path) -> None:
    """As many commits as the image in the journal, but not that page."""
    other = tmp_path / "other.db"
    at(other, lambda store: store.init_cluster())
    at(other, lambda store: store.create_record("/b", b"x" * 10_000))
    change(path)
    revive_journal(path)
    shutil.copy(other, path)
    with pytest.raises(LayoutMismatchError):
        at(path, value)


def test_no_new_file_is_made_next_to_a_journal(path: Path) -> None:
    change(path)
    revive_journal(path)
    path.unlink()
    with pytest.raises(
        LayoutMismatchError, match="db-journal was left by a crash and would be played into a new"
    ):
        at(path, lambda store: store.init_cluster())
    assert not path.exists() and journal_of(path).exists()

    journal_of(path).unlink()
    at(path, lambda store: store.init_cluster())


def test_a_file_whose_journal_has_ended_may_be_replaced(path: Path) -> None:
    backup = path.read_bytes()
    change(path)
    change(path)
    path.write_bytes(backup)
    assert at(path, value) == (b"first", 0)
