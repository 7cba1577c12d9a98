"""A child's exit status is its own, whenever a signal comes; a paused process has stopped."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from signal import SIGCONT, SIGKILL

import pytest

from dlog.local.signalling import pause_process, send_signal

THREADS = """
import threading, time
for _ in range(4):
    threading.Thread(target=lambda: [time.sleep(0.0001) for _ in iter(int, 1)], daemon=True).start()
print(flush=True)
input()
"""


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


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not show what a process's threads do")
def test_a_paused_process_runs_no_thread() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            for _ in range(200):
                pause_process(process.pid)
                stats = [stat.read_text() for stat in Path(f"/proc/{process.pid}/task").glob("*/stat")]
                assert [stat.rpartition(")")[2].split()[0] for stat in stats] == ["T"] * 5
                process.send_signal(SIGCONT)
        finally:
            process.kill()
    with pytest.raises(ProcessLookupError):
        pause_process(process.pid)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not show what a process's threads do")
def test_a_pause_that_another_process_undoes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlog.local.signalling._STOPS_S", 0.05)
    monkeypatch.setattr("dlog.local.signalling._is_at_rest", lambda stat: False)
    with subprocess.Popen(["sleep", "60"]) as process:
        with pytest.raises(TimeoutError, match=f"process {process.pid} has not stopped"):
            pause_process(process.pid)
        process.kill()
