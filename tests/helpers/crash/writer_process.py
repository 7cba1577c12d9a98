"""A process that adds entries and prints what was acknowledged, until it is killed. See test_kill.py."""

import asyncio
import sys
from pathlib import Path

from tests.helpers.bookie.storage import KEY, add_run, fence, open_storage, run_of

RUN = 50


async def main(directory: Path) -> None:
    storage = await open_storage(directory)
    state = storage.ledger(1) or storage.create_ledger(1, KEY)
    other = storage.ledger(2) or storage.create_ledger(2, KEY)
    await fence(storage, other)
    print("fenced 2", flush=True)
    first = state.last_entry + 1
    while True:
        end = first + RUN

        def on_durable(error: Exception | None, end: int = end) -> None:
            assert error is None
            print(f"acked {end}", flush=True)

        add_run(storage, state, run_of(1, range(first, end)), on_durable)
        first = end
        await storage.wait_for_room()
        await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
