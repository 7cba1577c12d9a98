"""Flips one bit in each of some blocks of a running bookie, in entry logs and in journal files that no start replays.

    python -m benchmarks.hour.bit_flips BOOKIE COUNT LEDGER...

BOOKIE is its directory. Only blocks of the given ledgers. Prints JSON: ledger, first and last entry of each of these
blocks.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.journal.files import file_ids
from bookie_server.journal.log_mark import decode_log_mark
from bookie_server.journal.record import file_name as journal_file_name
from bookie_server.storage.entry_logs.scan import FoundBlock, scan
from bookie_server.storage.segments.log_files import log_ids, path_of
from bookie_server.storage.segments.places import segment_id
from bookie_server.storage.segments.scan import scan_segment
from bookie_server.storage.storage_paths import StoragePaths


@dataclass(frozen=True, slots=True)
class FlippedBlock:
    ledger_id: int
    first: int
    last: int


def flip_bits(
    bookie: Path, count: int, ledger_ids: Collection[int], rng: random.Random
) -> list[FlippedBlock]:
    """Damage up to `count` blocks, chosen at random."""
    blocks = [
        (path, found)
        for path, found in _blocks(StoragePaths(bookie / "journal", bookie / "ledgers"))
        if found.block.ledger_id in ledger_ids
    ]
    chosen = rng.sample(blocks, min(count, len(blocks)))
    for path, found in chosen:
        _flip(path, found.offset + rng.randrange(found.block.size), rng.randrange(8))
    return [FlippedBlock(found.block.ledger_id, found.block.first, found.block.last) for _, found in chosen]


def _blocks(paths: StoragePaths) -> Iterator[tuple[Path, FoundBlock]]:
    disk = SystemDisk()
    mark = decode_log_mark(disk.read_file(paths.mark), paths.mark)
    for log_id in log_ids(disk, paths):
        path = path_of(disk, paths, log_id)
        for found in scan(disk, path, log_id, None):
            if isinstance(found, FoundBlock):
                yield path, found
    for file_id in file_ids(disk, paths.journal):
        path = paths.journal / journal_file_name(file_id)
        if file_id < mark.file_id:
            for found in scan_segment(disk, path, segment_id(file_id), None):
                if isinstance(found, FoundBlock):
                    yield path, found


def _flip(path: Path, offset: int, bit: int) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        [byte] = os.pread(descriptor, 1, offset)
        os.pwrite(descriptor, bytes([byte ^ 1 << bit]), offset)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def main() -> None:
    directory, count, *ledger_ids = sys.argv[1:]
    found = flip_bits(Path(directory), int(count), set(map(int, ledger_ids)), random.Random(40))
    print(json.dumps([asdict(each) for each in found]))


if __name__ == "__main__":
    main()
