"""Adds of entries that the bookie may have: which are new, which repeat what is stored, which conflict. Pure.

Recovery writes an entry again with the LAC that it knows, so LAC and digest may differ between copies although payload
and length are the same. A bookie does not know the digest type. It finds out which digest the bytes prove (CRC32C,
CRC32), and otherwise compares what no digest can cover. An entry too short for its header or for a MAC repeats another
only if nothing but the LAC differs.

Protocol: docs/bookkeeper.md#repeated-adds. Pitfall: docs/pitfalls.md#other-bytes-under-one-id.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

from bookie_server.errors import EntryConflictError
from bookie_server.storage.stored_entry import EntryRun, StoredEntry
from ledger.wire.crc32c import crc32c

_HEADER_BYTES = 32
_LAC = slice(16, 24)
_MAC_BYTES = 20

_CHECKS: tuple[tuple[int, Callable[[bytes], int]], ...] = ((4, crc32c), (8, zlib.crc32))


class ComparedRun(NamedTuple):
    """A run of adds, sorted out by what is stored."""

    ids: list[int]
    """Of the new entries, ascending."""
    entries: list[StoredEntry]
    repeated: list[StoredEntry]
    """Entries that are stored already with the same payload."""
    conflicts: frozenset[int]
    """Ids under which other bytes are stored."""


def compare_run(run: EntryRun, stored: Callable[[int], StoredEntry | None]) -> ComparedRun:
    """Compare each entry of the run with the one that `stored` returns for its id, None if there is none."""
    new: dict[int, StoredEntry] = {}
    conflicts: set[int] = set()
    for entry_id, entry in zip(run.ids, run.entries, strict=True):
        known = new.get(entry_id) or stored(entry_id)
        if known is None:
            new[entry_id] = entry
        elif not same_payload(known, entry):
            conflicts.add(entry_id)
    repeated = [
        entry
        for entry_id, entry in zip(run.ids, run.entries, strict=True)
        if entry_id not in new and entry_id not in conflicts
    ]
    ids = sorted(new)
    return ComparedRun(ids, [new[entry_id] for entry_id in ids], repeated, frozenset(conflicts))


def report_conflicts(
    ledger_id: int, conflicts: frozenset[int], on_durable: Callable[[Exception | None], None]
) -> Callable[[Exception | None], None]:
    """A callback that passes EntryConflictError to `on_durable` where it would report success."""

    def report(error: Exception | None) -> None:
        on_durable(
            error
            or EntryConflictError(
                f"entries {sorted(conflicts)} of ledger {ledger_id} are already stored with other bytes: a writer "
                "must not use an entry id twice",
                ledger_id=ledger_id,
                entry_ids=conflicts,
            )
        )

    return report


def same_payload(stored: memoryview | bytes, offered: memoryview | bytes) -> bool:
    """True if `offered` repeats `stored`: same ids, length and payload; LAC and digest may differ."""
    if len(stored) != len(offered):
        return False
    if stored == offered:
        return True
    one, other = bytes(stored), bytes(offered)
    if one[_LAC] == other[_LAC] or one[:16] != other[:16] or one[24:32] != other[24:32]:
        return False
    start = _HEADER_BYTES + _digest_bytes(one, other)
    return one[start:] == other[start:]


def _digest_bytes(one: bytes, other: bytes) -> int:
    for size, check in _CHECKS:
        if _proves(one, size, check) and _proves(other, size, check):
            return size
    # No digest (DUMMY) leaves byte 32 on equal; a MAC differs and covers the payload after it.
    return _MAC_BYTES if len(one) >= _HEADER_BYTES + _MAC_BYTES else 0


def _proves(entry: bytes, size: int, check: Callable[[bytes], int]) -> bool:
    payload = _HEADER_BYTES + size
    digest = int.from_bytes(entry[_HEADER_BYTES:payload], "big")
    return len(entry) >= payload and check(entry[:_HEADER_BYTES] + entry[payload:]) == digest
