"""How tests end the processes that they start."""

import os
import signal
import time
from pathlib import Path

from tests.helpers.processes.cluster import forked_cluster


def _no_longer_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_a_forked_process_can_be_stopped_before_the_loop_has_heard_of_its_end(tmp_path: Path) -> None:
    async with forked_cluster(tmp_path, bookies=1) as cluster:
        bookie = cluster.bookies[0]
        bookie.kill()
        limit = time.monotonic() + 30
        # Without a turn of the loop.
        while not _no_longer_exists(bookie.pid):
            assert time.monotonic() < limit
            time.sleep(0.001)  # noqa: ASYNC251
        assert await bookie.stop() == -signal.SIGKILL
