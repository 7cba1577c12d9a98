"""One entry as it is stored, and a run of them: what travels from the socket to the write cache and the journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

StoredEntry: TypeAlias = bytes | memoryview
"""Small entries are bytes of their own, large ones views of the block they came in."""


@dataclass(slots=True)
class EntryRun:
    """Entries of one ledger in the order received. Two columns: a pair for every entry would cost as much as
    taking it out of its block, and occupy the garbage collector.
    """

    ids: list[int] = field(default_factory=list)
    entries: list[StoredEntry] = field(default_factory=list)
