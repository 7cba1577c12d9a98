"""The files with blocks that the index must lead to, and up to where. Pure.

Those that the ledger states know, as in a rebuild of the index. In the current entry log up to the end that the last
checkpoint has stored: what comes after that is of a checkpoint that is under way, or that met a full disk and will be
written over. Of the journal what is before the log mark: what comes after it is replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bookie_server.journal.log_mark import LogMark
from bookie_server.storage.ledgers.state_log_format import NOT_KNOWN
from bookie_server.storage.segments.places import is_segment, journal_file_id


@dataclass(frozen=True, slots=True)
class BlockFile:
    """An entry log or a journal file, by its number in the index. `end`: of its blocks; None: of the file."""

    log_id: int
    end: int | None


def block_files(log_ends: Mapping[int, int], mark: LogMark) -> list[BlockFile]:
    """Ascending by number. `log_ends`: as the ledger states have them."""
    return [
        BlockFile(log_id, _end(log_id, end, mark))
        for log_id, end in sorted(log_ends.items())
        if not is_segment(log_id) or journal_file_id(log_id) <= mark.file_id
    ]


def _end(log_id: int, end: int, mark: LogMark) -> int | None:
    if is_segment(log_id) and journal_file_id(log_id) == mark.file_id:
        return min(end, mark.offset)
    return None if end == NOT_KNOWN else end
