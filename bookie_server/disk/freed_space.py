"""Gives the space of removed files back in small steps, in a thread.

A file system frees a file with the last name or descriptor of it, and the syncs of other files wait for that: some 9 ms
with a file of 32 MiB on ext4, and half a millisecond with one of these steps.

Each file that waits for it takes a descriptor, and a bookie removes files faster than their space comes back.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from queue import SimpleQueue

STEP_BYTES = 1024 * 1024
PAUSE_S = 0.002
"""Between two steps: with it space comes back at some 400 MB/s, faster than bookies fill it."""
WAITING_MAX = 32
"""Files that may wait; one more is freed all at one time, without a descriptor."""


class FreedSpace:
    def __init__(self) -> None:
        self._descriptors: SimpleQueue[int] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Files."""
        return self._descriptors.qsize()

    def add(self, descriptor: int) -> None:
        """Free the file, unless it has another name still, and close it, soon after this call. From any thread."""
        self._descriptors.put(descriptor)
        with self._lock:
            if self._thread is None:
                # A daemon: what it has not freed when the process ends, the system frees.
                self._thread = threading.Thread(target=self._run, name="freed-space", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            descriptor = self._descriptors.get()
            with suppress(OSError):  # closing it frees the rest
                _shrink(descriptor)
            with suppress(OSError):  # of earlier writes, on a network file system: the file is removed anyway
                os.close(descriptor)


def _shrink(descriptor: int) -> None:
    status = os.fstat(descriptor)
    if status.st_nlink:
        return  # a copy by hard links, such as a backup, has the same bytes
    size = status.st_size
    while size > 0:
        size = max(0, size - STEP_BYTES)
        os.ftruncate(descriptor, size)
        time.sleep(PAUSE_S)
