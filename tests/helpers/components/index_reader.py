"""A process that opens an index store, which may be damaged, and prints what it holds.

    python -m tests.helpers.components.index_reader DIRECTORY [DESCRIPTORS]

A process of its own, because a library in C++ may end it.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from bookie_server.disk.rocksdb_store import open_key_values
from ledger.errors import LogStoreError
from tests.helpers.components.index_writer import written_batches


def main(directory: str, descriptors: str = "") -> None:
    import rocksdict  # noqa: F401 - with the descriptors that an import needs

    if descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (int(descriptors), int(descriptors)))
    try:
        store = open_key_values(Path(directory))
        print(f"has {written_batches(store)}", flush=True)
        store.close()
    except LogStoreError as error:
        print(f"refused {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
