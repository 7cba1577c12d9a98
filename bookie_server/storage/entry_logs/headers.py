"""The headers of an entry log, one after the other: what its blocks hold, without reading their entries. Blocks.

A header is believed as far as it goes: what a damaged one says is harmless, because its block is not intact and proves
nothing, and where it leads shows in the next one.
"""

from __future__ import annotations

from bookie_server.disk.disk import ReadableFile
from bookie_server.storage.entry_logs.format import (
    BLOCK_HEADER_BYTES,
    BLOCK_MAGIC,
    FILE_HEADER_BYTES,
    Block,
    BlockHeader,
    block_header,
    require_known_version,
)
from bookie_server.storage.entry_logs.scan import block_at, next_block, read_some


class EntryLogHeaders:
    """Of one entry log, up to `end`."""

    def __init__(self, file: ReadableFile, log_id: int, end: int) -> None:
        """IndexVersionError if a newer version wrote the file.

        A file header that is damaged harms no block: the checksum of each covers the id of the log.
        """
        require_known_version(read_some(file, 0, FILE_HEADER_BYTES), file.path)
        self.begin = FILE_HEADER_BYTES
        self.end = end
        self._file = file
        self._log_id = log_id

    def at(self, offset: int) -> BlockHeader | None:
        """What begins there; None if that cannot be a block."""
        header = block_header(read_some(self._file, offset, BLOCK_HEADER_BYTES))
        return None if header is None or offset + header.size > self.end else header

    def block_at(self, offset: int) -> Block | None:
        """The block that begins there, if it proves intact."""
        return block_at(self._file, self._log_id, offset, self.end)

    def next_block(self, offset: int, stop: int) -> int:
        """Where the next intact block begins; `stop` or later if none begins before `stop`."""
        return next_block(self._file, BLOCK_MAGIC, self.block_at, offset, stop, self.end)
