"""A rollback journal that a crash left next to the file: whether it belongs to this file.

SQLite plays such a journal into whatever file has the name, also one that an operator has put there since, and makes
a mixture of two files of it.

Invariant: the journal of a commit holds page 1 as it was, because each commit counts up the change counter in it.
While the file's own journal is hot, page 1 of the file is that image, or has a counter that is one higher.

Layout: https://www.sqlite.org/fileformat2.html, "The Rollback Journal".
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

_MAGIC = bytes.fromhex("d9d505f920a163d7")
_HEADER = struct.Struct(">8sIIIII")
"""Magic, records (all ones: as many as there are), nonce, pages of the file before, sector size, page size."""
_PAGE_HEADER_BYTES = 100
_COUNTER = slice(24, 28)
_PAGE_BYTES_MAX = 65536
_SECTOR_BYTES = range(32, 65537)


@dataclass(frozen=True, slots=True)
class HotJournal:
    header: bytes
    """It has a nonce, so journals of two transactions differ."""
    page_header: bytes | None
    """The first bytes of page 1 as it was; None if it is not there."""


def journal_of(path: str) -> str:
    return f"{path}-journal"


def read_hot_journal(path: str) -> HotJournal | None:
    """The journal of the database `path`; None if there is none that SQLite would play."""
    try:
        with Path(journal_of(path)).open("rb") as journal:
            header = journal.read(_HEADER.size)
            if len(header) < _HEADER.size:
                return None
            magic, records, _, _, sector_bytes, page_bytes = _HEADER.unpack(header)
            if magic != _MAGIC or sector_bytes not in _SECTOR_BYTES or not 0 < page_bytes <= _PAGE_BYTES_MAX:
                return None
            record_bytes = 4 + page_bytes + 4
            held = (os.fstat(journal.fileno()).st_size - sector_bytes) // record_bytes
            for record in range(min(records, held)):
                journal.seek(sector_bytes + record * record_bytes)
                if int.from_bytes(journal.read(4), "big") == 1:
                    return HotJournal(header, journal.read(_PAGE_HEADER_BYTES))
            return HotJournal(header, None)
    except OSError:
        return None  # SQLite meets the same, and reports it


def has_foreign_journal(path: str) -> bool:
    """Whether there is a hot journal of another file.

    The caller holds NO_FORK (forks.py), so that no thread of this process is in a transaction: closing the file here
    drops the locks that this process holds on it.
    """
    journal = read_hot_journal(path)
    if journal is None or journal.page_header is None:
        return False
    try:
        with Path(path).open("rb") as file:
            now = file.read(_PAGE_HEADER_BYTES)
    except OSError:
        return False
    if len(now) < _PAGE_HEADER_BYTES or now == journal.page_header:
        return False
    counter, before = (int.from_bytes(page[_COUNTER], "big") for page in (now, journal.page_header))
    if counter == (before + 1) & 0xFFFFFFFF:
        return False
    # A live process may have committed between the two reads; then this journal is not there any more.
    return read_hot_journal(path) == journal
