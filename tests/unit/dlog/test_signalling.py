"""A child's exit status is its own, whenever a signal comes."""

from __future__ import annotations

import asyncio
from signal import SIGCONT, SIGKILL

from dlog.local.signalling import send_signal


def test_a_signal_to_a_process_that_is_dying_does_not_take_its_status() -> None:
    """On asyncio's own loop, whose watcher is a thread that waits for the process."""

    async def scene() -> None:
        for _ in range(30):
            process = await asyncio.create_subprocess_exec("sleep", "60")
            for number in (SIGKILL, *[SIGCONT] * 20):
                send_signal(process, number)
            assert await process.wait() == -SIGKILL
            send_signal(process, SIGKILL)

    asyncio.run(scene())
