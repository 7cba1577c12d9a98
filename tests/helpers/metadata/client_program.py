"""Child processes of the tests: `python -m tests.helpers.metadata.client_program WHAT URI ARGUMENT…`."""

from __future__ import annotations

import asyncio
import os
import sys

from ledger.errors import MetadataVersionError
from ledger.metadata.drivers import open_store
from ledger.model import BookieId
from tests.helpers.metadata.drivers import B1, bookie


async def register(uri: str, bookie_id: str = B1) -> None:
    """Register a bookie, say so, and stay."""
    store = await open_store(uri)
    await store.register_bookie(bookie(BookieId(bookie_id)))
    print("registered", flush=True)
    await asyncio.Event().wait()


async def compete(uri: str, name: str, count: str) -> None:
    """Win `count` compare-and-sets on one record; print each version won."""
    store = await open_store(uri)
    won = 0
    while won < int(count):
        found = await store.read_record("/race")
        try:
            version = await store.write_record("/race", found.value + b"\n" + name.encode(), found.version)
        except MetadataVersionError:
            continue
        print(version, flush=True)
        won += 1
    await store.close()


async def draw(uri: str, count: str) -> None:
    """Draw ledger ids."""
    store = await open_store(uri)
    for _ in range(int(count)):
        print(await store.new_ledger_id(), flush=True)
    await store.close()


async def fork_and_use(uri: str) -> None:
    """Use and close the handle in a forked child, which prints what it gets."""
    store = await open_store(uri)
    if os.fork() == 0:
        for call in (store.bookies, store.close):
            try:
                call().send(None)
            except Exception as error:  # noqa: BLE001 - the test compares its type
                print(type(error).__name__, error, flush=True)
        os._exit(0)
    os.wait()  # noqa: ASYNC222 -- nothing else runs here


async def register_and_fork(uri: str) -> None:
    """Register, and fork a child that outlives this process until standard input ends."""
    store = await open_store(uri)
    await store.register_bookie(bookie(B1))
    if os.fork() == 0:
        print("forked", flush=True)  # by the child: only then has it let go of what it must not keep
        os.close(1)
        sys.stdin.read()
        os._exit(0)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
