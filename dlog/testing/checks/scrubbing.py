"""C20: scrubbers find what is damaged, and nothing else; each ledger that they find is marked for repair.

When all faults have ended, each bookie that serves makes one more whole pass. What it has found is compared with its
files once it has stopped: every block that its index names is read there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

from bookie_server.disk.disk import Disk
from bookie_server.errors import IndexDamagedError, StorageError
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.index import Index
from bookie_server.storage.scrub.record import ScrubPass
from bookie_server.storage.storage_paths import StoragePaths
from dlog.testing.bookies import SimulatedBookie
from ledger.errors import LedgerNotFoundError, RecordNotFoundError
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, LedgerId

_POLL_S = 0.2


async def pass_from_now(bookie: SimulatedBookie) -> ScrubPass | None:
    """A pass of the bookie's scrubber that has begun after this call; None if the bookie does not serve."""
    ended: list[ScrubPass] = []
    while bookie.serving:
        server = bookie.server
        last = None if server is None or server.scrubber is None else server.scrubber.record.last
        if last is not None and last not in ended:
            ended.append(last)
        # What ended first may have begun and even ended before this call, and the next one may have begun before.
        if len(ended) > 2:
            return last
        await asyncio.sleep(_POLL_S)
    return None


async def c20_damage_is_marked(store: MetadataStore, bookie_id: BookieId, found: ScrubPass) -> list[str]:
    """Without repair the marks of what was found must be there."""
    wrong = []
    for ledger_id in map(LedgerId, found.damaged_ledgers):
        with suppress(LedgerNotFoundError):
            if bookie_id not in (await store.read_ledger(ledger_id)).value.members():
                continue
            try:
                missing = (await store.repair.read_mark(ledger_id)).value.missing
            except RecordNotFoundError:
                missing = ()
            if bookie_id not in missing:
                wrong.append(
                    f"c20_damage_is_marked: {bookie_id} has found damage in ledger {ledger_id}, which is marked for "
                    f"{', '.join(missing) or 'no bookie'}"
                )
    return wrong


def c20_scrubbers_find_what_is_damaged(
    disk: Disk, config: StorageConfig, found: ScrubPass, *, sound: bool
) -> Iterator[str]:
    """`found` by the scrubber of a bookie that has stopped; a sound one has nothing to be found."""
    if sound and found.damaged_blocks:
        yield f"{found.damaged_blocks} blocks of ledgers {found.damaged_ledgers} are reported, and all are intact"
    if sound and found.unindexed_blocks:
        yield f"{found.unindexed_blocks} blocks are reported as missing in the index, which has lost nothing"
    paths = StoragePaths.of(config)
    logs = EntryLogReader(disk, paths)
    try:
        index = Index(disk.open_key_values(paths.index))
    except IndexDamagedError:
        return
    try:
        with suppress(StorageError):  # the index is damaged there
            for ledger_id, interval in index.all_intervals():
                try:
                    logs.read(ledger_id, [interval])
                except StorageError as error:
                    if ledger_id not in found.damaged_ledgers:
                        yield f"{error}; this was not found"
    finally:
        logs.close()
        index.close()
