"""One run of a compaction: the live blocks of some files, sorted by ledger, into a new entry log.

Invariant, in this order: blocks into a file without a number, its syncs; its number, durably; the end of the new log
into what the state log writes next; the index, where it still names the old places, and its sync; the state log. Only
then may files that the index does not name any more be removed. A crash before the index is synced leaves every old
place as it was; an index that met a full disk may keep moves, so the state log must know the new log before.
Runs in the storage worker, so between two checkpoints: nothing else changes the index during one call.

Pitfall: docs/pitfalls.md#damage-answered-as-absence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bookie_server.disk.disk import DiskFile
from bookie_server.errors import DiskFullError, LedgerDirectoryFailedError, StorageError, TooManyFilesError
from bookie_server.journal.block import in_blocks
from bookie_server.storage.compaction.space import FileSpace, live_by_ledger
from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.entry_logs.format import (
    FILE_HEADER_BYTES,
    encode_block,
    encode_file_header,
    file_name,
)
from bookie_server.storage.index import Interval, LogEnd, interval_of
from bookie_server.storage.start.opening import Parts
from bookie_server.storage.storage_paths import COMPACTION
from bookie_server.storage.stored_entry import StoredEntry

PIECE_BYTES = 1024 * 1024
"""Written and synced at a time: checkpoints, and the journal's syncs on the same disk, wait for no more than this."""
_EXAMINED_MAX = 4096
"""Intervals looked at in one call."""
_MOVED_MAX = 200_000
"""Intervals of one run; bounds its memory."""
_TOGETHER_MAX = 256
"""Intervals that are moved by one write of the index."""

Run = tuple[Sequence[int], Sequence[StoredEntry]]


@dataclass(slots=True)
class _Ledger:
    """What is moved of one ledger."""

    log_bytes: Mapping[int, int]
    """By chosen file in which it has blocks: their bytes, as the index had them when the run began."""
    moves: list[tuple[list[Interval], list[Interval]]] = field(default_factory=list)
    is_whole: bool = False
    """Everything in these files was looked at."""


class CompactionRun:
    """Call `copy` until it returns None, then `finish`; `abandon` it at any time before."""

    def __init__(
        self,
        parts: Parts,
        files: Sequence[FileSpace],
        directory: Path,
        block_bytes_max: int,
        bytes_max: int,
    ) -> None:
        """In the storage worker, in the same job in which the files were chosen. The new log goes to `directory`."""
        self._parts = parts
        self._directory = directory
        self._path = directory / COMPACTION
        self._block_bytes_max = block_bytes_max
        self._bytes_max = bytes_max
        self._log_ids = {each.log_id for each in files}
        self._ledgers: Mapping[int, _Ledger] = {
            ledger_id: _Ledger(in_files) for ledger_id, in_files in live_by_ledger(files).items()
        }
        self._logs = EntryLogReader(parts.disk, parts.paths)
        self._log_id = parts.writer.new_log_id()
        if parts.writer.end.log_id in self._log_ids:
            parts.writer.end_log()
        self._file: DiskFile | None = None
        self._offset = FILE_HEADER_BYTES
        self._written = 0
        """Where what is unwritten goes, up to `_offset`."""
        self._unwritten: list[bytes] = [encode_file_header(self._log_id)]
        self._moved = 0
        self._pieces = self._copied()
        self.damaged: dict[int, StorageError] = {}
        """By file: the first block that could not be copied. Such a file stays as it is."""

    @property
    def copied_bytes(self) -> int:
        return self._written

    # ---- copying

    def copy(self) -> int | None:
        """Copy some more, durably; how many bytes, None if that was all.

        DiskFullError, DiskFailedError, LedgerDirectoryFailedError; StorageError: the index cannot be read.
        """
        return next(self._pieces, None)

    def _copied(self) -> Iterator[int]:
        with self._parts.directories.may_fail(self._directory):
            self._file = self._parts.disk.create(self._path)
        for ledger_id, ledger in self._ledgers.items():
            yield from self._copy_ledger(ledger_id, ledger)
            if self._is_full:
                break
            ledger.is_whole = True
        yield self._write()

    @property
    def _is_full(self) -> bool:
        """Never before anything is moved, or runs would follow one another that move nothing."""
        return self._moved > 0 and (self._offset >= self._bytes_max or self._moved >= _MOVED_MAX)

    def _copy_ledger(self, ledger_id: int, ledger: _Ledger) -> Iterator[int]:
        """In pieces; intervals that follow one another come together into as few blocks as possible."""
        old: list[Interval] = []
        runs: list[Run] = []
        gathered = examined = 0
        for interval in self._parts.index.intervals(ledger_id):
            examined += 1
            run = self._entries(ledger_id, interval)
            if run is not None:
                old.append(interval)
                runs.append(run)
                gathered += interval.block_bytes
            if old and (run is None or gathered >= PIECE_BYTES or len(old) >= _TOGETHER_MAX):
                self._encode(ledger_id, ledger, old, runs)
                old, runs, gathered = [], [], 0
                if self._is_full:
                    return
            if self._offset - self._written >= PIECE_BYTES or examined >= _EXAMINED_MAX:
                examined = 0
                yield self._write()
        if old:
            self._encode(ledger_id, ledger, old, runs)

    def _entries(self, ledger_id: int, interval: Interval) -> Run | None:
        """The interval's entries; None if it stays where it is."""
        if interval.log_id not in self._log_ids or interval.log_id in self.damaged:
            return None
        try:
            [block] = self._logs.read(ledger_id, [interval])
            ids = [each for each in block.ids if interval.first <= each <= interval.last]
            if interval.dense and len(ids) != interval.last - interval.first + 1:
                raise StorageError(
                    f"index and file {interval.log_id:x} disagree about entries {interval.first} to {interval.last} "
                    f"of ledger {ledger_id}",
                    ledger_id=ledger_id,
                )
        except StorageError as error:
            if isinstance(error.__cause__, TooManyFilesError):
                raise
            # Not damage if the ledger was deleted in the meantime, and the file with it.
            if self._parts.index.find(ledger_id, interval.first) == interval:
                self.damaged[interval.log_id] = error
            return None
        entries: list[StoredEntry] = []
        for each in ids:
            entry = block.entry(each)
            assert entry is not None, "a block holds what it lists"
            entries.append(entry)
        return ids, entries

    def _encode(self, ledger_id: int, ledger: _Ledger, old: list[Interval], runs: list[Run]) -> None:
        new: list[Interval] = []
        for ids, entries in in_blocks([run for run in runs if run[0]], self._block_bytes_max):
            head, body = encode_block(self._log_id, self._offset, ledger_id, ids, entries)
            size = len(head) + len(body)
            new.append(interval_of(ids, self._log_id, self._offset, size))
            self._unwritten += (head, body)
            self._offset += size
        ledger.moves.append((old, new))
        self._moved += len(old)

    def _write(self) -> int:
        size = self._offset - self._written
        if size:
            self._parts.checkpointer.with_reserve(self._append)
            self._written, self._unwritten = self._offset, []
        return size

    def _append(self) -> None:
        assert self._file is not None, "made before anything is written"
        self._parts.directories.require_working(self._directory)
        with self._parts.directories.may_fail(self._directory):
            self._file.preallocate(self._written, self._offset - self._written)
            self._file.write_uncached(self._written, self._unwritten)
            self._file.sync()

    # ---- the index

    def finish(self) -> int:
        """Let the index name the new places; how many intervals were moved. Files may be without live ledgers then.

        DiskFullError: some may be moved, and every file is still needed. LedgerDirectoryFailedError: none is.
        """
        parts, writer = self._parts, self._parts.writer
        if parts.checkpointer.has_placed and writer.end.log_id < self._log_id:
            # The blocks of a checkpoint that a full disk holds up are at the end of the current log: it stays that.
            self.abandon()
            return 0
        parts.directories.require_working(self._directory)
        with parts.directories.may_fail(self._directory):
            self._close()
            parts.disk.rename_durably(self._path, self._directory / file_name(self._log_id))
        if writer.end.log_id < self._log_id:
            # Invariant: no entry log with blocks comes after the current one. Only those before it are ever removed.
            writer.go_on_in(LogEnd(self._log_id, self._offset))
        parts.state_log.note_end(self._log_id, self._offset)
        parts.checkpointer.with_reserve(self._change_index)
        ends = {self._log_id: self._offset}
        parts.checkpointer.with_reserve(partial(parts.state_log.store, parts.index.generation(), (), ends))
        return self._moved

    def _change_index(self) -> None:
        index = self._parts.index
        try:
            index.put_log_end(self._parts.writer.end)
            for ledger_id, ledger in self._ledgers.items():
                moved = [index.move(ledger_id, old, new) for old, new in ledger.moves]
                if ledger.is_whole and all(moved):
                    for log_id, log_bytes in ledger.log_bytes.items():
                        # With more bytes, blocks of it that the index had lost were put back during the run.
                        grown = index.bytes_in_log(log_id, ledger_id) > log_bytes
                        if not grown and log_id not in self.damaged:
                            index.remove_from_log(log_id, ledger_id)
            index.sync(index.generation())
        except DiskFullError:
            index.reopen()
            raise

    def abandon(self) -> None:
        """Remove what was copied, unless it has its number. DiskFailedError."""
        if self._file is not None:
            with suppress(LedgerDirectoryFailedError), self._parts.directories.may_fail(self._directory):
                self._close()
                self._parts.disk.remove_large(self._path)()

    def _close(self) -> None:
        self._logs.close()
        file, self._file = self._file, None
        if file is not None:
            file.close()
