"""A process that writes numbered batches into an index store, and prints each number when it is written and synced.

    python -m tests.helpers.components.index_writer DIRECTORY FIRST [FILE_BYTES_MAX]

FILE_BYTES_MAX: no file may grow beyond it, as on a full disk.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from pathlib import Path

from bookie_server.disk.rocksdb_store import KeyValues, open_key_values
from ledger.errors import LogStoreError

KEYS = 8
SYNC_EVERY = 5


def batch(number: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys of all over the store, so that a batch that is half there shows."""
    for index in range(KEYS):
        yield b"%08d-%08d" % (index, number), b"%d:" % number + bytes([number % 256]) * (number % 3000)


def written_batches(store: KeyValues) -> int:
    """How many there are: the first ones, each whole, with its bytes."""
    found = dict(store.scan(b"", b"\xff"))
    count, rest = divmod(len(found), KEYS)
    assert rest == 0, f"a batch is half there: {len(found)} records"
    for number in range(count):
        for key, value in batch(number):
            assert found.get(key) == value, f"batch {number} is missing or wrong at {key!r}"
    return count


def main(directory: str, first: str, file_bytes_max: str = "") -> None:
    store = open_key_values(Path(directory))
    print(f"has {written_batches(store)}", flush=True)
    if file_bytes_max:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(file_bytes_max), hard))
    number = int(first)
    try:
        while True:
            store.write(batch(number))
            number += 1
            if number % SYNC_EVERY == 0:
                store.sync()
                print(f"synced {number}", flush=True)
    except LogStoreError as error:
        print(f"failed {number} {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
