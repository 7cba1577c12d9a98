"""Which files one run of a compaction copies. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bookie_server.storage.compaction.space import FileSpace
from bookie_server.storage.entry_logs.format import FILE_HEADER_BYTES
from bookie_server.storage.segments.places import is_segment


@dataclass(frozen=True, slots=True)
class Selection:
    files: Sequence[FileSpace]
    unfit: FileSpace | None = None
    """If no file is chosen although some have enough garbage: the one that takes least, and does not fit."""


def select(
    files: Sequence[FileSpace],
    threshold: float,
    bytes_max: int,
    free_bytes: int,
    *,
    empty_journal: bool = False,
) -> Selection:
    """Files whose live part is below the threshold, those with the least live bytes first.

    What lives in them is copied before they are removed: it takes at most `free_bytes`, and at most `bytes_max` unless
    it is of one file. With `empty_journal` journal files are chosen whatever their live part is.
    """
    candidates = sorted(
        (
            each
            for each in files
            if (each.live_part < threshold and each.dead_bytes > FILE_HEADER_BYTES)
            or (empty_journal and is_segment(each.log_id))
        ),
        key=lambda each: (each.live_bytes, each.file_bytes),
    )
    chosen: list[FileSpace] = []
    copied = 0
    for each in candidates:
        copied += each.live_bytes
        if copied > free_bytes or (chosen and copied > bytes_max):
            break
        chosen.append(each)
    return Selection(chosen, candidates[0] if candidates and not chosen else None)
