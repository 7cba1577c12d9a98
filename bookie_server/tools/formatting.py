"""`bookie format`: delete what a stopped bookie stores, so that its directories can be used again.

A bookie that comes back empty under its old id answers "no such entry" for entries it had acknowledged. So
formatting is refused while any ledger's metadata still names the bookie, unless it is forced, and while the
bookie is running. Order: the cookie in the store goes first and those in the directories last, so that an
interrupted format neither starts nor is forgotten.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bookie_server.cookie import COOKIE_FILE, read_cookie
from bookie_server.disk.disk import Disk
from bookie_server.errors import BookieInUseError, CookieMismatchError
from bookie_server.storage.config import StorageConfig
from ledger.errors import LedgerNotFoundError, RecordNotFoundError
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId


def identity_of(disk: Disk, config: StorageConfig) -> BookieId | None:
    """The bookie whose cookie is in the directories, None if there is none."""
    found = {
        cookie.bookie_id
        for directory in (config.journal_directory, config.ledger_directory)
        if (cookie := read_cookie(disk, directory)) is not None
    }
    if len(found) > 1:
        raise CookieMismatchError(
            f"the directories belong to different bookies ({', '.join(sorted(found))}): give the journal and ledger "
            "directory of one bookie",
            directory=config.ledger_directory,
            bookie_id=None,
        )
    return found.pop() if found else None


async def require_unused(store: MetadataStore, bookie_id: BookieId, *, force: bool) -> None:
    """BookieInUseError while the bookie runs or, unless forced, while a ledger's metadata names it."""
    if (await store.bookies()).find(bookie_id) is not None:
        raise BookieInUseError(f"bookie {bookie_id} is running: stop it first", bookie_id=bookie_id)
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
) -> None:
    """Delete the cookie in the store and everything in the directories."""
    if bookie_id is not None:
        with suppress(RecordNotFoundError):  # an earlier format came so far
            await store.remove_cookie(bookie_id, (await store.read_cookie(bookie_id)).version)
    for directory in (config.journal_directory, config.ledger_directory):
        _empty(disk, directory)


def _empty(disk: Disk, directory: Path) -> None:
    if not disk.exists(directory):
        return
    for name in disk.list(directory):
        if name != COOKIE_FILE:
            path = directory / name
            disk.remove_tree(path)
            disk.remove(path)
    disk.sync_directory(directory)
    disk.remove(directory / COOKIE_FILE)
    disk.sync_directory(directory)
