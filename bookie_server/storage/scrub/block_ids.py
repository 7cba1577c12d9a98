"""The ids in blocks that the index names, kept: after a compaction many small blocks lead to one large one. Blocks.

What the index names is not written over, so what was read once stays true for as long as it names the block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence

from bookie_server.storage.entry_logs.entry_log import EntryLogReader
from bookie_server.storage.index import Interval
from bookie_server.storage.scrub.coverage import Place

_KEPT_MAX = 256 * 1024
"""Ids; with the objects of Python some 10 MiB."""


class BlockIds:
    def __init__(self, logs: EntryLogReader) -> None:
        self._logs = logs
        self._kept: OrderedDict[Place, Sequence[int]] = OrderedDict()
        self._count = 0
        self.bytes_read = 0

    def missing(self, ledger_id: int, interval: Interval, ids: Sequence[int]) -> Sequence[int]:
        """Those of `ids`, ascending, that the interval's block does not have; none if it is damaged.

        StorageError: nothing is known.
        """
        place = interval.log_id, interval.offset
        found = self._kept.get(place)
        if found is None:
            block = self._logs.read_if_intact(ledger_id, interval)
            self.bytes_read += interval.block_bytes
            found = ids if block is None else block.ids
            if block is not None:
                self._keep(place, found)
        return [each for each in ids if not _has(found, each)]

    def _keep(self, place: Place, ids: Sequence[int]) -> None:
        self._kept[place] = ids
        self._count += len(ids)
        while self._count > _KEPT_MAX:
            self._count -= len(self._kept.popitem(last=False)[1])


def _has(ids: Sequence[int], wanted: int) -> bool:
    at = bisect_left(ids, wanted)
    return at < len(ids) and ids[at] == wanted
