"""Sessions: a process is alive exactly while it holds the lock on its own file in `<db>.sessions/`.

The kernel drops the lock with the process, so a kill -9 is seen at once and nothing is written to stay alive.
Invariant: the lock is an exclusive flock taken before any row names the file; who asks takes a shared one, so that
two who ask at once do not take each other for the owner. A name without a file, or with a free lock, is dead
for ever: names are never used twice.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from pathlib import Path

_NAME = re.compile(r"[0-9]+-[0-9a-f]{16}")
_held: set[int] = set()
"""Descriptors of our locks. A forked child closes its copies, or the locks would outlive their owner."""


class Session:
    """This process's lock on `directory/name`; `close` ends the session."""

    def __init__(self, directory: str, name: str, descriptor: int) -> None:
        self.name = name
        self._path = Path(directory) / name
        self._descriptor = descriptor
        _held.add(descriptor)

    def close(self) -> None:
        if self._descriptor in _held:
            _held.remove(self._descriptor)
            with contextlib.suppress(OSError):  # then a sweeper removes it: without its lock it is dead
                self._path.unlink()
            os.close(self._descriptor)


def begin(directory: str, name: str) -> Session | None:
    """A new session, or None when a sweeper was faster than our lock: take another name and begin again."""
    Path(directory).mkdir(mode=0o700, exist_ok=True)
    sweep(directory)
    descriptor = os.open(f"{directory}/{name}", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    if not _lock(descriptor, fcntl.LOCK_EX) or os.fstat(descriptor).st_nlink == 0:
        os.close(descriptor)
        return None
    return Session(directory, name, descriptor)


def is_alive(directory: str, name: str) -> bool:
    """Whether some process holds the session's lock. What cannot be looked at counts as alive."""
    if not _NAME.fullmatch(name):
        return False
    try:
        descriptor = os.open(f"{directory}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return not _lock(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def sweep(directory: str) -> None:
    """Remove the files that dead processes left."""
    for path in Path(directory).iterdir():
        if _NAME.fullmatch(path.name):
            _remove_dead(path)


def _remove_dead(path: Path) -> None:
    """Invariant: the lock is held while the file is removed. An owner that has made it and not locked it yet would
    lock it in between, and live under a name that all others take for dead.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if _lock(descriptor, fcntl.LOCK_SH):
            path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _forget_in_child() -> None:
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_forget_in_child)
