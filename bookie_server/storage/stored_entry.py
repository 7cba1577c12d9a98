"""One entry as it is stored, and a run of them: what travels from the socket to the write cache and the journal."""

from __future__ import annotations

from typing import Protocol, TypeAlias

StoredEntry: TypeAlias = bytes | memoryview
"""Small entries are bytes of their own, large ones views of the block they came in."""


class EntryRun(Protocol):
    """Entries of one ledger in the order received; at least one.

    Two columns: a pair for every entry would cost as much as taking it out of its block, and occupy the garbage
    collector.
    """

    @property
    def ids(self) -> list[int]: ...

    @property
    def entries(self) -> list[StoredEntry]: ...
