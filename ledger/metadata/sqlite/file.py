"""The SQLite file itself: making it, opening it, checking that it is ours.

    application_id   0x646C6F67 ("dlog")
    user_version     schema version, 1
    nodes            key, version, value, session (null, or the name of a lock file: sessions.py)

Invariant: the file appears whole (schema, LAYOUT and INSTANCEID in it) or not at all, readable by its owner only;
opening never makes one. The journal mode is a rollback one with synchronous=EXTRA, because several processes
write and SQLite before 3.51.3 can damage a WAL then; and of those it is PERSIST, whose commits sync data and no
directory (docs/decisions/0003-sqlite-journal-mode.md). Nothing here opens the file except SQLite, and hot_journal.py
while no transaction runs: closing any other file descriptor drops the locks that SQLite holds.

Pitfall: docs/pitfalls.md#write-ahead-log-of-sqlite.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from ledger.errors import (
    AlreadyExistsError,
    LayoutMismatchError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
)
from ledger.metadata.sqlite.errors import damaged, is_busy, missing, not_writable, translated
from ledger.metadata.sqlite.hot_journal import has_foreign_journal, journal_of, read_hot_journal

APPLICATION_ID = 0x646C6F67
SCHEMA_VERSION = 1
JOURNAL_MODE = "persist"
CHECKED_BYTES_MAX = 16 * 1024 * 1024
"""Files up to this size get a quick_check at open (some 30 ms at the limit); larger ones are trusted."""

_SCHEMA = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
CREATE TABLE nodes (
    key TEXT NOT NULL PRIMARY KEY,
    version INTEGER NOT NULL,
    value BLOB NOT NULL,
    session TEXT
) WITHOUT ROWID;
"""


def is_there(path: str) -> bool:
    """Whether there is something at `path`; one of our errors if that cannot be determined."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError as error:
        raise not_writable(path) from error
    except OSError as error:
        raise MetadataUnavailableError(
            f"{path} cannot be used: {error.strerror}; check the address", path=path
        ) from error
    return True


def open_file(path: str) -> sqlite3.Connection:
    """A checked connection, or one of our errors. sqlite3.Error only when another process holds a lock.

    This process must not be in a transaction on the file (hot_journal.py).
    """
    if not is_there(path):
        raise missing(path)
    if not (os.access(path, os.R_OK | os.W_OK) and os.access(Path(path).parent, os.W_OK)):
        raise not_writable(path)
    if has_foreign_journal(path):
        raise LayoutMismatchError(
            f"{journal_of(path)} was left by a crash while another file was at {path}: if this file is the right one, "
            f"stop its users and remove the journal; else put back the file that was there",
            path=path,
        )
    try:
        connection = _connect(path)
        try:
            _check(connection, path)
        except BaseException:
            connection.close()
            raise
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if is_busy(error):
            raise
        raise translated(error, path) from error
    return connection


def create_file(path: str, populate: Callable[[sqlite3.Connection], None]) -> None:
    """Make the file under another name and link it to `path` whole.

    Raises:
        AlreadyExistsError: the name is taken.
        MetadataOutcomeUnknownError: it is there, and may be lost with a power cut.
    """
    directory = Path(path).parent
    # In this order: a file that is there stays.
    if read_hot_journal(path) is not None and not os.path.lexists(path):
        raise LayoutMismatchError(
            f"{journal_of(path)} was left by a crash and would be played into a new {path}: put back the file that "
            f"was there, or remove the journal",
            path=path,
        )
    try:
        _make_directory(directory)
        descriptor, draft = tempfile.mkstemp(prefix=f".{Path(path).name}.", suffix=".new", dir=directory)
        os.close(descriptor)
        try:
            _fill(draft, populate)
            os.link(draft, path)
        finally:
            Path(draft).unlink()
    except FileExistsError as error:
        raise AlreadyExistsError(f"{path} exists already", key=path) from error
    except PermissionError as error:
        raise not_writable(path) from error
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise MetadataUnavailableError(
            f"{path} cannot be created: {reason}; give the address of a file in a directory that takes new files",
            path=path,
        ) from error
    try:
        _sync_directory(directory)
    except OSError as error:
        raise MetadataOutcomeUnknownError(
            f"{path} was created, and may be missing after a power cut ({error.strerror}): check the disk"
        ) from error


def _make_directory(directory: Path) -> None:
    """Make it, with missing parents, durably. One that exists may have been made by a process that did not sync it.

    NotADirectoryError also if it is a file: FileExistsError would be taken for that of the store.
    """
    made = [each for each in (directory, *directory.parents) if not each.exists()]
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectoryError(errno.ENOTDIR, f"{directory} is no directory") from error
    for each in made or [directory]:
        if os.access(
            each.parent, os.R_OK | os.W_OK
        ):  # else it is another user's concern, or cannot be opened
            _sync_directory(each.parent)


def _fill(draft: str, populate: Callable[[sqlite3.Connection], None]) -> None:
    connection = _connect(draft, "delete")  # a draft must not leave a journal behind
    try:
        connection.execute("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        populate(connection)
        connection.execute("COMMIT")
    finally:
        connection.close()


def _connect(path: str, journal_mode: str = JOURNAL_MODE) -> sqlite3.Connection:
    # Waiting for locks is ours (engine.py): SQLite's own waits in steps of up to 100 ms.
    connection = sqlite3.connect(f"file:{quote(path)}?mode=rw", uri=True, isolation_level=None, timeout=0)
    try:
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA cell_size_check=ON")
        connection.execute("PRAGMA cache_spill=OFF")
        connection.execute("PRAGMA synchronous=EXTRA")
        mode = connection.execute(f"PRAGMA journal_mode={journal_mode}").fetchone()[0]
        if mode != journal_mode:
            raise MetadataUnavailableError(
                f"{path} is in journal mode {mode!r} and in use, {journal_mode} is needed: stop its users",
                path=path,
            )
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: str) -> None:
    """Ours, of a version we know, and (when small) intact."""
    application, version, size, page = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("application_id", "user_version", "page_count", "page_size")
    )
    if application != APPLICATION_ID:
        raise LayoutMismatchError(f"{path} is not a metadata store of dlog: check the address", path=path)
    if version != SCHEMA_VERSION:
        raise LayoutMismatchError(
            f"{path} has schema version {version}, this program knows {SCHEMA_VERSION}: use a newer dlog",
            path=path,
        )
    if size * page <= CHECKED_BYTES_MAX:
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise damaged(path, verdict.splitlines()[-1])


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
