"""`bookie format`: delete what a stopped bookie stores, so that its directories can be used again.

A bookie that comes back empty under its old id answers "no such entry" for entries it had acknowledged. So
formatting is refused while any ledger's metadata still names the bookie or its cluster cannot be asked, unless it
is forced, and while the bookie is running. Only names that bookies make are deleted. Order: the cookie in the store
goes first and those in the directories last, so that an interrupted format neither starts nor is forgotten.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bookie_server.control.messages import SOCKET_NAME
from bookie_server.cookie import COOKIE_FILE, START_UP_FILES, read_cookie, roles, stored_names
from bookie_server.disk.directory_lock import LOCK_FILE
from bookie_server.disk.disk import Disk
from bookie_server.errors import BookieInUseError, CookieMismatchError
from bookie_server.journal.files import NEXT_FILE, SPARE_FILE
from bookie_server.journal.record import SUFFIX
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.storage_paths import LEDGER_NAMES, StoragePaths
from ledger.errors import LedgerNotFoundError, RecordNotFoundError
from ledger.metadata.format.cookie import Cookie
from ledger.metadata.refusals import KILLED
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId

_NAMED_MAX = 3
_JOURNAL_FILE = re.compile(rf"[0-9a-f]{{16}}{re.escape(SUFFIX)}")
_IN_JOURNAL = START_UP_FILES | {NEXT_FILE, SPARE_FILE}
_IN_LEDGERS = START_UP_FILES | LEDGER_NAMES | {SOCKET_NAME}


def identity_of(disk: Disk, config: StorageConfig) -> Cookie | None:
    """The cookie of the directories, which `exclusively` has found to be of one bookie; None if neither has one."""
    journal = read_cookie(disk, config.journal_directory)
    return read_cookie(disk, config.ledger_directory) if journal is None else journal


def require_identified(disk: Disk, config: StorageConfig) -> None:
    """CookieMismatchError if a directory without a cookie holds anything: no store can be asked who needs it.

    An interrupted first start makes the cookies first, an interrupted format removes them last.
    """
    for _, directory in roles(config):
        names = sorted(stored_names(disk, directory))
        if names and read_cookie(disk, directory) is None:
            raise CookieMismatchError(
                f"{directory} holds {named(names)} and has no cookie ({COOKIE_FILE}), so it cannot be determined "
                "whether ledgers need it: give the directories of a bookie; --force deletes there what bookies make",
                directory=directory,
                bookie_id=None,
            )


async def is_of_cluster(store: MetadataStore, cookie: Cookie, *, force: bool) -> bool:
    """Whether the store is that of the bookie's cluster. CookieMismatchError if it is not, unless forced.

    Another cluster names the bookie in no ledger, and its bookie of the same id is another one.
    """
    try:
        instance_id = await store.instance_id()
    except RecordNotFoundError:
        instance_id = None
    if cookie.instance_id is not None and cookie.instance_id == instance_id:
        return True
    if force:
        return False
    there = "no cluster is" if instance_id is None else f"cluster {instance_id} is"
    raise CookieMismatchError(
        f"bookie {cookie.bookie_id} is of cluster {cookie.instance_id}, and {there} in {store.uri}: give the metadata "
        "store of its cluster; --force deletes this copy without asking which ledgers need it",
        bookie_id=cookie.bookie_id,
    )


async def require_unused(store: MetadataStore, bookie_id: BookieId, *, force: bool) -> None:
    """BookieInUseError while the bookie runs or, unless forced, while a ledger's metadata names it."""
    if (await store.bookies()).is_registered(bookie_id):
        raise BookieInUseError(
            f"bookie {bookie_id} is registered: stop it first; {KILLED}", bookie_id=bookie_id
        )
    if force:
        return
    async for ledger_id in store.ledger_ids():
        try:
            metadata = (await store.read_ledger(ledger_id)).value
        except LedgerNotFoundError:
            continue
        if bookie_id in metadata.members():
            raise BookieInUseError(
                f"ledger {ledger_id} still has entries on bookie {bookie_id}: delete or trim its log, or copy the "
                f"entries to other bookies (docs/operations.md); --force deletes this copy",
                bookie_id=bookie_id,
                ledger_id=ledger_id,
            )


async def give_up(
    store: MetadataStore, disk: Disk, config: StorageConfig, bookie_id: BookieId | None
) -> list[Path]:
    """Delete the cookie in the store and what bookies make in the directories; what is left there."""
    if bookie_id is not None:
        with suppress(RecordNotFoundError):  # an earlier format came so far
            await store.remove_cookie(bookie_id, (await store.read_cookie(bookie_id)).version)
    paths = StoragePaths.of(config)
    # Last the one with the index: its lock keeps bookies from all of them.
    more = [left for each in paths.more for left in _empty(disk, each, _is_of_ledgers)]
    return [*_empty(disk, paths.journal, _is_of_journal), *more, *_empty(disk, paths.ledgers, _is_of_ledgers)]


def named(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    first = ", ".join(names[:_NAMED_MAX])
    return first if len(names) <= _NAMED_MAX else f"{first} and {len(names) - _NAMED_MAX} more"


def _empty(disk: Disk, directory: Path, is_ours: Callable[[str], bool]) -> list[Path]:
    """Delete what is ours, the cookie and then the lock last; the rest.

    Without the file another process could take the lock, and begin as a bookie there.
    """
    if not disk.exists(directory):
        return []
    names = disk.list(directory)
    for name in filter(is_ours, names):
        if name not in (COOKIE_FILE, LOCK_FILE):
            path = directory / name
            disk.remove_tree(path)
            disk.remove(path)
    disk.sync_directory(directory)
    disk.remove(directory / COOKIE_FILE)
    disk.sync_directory(directory)
    disk.remove(directory / LOCK_FILE)
    return [directory / name for name in sorted(names) if not is_ours(name)]


def _is_of_journal(name: str) -> bool:
    return name in _IN_JOURNAL or _JOURNAL_FILE.fullmatch(name) is not None


def _is_of_ledgers(name: str) -> bool:
    return name.removesuffix(".tmp") in _IN_LEDGERS
