"""Files that the index leads into and that are not there: removed by hand, or lost by a file system. Blocks.

The bookie itself removes a file after the index leads nowhere into it any more, durably. A crash may cut off what notes
the removal elsewhere, so the ledger states may name a file that is rightly missing; the index may not.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.errors import StorageError
from bookie_server.storage.index import Index
from bookie_server.storage.segments.log_files import path_of
from bookie_server.storage.storage_paths import StoragePaths


def missing_files(disk: Disk, index: Index, paths: StoragePaths) -> list[Path]:
    """Ascending. None where the index cannot be read: a read or the scrubber reports that.

    Intervals are looked at only for ledgers that have had blocks in a missing file.
    """
    found: list[Path] = []
    with suppress(StorageError):
        for log_id in index.log_ids():
            path = path_of(disk, paths, log_id)
            if not disk.exists(path) and index.leads_into(log_id):
                found.append(path)
    return found
