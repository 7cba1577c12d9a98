"""Names and headers of journal files among the entry logs: the index has one number for both. Pure.

A number with the highest bit is a journal file's, any other an entry log's. Journal files that hold such blocks are
called segments.
"""

from __future__ import annotations

from bookie_server.errors import JournalDamagedError
from bookie_server.journal.record import FileHeader, decode_file_header
from bookie_server.journal.record import file_name as journal_file_name
from bookie_server.storage.entry_logs.format import file_name as log_file_name

_SEGMENT = 1 << 63


def segment_id(file_id: int) -> int:
    """The number of a journal file in the index."""
    return _SEGMENT | file_id


def is_segment(log_id: int) -> bool:
    return log_id >= _SEGMENT


def journal_file_id(log_id: int) -> int:
    """The journal file of a segment."""
    return log_id ^ _SEGMENT


def name_of(log_id: int) -> str:
    """The name of the file with this number in the index."""
    if is_segment(log_id):
        return journal_file_name(journal_file_id(log_id))
    return log_file_name(log_id)


def segment_header(data: bytes, log_id: int, path: object) -> FileHeader:
    """The header of the journal file with this number in the index, from its first bytes.

    JournalDamagedError, also if it is that of another file. JournalVersionError.
    """
    header = decode_file_header(data, path)
    if header.file_id != journal_file_id(log_id):
        raise JournalDamagedError(f"{path} contains journal file {header.file_id:x}", path=path, offset=0)
    return header
