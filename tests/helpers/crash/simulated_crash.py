"""Work on a simulated disk up to the effect at which its machine stops."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from dlog.testing.disk.disk import SimulatedDisk


async def run_until_crash(disk: SimulatedDisk, work: Coroutine[object, object, object]) -> bool:
    """Do the work until the disk stops its machine; False if it ends before."""
    crashed = asyncio.Event()
    disk.on_crash(crashed.set)
    tasks = [asyncio.ensure_future(work), asyncio.ensure_future(crashed.wait())]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    disk.process_crash()
    return crashed.is_set()
