"""Flips one bit in each of some blocks of a running bookie's entry logs.

    python -m benchmarks.hour.bit_flips ENTRY_LOGS COUNT LEDGER...

Only blocks of the given ledgers. Prints JSON: ledger, first and last entry of each of these blocks.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path

from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.entry_logs.entry_log import log_ids
from bookie_server.storage.entry_logs.format import file_name
from bookie_server.storage.entry_logs.scan import FoundBlock, scan


@dataclass(frozen=True, slots=True)
class FlippedBlock:
    ledger_id: int
    first: int
    last: int


def flip_bits(
    directory: Path, count: int, ledger_ids: Collection[int], rng: random.Random
) -> list[FlippedBlock]:
    """Damage up to `count` blocks, chosen at random."""
    disk = SystemDisk()
    blocks = [
        (
            found.log_id,
            found.offset,
            found.block.size,
            FlippedBlock(found.block.ledger_id, found.block.first, found.block.last),
        )
        for log_id in log_ids(disk, directory)
        for found in scan(disk, directory, log_id, None)
        if isinstance(found, FoundBlock) and found.block.ledger_id in ledger_ids
    ]
    chosen = rng.sample(blocks, min(count, len(blocks)))
    for log_id, offset, size, _ in chosen:
        _flip(directory / file_name(log_id), offset + rng.randrange(size), rng.randrange(8))
    return [block for *_, block in chosen]


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
