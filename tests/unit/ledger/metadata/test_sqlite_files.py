"""The SQLite file: what it is made of, and one sentence for everything that may be wrong with it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ledger.errors import (
    AlreadyExistsError,
    ConfigurationError,
    LayoutMismatchError,
    LogStoreError,
    MetadataFormatError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
)
from ledger.metadata.drivers import open_store
from ledger.metadata.errors import MetadataStoreDamagedError
from ledger.metadata.sqlite import file
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, BookieInfo


async def use(path: Path) -> None:
    """Open, read, close, as any program does."""
    store = await open_store(f"sqlite:///{path}")
    try:
        await store.bookies()
    finally:
        await store.close()


async def initialise(path: Path) -> None:
    store = await open_store(f"sqlite:///{path}")
    try:
        await store.init_cluster()
    finally:
        await store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with a cluster in it."""
    made = tmp_path / "meta.db"
    asyncio.run(initialise(made))
    return made


@contextmanager
def raw(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def check_message(error: LogStoreError, path: Path) -> None:
    """One sentence that names the file."""
    text = str(error)
    assert str(path) in text and "\n" not in text and not text.endswith(".")


def test_the_file_and_its_directories_are_private(tmp_path: Path) -> None:
    async def run() -> None:
        store = await open_store(f"sqlite:///{tmp_path}/new/meta.db")
        await store.init_cluster()
        await store.register_bookie(BookieInfo(bookie_id=BookieId("b:1"), host="h", port=1))
        modes = _modes(tmp_path)
        sessions = {name: modes.pop(name) for name in list(modes) if "-" in name}
        assert modes == {"new": 0o700, "meta.db": 0o600, "meta.db.sessions": 0o700}
        assert set(sessions.values()) == {0o600}  # a lock file, and the rollback journal
        await store.close()

    asyncio.run(run())
    assert sorted(found.name for found in tmp_path.rglob("*")) == [
        "meta.db",
        "meta.db-journal",
        "meta.db.sessions",
        "new",
    ]


def test_the_file_is_set_up_for_several_processes(path: Path) -> None:
    with closing(file.open_file(str(path))) as connection:
        pragmas = [
            connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
        ]
    assert pragmas == ["persist", 3]


def test_nothing_is_left_of_an_init_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file appears whole or not at all."""

    def fail(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(MetadataUnavailableError, match="No space left"):
        asyncio.run(initialise(tmp_path / "meta.db"))
    assert list(tmp_path.iterdir()) == []


def test_an_init_whose_file_is_there_and_not_durable_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, real = tmp_path / "meta.db", os.fsync

    def fail_afterwards(descriptor: int) -> None:
        if path.exists():
            raise OSError(5, "Input/output error")
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail_afterwards)
        with pytest.raises(MetadataOutcomeUnknownError, match="Input/output error") as caught:
            asyncio.run(initialise(path))
    check_message(caught.value, path)
    asyncio.run(use(path))


@pytest.mark.parametrize("below", ["meta.db", "deeper/meta.db"])
def test_a_file_in_the_place_of_its_directory_is_not_a_cluster_that_exists(
    tmp_path: Path, below: str
) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / below
    with pytest.raises(MetadataUnavailableError) as raised:
        asyncio.run(initialise(path))
    check_message(raised.value, path)
    assert "; give the address of" in str(raised.value)
    assert "Errno" not in str(raised.value)


@pytest.mark.parametrize(
    ("exists", "names"), [("", {"", "new", "new/deep"}), ("new/deep", {"new", "new/deep"})]
)
def test_the_names_on_the_way_to_a_new_file_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exists: str, names: set[str]
) -> None:
    """Also that of a directory that exists, since who made it need not have synced it."""
    synced: set[Path] = set()
    real = os.fsync

    def note(descriptor: int) -> None:
        real(descriptor)
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink())

    (tmp_path / exists).mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(os, "fsync", note)
    asyncio.run(initialise(tmp_path / "new/deep/meta.db"))
    assert synced == {tmp_path / name for name in names}


def test_opening_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(MetadataUnavailableError, match="dlog standalone --data DIR") as caught:
        asyncio.run(use(tmp_path / "none" / "meta.db"))
    check_message(caught.value, tmp_path / "none" / "meta.db")
    assert list(tmp_path.iterdir()) == []


def test_a_handle_opened_before_the_file_exists_works_afterwards(tmp_path: Path) -> None:
    async def run() -> None:
        early = await open_store(f"sqlite:///{tmp_path}/meta.db")
        late = await open_store(f"sqlite:///{tmp_path}/meta.db")
        with pytest.raises(MetadataUnavailableError):
            await early.register_bookie(BookieInfo(bookie_id=BookieId("b:1"), host="h", port=1))
        await late.init_cluster()
        assert await early.new_ledger_id() == 1
        await early.close()
        await late.close()

    asyncio.run(run())


@pytest.mark.parametrize("content", [b"just some text, not a database" * 100, os.urandom(8192)])
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "meta.db"
    path.write_bytes(content)
    with pytest.raises(MetadataStoreDamagedError) as caught:
        asyncio.run(use(path))
    check_message(caught.value, path)
    with pytest.raises(MetadataStoreDamagedError):
        asyncio.run(initialise(path))
    assert path.read_bytes() == content


def test_an_empty_file_and_another_programs_database_are_not_ours(tmp_path: Path) -> None:
    empty, foreign = tmp_path / "empty.db", tmp_path / "foreign.db"
    empty.touch()
    with raw(foreign) as connection:
        connection.execute("CREATE TABLE nodes (x)")
    for path in (empty, foreign):
        with pytest.raises(LayoutMismatchError, match="not a metadata store") as caught:
            asyncio.run(use(path))
        check_message(caught.value, path)


def test_a_newer_schema_is_refused(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(LayoutMismatchError, match=r"version 2.*knows 1") as caught:
        asyncio.run(use(path))
    check_message(caught.value, path)


def test_damaged_pages_are_found_at_open(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:4200] = os.urandom(104)
    path.write_bytes(content)
    with pytest.raises(MetadataStoreDamagedError) as caught:
        asyncio.run(use(path))
    check_message(caught.value, path)


def test_a_truncated_file_is_found_at_open(path: Path) -> None:
    os.truncate(path, 4096)
    with pytest.raises(MetadataStoreDamagedError):
        asyncio.run(use(path))


def test_every_damaged_byte_gives_a_working_store_or_one_of_our_errors(path: Path) -> None:
    intact = path.read_bytes()
    for position in [*range(100), *range(4096, 4110), *range(4000, len(intact), 97)]:
        damaged = bytearray(intact)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            asyncio.run(use(path))
        except LogStoreError as error:
            assert "\n" not in str(error)


def test_a_file_that_may_not_be_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked of the system, because a test that runs as root is never refused."""
    monkeypatch.setattr(os, "access", lambda name, mode: not mode & os.W_OK)
    with pytest.raises(ConfigurationError, match="not writable") as caught:
        asyncio.run(use(path))
    check_message(caught.value, path)


def test_a_directory_that_may_not_be_entered(tmp_path: Path) -> None:
    """In a process without the rights of root, which may enter any."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        if os.geteuid() == 0:
            os.setuid(65534)
        try:
            asyncio.run(use(closed / "meta.db"))
        except (LogStoreError, OSError) as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as answer:
        text = answer.read()
    os.waitpid(child, 0)
    assert text.startswith(
        f"ConfigurationError: {closed}/meta.db or its directory is not writable for this user"
    )


@pytest.mark.parametrize("below", ["", "/meta.db"])
def test_a_name_that_the_file_system_does_not_take(tmp_path: Path, below: str) -> None:
    path = Path(f"{tmp_path}/{'long' * 64}{below}")
    for work in (use, initialise):
        with pytest.raises(MetadataUnavailableError, match="File name too long; check the address") as caught:
            asyncio.run(work(path))
        check_message(caught.value, path)


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_vanishes_while_in_use_stops_its_users(path: Path, replaced: bool) -> None:
    """Nobody goes on writing into a file without a name, or quietly changes over to another cluster."""

    async def run(store: MetadataStore) -> None:
        try:
            await store.new_ledger_id()
            await store.register_bookie(BookieInfo(bookie_id=BookieId("b:1"), host="h", port=1))
            _move_away(path, replaced)
            for _ in range(2):
                with pytest.raises(MetadataUnavailableError, match="removed or replaced"):
                    await store.new_ledger_id()
        finally:
            with pytest.raises(MetadataUnavailableError):
                await store.bookies()
            await store.close()

    async def main() -> None:
        await run(await open_store(f"sqlite:///{path}"))

    asyncio.run(main())


def _modes(directory: Path) -> dict[str, int]:
    return {found.name: found.stat().st_mode & 0o777 for found in directory.rglob("*")}


def _move_away(path: Path, replaced: bool) -> None:
    path.rename(path.with_suffix(".old"))
    if replaced:
        path.write_bytes(path.with_suffix(".old").read_bytes())


def test_a_wal_file_is_taken_back_to_a_rollback_journal(path: Path) -> None:
    with raw(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    asyncio.run(use(path))
    with raw(path) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"


def test_init_on_an_existing_cluster_changes_nothing(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(AlreadyExistsError):
        asyncio.run(initialise(path))
    assert path.read_bytes() == before


@pytest.mark.parametrize("end", ["x", "1", "9" * 20], ids=["text", "short", "large"])
def test_a_mark_under_a_key_that_is_none_is_reported_and_ends_nothing(path: Path, end: str) -> None:
    key = f"repair/marks/{end}"
    with raw(path) as connection:
        connection.execute("INSERT INTO nodes VALUES (?, 0, x'', NULL)", (key,))

    async def run() -> None:
        store = await open_store(f"sqlite:///{path}")
        try:
            with pytest.raises(MetadataFormatError, match="no key of one"):
                _ = [mark async for mark in store.repair.marks()]
            assert (await store.bookies()).writable == ()
        finally:
            await store.close()

    asyncio.run(run())
