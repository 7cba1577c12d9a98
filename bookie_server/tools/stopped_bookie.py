"""The directories of a stopped bookie, for offline commands: locked, and of one bookie.

Journal and ledgers of different bookies fit each other by their names and positions: a command that changed such a
mixture would remove what it takes for stored. Only the cookies tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bookie_server.cookie import COOKIE_FILE, ENTRIES, JOURNAL, LEDGER, read_cookie, roles
from bookie_server.disk.directory_lock import all_directories, lock_directories, refuse_apaches
from bookie_server.disk.disk import Disk
from bookie_server.errors import CookieMismatchError, IndexDamagedError
from bookie_server.journal.log_mark import LogMark
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.index import Index
from bookie_server.storage.start.index_directories import finish_exchange, open_index
from bookie_server.storage.start.journal_recovery import read_mark, require_current
from bookie_server.storage.storage_paths import StoragePaths
from ledger.errors import ConfigurationError
from ledger.metadata.format.cookie import Cookie, cookie_differences


@contextmanager
def exclusively(disk: Disk, config: StorageConfig, *, to_change: bool = False) -> Iterator[None]:
    """For offline commands: all directories must exist, and no bookie may run on them. Blocks.

    Directories that lack a cookie can be read, so that their entries can be saved, but not changed (`to_change`).

    Raises:
        CookieMismatchError: they are of different bookies, exchanged, or lack a cookie.
        MetadataFormatError: a cookie is damaged.
        DirectoryInUseError, ForeignStorageError.
    """
    refuse_apaches(disk, config)
    for directory in all_directories(config):
        require_directory(disk, directory)
    locks = lock_directories(disk, config)
    try:
        _require_one_bookie(disk, config, complete=to_change)
        yield
    finally:
        for each in locks:
            each.release()


@contextmanager
def opened_index(disk: Disk, paths: StoragePaths) -> Iterator[tuple[Index, LogMark]]:
    """The index of a stopped bookie whose directories are locked, and its log mark. Blocks.

    Invariant: it is not made. An empty index in the place of a lost one would say that nothing is stored here.

    Raises:
        IndexDamagedError: index or log mark is missing or damaged, or the index is older than the log mark.
        LogStoreError: as `Disk.open_key_values`.
    """
    mark = read_mark(disk, paths)
    finish_exchange(disk, paths)
    if not disk.exists(paths.index):
        raise IndexDamagedError(
            f"index {paths.index} is missing, which a bookie makes when it is first started: restore it, or run "
            "`bookie rebuild-index` on this bookie's directories to rebuild it from the entry logs",
            path=paths.index,
        )
    index = open_index(disk, paths)
    try:
        require_current(index, mark, paths)
        yield index, mark
    finally:
        index.close()


def require_directory(disk: Disk, directory: Path) -> None:
    """ConfigurationError if it does not exist."""
    if not disk.exists(directory):
        raise ConfigurationError(
            f"directory {directory} does not exist: give the directories that the bookie was started with"
        )


def _require_one_bookie(disk: Disk, config: StorageConfig, *, complete: bool) -> None:
    """All cookies have the same content but the role, except for ledger directories that came later or were lost."""
    found: list[tuple[Path, Cookie]] = []
    for role, directory in roles(config):
        cookie = read_cookie(disk, directory)
        if cookie is not None:
            _require_role(cookie, role, directory)
            found.append((directory, cookie))
        elif complete:
            raise CookieMismatchError(
                f"{directory} has no cookie ({COOKIE_FILE}), so it may be of another bookie than the other directory: "
                "give the directories that the bookie was started with, or restore the cookie",
                directory=directory,
                bookie_id=None,
            )
    for directory, cookie in found[1:]:
        _require_same(found[0][1], cookie, directory)
    for directory, cookie in found:
        _require_all_given(config, cookie, directory)


def _require_role(cookie: Cookie, role: str, directory: Path) -> None:
    """A cookie of an older version has no role."""
    if cookie.role not in (None, role):
        raise CookieMismatchError(
            f"{_named(role)} {directory} has the cookie of {_named(cookie.role or '')} of bookie {cookie.bookie_id}: "
            "give the directories that the bookie was started with",
            directory=directory,
            bookie_id=cookie.bookie_id,
        )


def _named(role: str) -> str:
    return {
        JOURNAL: "the journal directory",
        LEDGER: "the ledger directory",
        ENTRIES: "another ledger directory",
    }.get(role, f"a directory of role {role!r}")


def _require_same(journal: Cookie, ledgers: Cookie, directory: Path) -> None:
    if journal.ledger_dirs[0] == ledgers.ledger_dirs[0]:
        ledgers = replace(ledgers, ledger_dirs=journal.ledger_dirs)
    differences = cookie_differences(journal, ledgers)
    if differences:
        raise CookieMismatchError(
            f"the directories belong to different bookies ({'; '.join(differences)}, where here is the journal "
            "directory and there the ledger directory): give the journal and ledger directory of one bookie",
            directory=directory,
            bookie_id=ledgers.bookie_id,
        )


def _require_all_given(config: StorageConfig, cookie: Cookie, directory: Path) -> None:
    """What is not looked at would seem to be lost. The directories may have been mounted, or copied, elsewhere."""
    given = len(config.ledger_directories) + len(config.lost_ledger_directories)
    if len(cookie.ledger_dirs) > given:
        raise CookieMismatchError(
            f"the cookie in {directory} lists {len(cookie.ledger_dirs)} ledger directories, "
            f"{', '.join(cookie.ledger_dirs)}, and {given} of them are given: give each with --ledger-dir; the next "
            "`bookie start` gives up one whose disk is lost: --lost-ledger-dir",
            directory=directory,
            bookie_id=cookie.bookie_id,
        )
