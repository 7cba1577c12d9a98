"""A second copy of what only the index holds: keys, fences, LACs and tombstones of ledgers, limbo, ends of logs.

Entries can be found again in the entry logs, which describe themselves; these facts cannot. Invariant: when the log
mark names a generation, this file has everything up to it, so damage to the index loses no fence.
Written as a whole at the first checkpoint after a start and when it has grown too large, else appended to. Lives in
the storage worker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from bookie_server.disk.disk import Disk, DiskFile
from bookie_server.disk.sectors import read_file_around
from bookie_server.errors import DiskFailedError, DiskFullError
from bookie_server.storage.index import LOG_FULL, Index, LogEnd
from bookie_server.storage.ledgers.state_log_format import (
    NOT_KNOWN,
    REMOVED,
    Record,
    decode_log_ends,
    encode_file_header,
    encode_frame,
    log_end_record,
)
from bookie_server.storage.segments.log_files import path_of
from bookie_server.storage.segments.places import is_segment
from bookie_server.storage.storage_paths import StoragePaths

_FRAME_RECORDS = 4096
_GROWTH_BYTES = 4 * 1024 * 1024
"""The file is rewritten when it has grown to twice its size after the last rewrite, plus this."""


class StateLog:
    """Writes the file; `storage/rebuild` reads it."""

    def __init__(
        self,
        disk: Disk,
        paths: StoragePaths,
        index: Index,
        end: LogEnd | None,
        segment_ends: Mapping[int, int],
    ) -> None:
        """`end` is what the index knows at the start; `segment_ends`: by journal file, where what was replayed ends."""
        self._disk = disk
        self._paths = paths
        self._index = index
        self._end_at_start = end
        self._replayed = segment_ends
        self._file: DiskFile | None = None
        self._offset = 0
        self._offset_max = 0
        self._log_ends: dict[int, int] | None = None
        self._removed: set[int] = set()

    def store(self, generation: int, states: Sequence[Record], new_ends: Mapping[int, int]) -> None:
        """Everything that the index holds at this generation is durable here on return.

        `states` are the records that are new in it; `new_ends`: by log, where its blocks end now. DiskFullError: what
        is here is still that of an earlier one.
        """
        ends = self._ends()
        for log_id, end in new_ends.items():
            # Blocks in a journal file are not checkpointed in the order in which they are there.
            ends[log_id] = max(end, ends.get(log_id, 0)) if is_segment(log_id) else _known(end)
        changed = [log_end_record(log_id, ends[log_id]) for log_id in new_ends]
        self._put(generation, [*changed, *states])

    def note_end(self, log_id: int, end: int) -> None:
        """Before the index names blocks of this entry log: whatever is written next has its end, also if `store` does
        not come to it. DiskFailedError.
        """
        self._ends()[log_id] = end
        self.close()

    def knows(self, log_id: int) -> bool:
        """Whether a rebuilt index would miss this log."""
        return log_id in self._ends()

    def ends(self) -> Mapping[int, int]:
        """By file with blocks: where these end, NOT_KNOWN if at the end of the file. DiskFailedError."""
        return dict(self._ends())

    def known_logs(self) -> Collection[int] | None:
        """The files with blocks, None until they were needed. Does not block: for the event loop.

        The worker may change the files in the meantime; the copy is made in one step of the interpreter.
        """
        return None if self._log_ends is None else list(self._log_ends)

    def forget_logs(self, log_ids: Sequence[int]) -> None:
        """Before these entry logs are removed: from now on they are not missed."""
        ends = self._ends()
        for log_id in log_ids:
            ends.pop(log_id, None)
        self._removed.update(log_ids)
        self._put(self._index.generation(), [log_end_record(log_id, REMOVED) for log_id in log_ids])

    def write_anew(self) -> None:
        """After limbo has ended: what is here would bring it back."""
        self.close()
        self._put(self._index.generation(), ())

    def _put(self, generation: int, records: Sequence[Record]) -> None:
        try:
            if self._file is not None and self._offset < self._offset_max:
                self._append(self._file, encode_frame(self._offset, generation, records))
            else:
                self._write_whole(generation)
        except BaseException:
            self.close()  # what follows the last good frame is unknown: the next call writes all of it
            raise

    def _append(self, file: DiskFile, frame: bytes) -> None:
        file.preallocate(self._offset, len(frame))
        self._offset = file.write_at(self._offset, [frame])
        file.sync()

    def _write_whole(self, generation: int) -> None:
        self.close()
        file = self._disk.create(self._paths.states.with_name(self._paths.states.name + ".tmp"))
        try:
            self._write_frames(file, generation)
            file.sync()
            self._disk.rename_durably(file.path, self._paths.states)
        except DiskFullError:
            file.close()
            self._disk.remove(file.path)
            raise
        except BaseException:
            file.close()
            raise
        file.path = self._paths.states
        self._file, self._offset_max = file, 2 * self._offset + _GROWTH_BYTES

    def _write_frames(self, file: DiskFile, generation: int) -> None:
        self._offset = 0
        ends = self._ends()
        # A power cut may undo a removal, and the index go on in that log: then it has an end again, which counts.
        ends = dict.fromkeys(self._still_there(), REMOVED) | ends
        logs = [log_end_record(log_id, offset) for log_id, offset in sorted(ends.items())]
        frames = (
            encode_frame(self._offset, 0, records)
            for records in _pieces((*logs, *self._index.limbo_record()), self._index.state_records())
        )
        self._write(file, encode_file_header())
        for frame in frames:
            self._write(file, frame)
        self._write(file, encode_frame(self._offset, generation, ()))

    def _still_there(self) -> set[int]:
        """Removed files that this file must name until their removal is durable."""
        if self._removed:
            for directory in (self._paths.entry_logs, self._paths.journal):
                self._disk.sync_directory(directory)
            for directory in self._paths.more_log_directories:
                with suppress(
                    DiskFailedError
                ):  # one that has failed gets back what it holds with another disk only
                    self._disk.sync_directory(directory)
            self._removed = {log_id for log_id in self._removed if self._disk.exists(self._file_of(log_id))}
        return self._removed

    def _file_of(self, log_id: int) -> Path:
        return path_of(self._disk, self._paths, log_id)

    def _write(self, file: DiskFile, part: bytes) -> None:
        file.preallocate(self._offset, len(part))
        self._offset = file.write_at(self._offset, [part])

    def _ends(self) -> dict[int, int]:
        if self._log_ends is None:
            path = self._paths.states
            states = decode_log_ends(read_file_around(self._disk, path) if self._disk.exists(path) else b"")
            found, self._removed = states.log_ends, states.removed
            # What an older bookie left, or the file was lost: a log that is missed later must have been known.
            self._log_ends = dict.fromkeys(self._index.log_ids(), NOT_KNOWN) | {
                log_id: _known(end) for log_id, end in found.items()
            }
            if self._end_at_start is not None:
                self._log_ends[self._end_at_start.log_id] = _known(self._end_at_start.offset)
            for log_id, end in self._replayed.items():
                # The index alone may name the file, after a checkpoint that was cut off.
                self._log_ends[log_id] = max(end, found.get(log_id, 0))
        return self._log_ends

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _known(end: int) -> int:
    return NOT_KNOWN if end == LOG_FULL else end


def _pieces(first: Iterable[Record], others: Iterator[Record]) -> Iterator[list[Record]]:
    yield list(first)
    while piece := list(islice(others, _FRAME_RECORDS)):
        yield piece
