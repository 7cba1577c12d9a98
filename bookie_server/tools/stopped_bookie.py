"""The directories of a stopped bookie, for offline commands: locked, and of one bookie.

Journal and ledgers of different bookies fit each other by their names and positions: a command that changed such a
mixture would remove what it takes for stored. Only the cookies tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bookie_server.cookie import COOKIE_FILE, JOURNAL, LEDGER, read_cookie
from bookie_server.disk.directory_lock import lock_directories, refuse_apaches
from bookie_server.disk.disk import Disk
from bookie_server.errors import CookieMismatchError
from bookie_server.storage.config import StorageConfig
from ledger.errors import ConfigurationError
from ledger.metadata.format.cookie import Cookie, cookie_differences


@contextmanager
def exclusively(disk: Disk, config: StorageConfig, *, to_change: bool = False) -> Iterator[None]:
    """For offline commands: both directories must exist, and no bookie may run on them. Blocks.

    Directories that lack a cookie can be read, so that their entries can be saved, but not changed (`to_change`).

    Raises:
        CookieMismatchError: they are of different bookies, exchanged, or lack a cookie.
        MetadataFormatError: a cookie is damaged.
        DirectoryInUseError, ForeignStorageError.
    """
    directories = (config.journal_directory, config.ledger_directory)
    refuse_apaches(disk, directories)
    for directory in directories:
        if not disk.exists(directory):
            raise ConfigurationError(
                f"directory {directory} does not exist: give the directories that the bookie was started with"
            )
    locks = lock_directories(disk, config)
    try:
        _require_one_bookie(disk, config, complete=to_change)
        yield
    finally:
        for each in locks:
            each.release()


def _require_one_bookie(disk: Disk, config: StorageConfig, *, complete: bool) -> None:
    """A first start writes both cookies with the same content but the role, and no later one changes them."""
    found: list[tuple[Path, Cookie]] = []
    for role, directory in ((JOURNAL, config.journal_directory), (LEDGER, config.ledger_directory)):
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
    if len(found) == 2:
        (_, journal), (directory, ledgers) = found
        _require_same(journal, ledgers, directory)


def _require_role(cookie: Cookie, role: str, directory: Path) -> None:
    """A cookie of an older version has no role."""
    if cookie.role not in (None, role):
        raise CookieMismatchError(
            f"{role} directory {directory} has the cookie of the {cookie.role} directory of bookie {cookie.bookie_id}: "
            "give the directories that the bookie was started with",
            directory=directory,
            bookie_id=cookie.bookie_id,
        )


def _require_same(journal: Cookie, ledgers: Cookie, directory: Path) -> None:
    differences = cookie_differences(journal, ledgers)
    if differences:
        raise CookieMismatchError(
            f"the directories belong to different bookies ({'; '.join(differences)}, where here is the journal "
            "directory and there the ledger directory): give the journal and ledger directory of one bookie",
            directory=directory,
            bookie_id=ledgers.bookie_id,
        )
