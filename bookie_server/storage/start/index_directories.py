"""Which directory is the index: a new one takes the place of the old one, and a crash leaves one of them whole.

Invariant: a new index is complete and durable before the old one is moved away, so where `index` is missing and both
others are there, the new one is the index. Blocks.
"""

from __future__ import annotations

from bookie_server.disk.disk import Disk
from bookie_server.storage.index import Index
from bookie_server.storage.storage_paths import StoragePaths


def put_in_place(disk: Disk, paths: StoragePaths) -> None:
    """The new index, which is complete, is `index` on return, durably; the old one is left as `index.old`."""
    disk.sync_directory(paths.ledgers)
    if disk.exists(paths.index):
        disk.remove_tree(paths.old_index)
        disk.rename_durably(paths.index, paths.old_index)
    disk.rename_durably(paths.new_index, paths.index)


def remove_old(disk: Disk, paths: StoragePaths) -> None:
    """After `put_in_place`."""
    disk.remove_tree(paths.old_index)
    disk.sync_directory(paths.ledgers)


def open_index(disk: Disk, paths: StoragePaths) -> Index:
    """The index of a stopped bookie, whose directories the caller has locked. Errors: as `Disk.open_key_values`."""
    _settle(disk, paths)
    return Index(disk.open_key_values(paths.index), paths.index)


def finish_exchange(disk: Disk, paths: StoragePaths) -> None:
    """If a crash has cut `put_in_place` off between its steps, take the last one: the new index is `index`, durably.

    Before anything else is made of the new one: a rebuild begins by removing it.
    """
    if not disk.exists(paths.index) and disk.exists(paths.old_index) and disk.exists(paths.new_index):
        disk.rename_durably(paths.new_index, paths.index)


def _settle(disk: Disk, paths: StoragePaths) -> None:
    """Finish what a crash has cut off, and remove what it has left."""
    finish_exchange(disk, paths)
    if not disk.exists(paths.index):
        return
    for directory in (paths.new_index, paths.old_index):
        if disk.exists(directory):
            disk.remove_tree(directory)
