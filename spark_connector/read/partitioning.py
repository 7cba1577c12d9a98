"""From ranges of logs to partitions that know how many messages they have. Reads entries; changes nothing.

Which are counted, how, and why not always all of them: docs/decisions/0009-spark-counts-from-two-entries.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dlog.together import each
from spark_connector.extents.extent_reader import ExtentReader, is_small
from spark_connector.extents.partitions import Extent, Partition, packed, partition_size, pieces
from spark_connector.options.read_options import ReadOptions

COUNT_BYTES_MAX = 64 * 1024 * 1024
"""Much less than a second of reading on the driver."""
COUNT_PIECES_MAX = 1000
"""About a second of requests."""


async def partitioned(
    extents: Sequence[Extent], options: ReadOptions, reader: ExtentReader, *, count: bool
) -> list[Partition]:
    """The partitions of these ranges, in their order.

    `count`: whether pieces are counted that are not counted yet, as far as that is cheap. With `maxRecordsPerPartition`
    all of them are.
    """
    size = partition_size(
        extents, partition_bytes=options.partition_bytes, partitions_min=options.partitions_min
    )
    found = pieces(extents, size)
    most = options.partition_rows_max
    if most is not None:
        found = await _limited(found, most, reader)
    elif count:
        found = await _counted(found, reader)
    return list(packed(found, size, most))


async def _limited(found: Sequence[Extent], most: int, reader: ExtentReader) -> list[Extent]:
    async def parts(piece: Extent) -> list[Extent]:
        messages = piece.messages
        if messages is None:
            messages = await reader.count(piece)
        if not messages:
            return []
        counted = replace(piece, messages=messages)
        return [counted] if messages <= most else await reader.split(counted, most)

    return [part for of_piece in await each(found, parts) for part in of_piece]


async def _counted(found: list[Extent], reader: ExtentReader) -> list[Extent]:
    """The same, counted unless that needs too much reading."""
    missing = [piece for piece in found if piece.messages is None]
    if len(missing) > COUNT_PIECES_MAX or sum(map(_bytes_to_count, missing)) > COUNT_BYTES_MAX:
        return found
    counts = iter(await each(missing, reader.quick_count))
    return [piece if piece.messages is not None else replace(piece, messages=next(counts)) for piece in found]


def _bytes_to_count(piece: Extent) -> int:
    return piece.byte_count if is_small(piece) else 2 * piece.byte_count // piece.entries
