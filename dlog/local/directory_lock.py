"""One cluster per directory: a lock that its bookies inherit.

Invariant: the lock is free only when the process that took it and every bookie that it started have ended, because the
bookies inherit it. So a cluster whose process was killed is not started a second time while its own bookies still
drain. Processes that the program forks do not inherit it.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from dlog.errors import StandaloneError
from ledger.digits import whole_number

_RETRY_S = 0.1
_PROCESS_ID_MAX = 2**31 - 1

_open_files: set[IO[str]] = set()
"""Of all locks of this process, held or waited for."""


class _StillHeldError(StandaloneError):
    """The process that started the bookies has ended, but the bookies have not yet."""


class DirectoryLock:
    """The file `lock` in the directory. It names the process that took it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: IO[str] | None = None

    async def take(self, patience_s: float) -> None:
        """Take the lock; if its holder has died, wait up to `patience_s` seconds for its bookies to end.

        Raises:
            StandaloneError: the holder lives, or its bookies have not ended in time.
        """
        file = self._open()
        _open_files.add(file)
        bookies_drain = AsyncRetrying(
            retry=retry_if_exception_type(_StillHeldError),
            wait=wait_fixed(_RETRY_S),
            stop=stop_after_delay(patience_s),
            reraise=True,
        )
        try:
            async for attempt in bookies_drain:
                with attempt:
                    self._lock(file)
        except BaseException:
            _close(file)
            raise
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file = file

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._file is not None:
            _close(self._file)
            self._file = None

    @property
    def descriptor(self) -> int:
        """The file descriptor that bookies inherit."""
        assert self._file is not None, "bookies are started while the lock is held"
        return self._file.fileno()

    def _open(self) -> IO[str]:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            return (self._directory / "lock").open("a+")
        except OSError as error:
            raise StandaloneError(
                f"cannot use directory {self._directory}: {error.strerror}; choose another one",
                directory=self._directory,
            ) from error

    def _lock(self, file: IO[str]) -> None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(file)
            raise self._in_use(StandaloneError if _alive(holder) else _StillHeldError, holder) from None

    def _in_use(self, kind: type[StandaloneError], holder: int) -> StandaloneError:
        return kind(
            f"a cluster is already running in {self._directory} (process {holder}): connect to it, "
            "or choose another directory",
            directory=self._directory,
            process_id=holder,
        )


def _close(file: IO[str]) -> None:
    _open_files.discard(file)
    file.close()


def _forget_in_child() -> None:
    """A worker of multiprocessing may live for longer than the cluster, and would hold the lock for as long."""
    for file in _open_files:
        file.close()
    _open_files.clear()


os.register_at_fork(after_in_child=_forget_in_child)


def _holder(file: IO[str]) -> int:
    """Process id in the lock file; 0 while it is being written."""
    file.seek(0)
    return whole_number(file.read().strip(), _PROCESS_ID_MAX) or 0


def _alive(process_id: int) -> bool:
    if not process_id:
        return False
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
