"""Session files: alive exactly while the lock is held."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from pathlib import Path

import pytest

from ledger.metadata.drivers import open_store
from ledger.metadata.sqlite import sessions
from ledger.metadata.sqlite.sessions import begin, is_alive, sweep
from ledger.model import BookieId, BookieInfo

A, B = "1-00000000000000aa", "2-00000000000000bb"


def test_a_session_lives_until_it_is_closed(tmp_path: Path) -> None:
    session = begin(str(tmp_path), A)
    assert session is not None and is_alive(str(tmp_path), A)
    session.close()
    session.close()
    assert not is_alive(str(tmp_path), A)
    assert list(tmp_path.iterdir()) == []


def test_a_session_whose_file_cannot_be_removed_ends(tmp_path: Path) -> None:
    """As on a file system that was made read-only after an error: it held its lock until the process ended."""
    directory = tmp_path / "sessions"
    session = begin(str(directory), A)
    assert session is not None
    directory.rename(tmp_path / "moved")
    directory.touch()  # the name leads nowhere, by another error than that it is missing
    session.close()
    assert not is_alive(str(tmp_path / "moved"), A)


def test_names_that_are_no_sessions_are_dead(tmp_path: Path) -> None:
    """Also names that lead elsewhere: they come out of the database and are not trusted."""
    for name in ("", "x", "../" + A, A + "\n", A + "/.."):
        assert not is_alive(str(tmp_path), name)
    assert not is_alive(str(tmp_path / "none"), A)


def test_two_callers_do_not_take_each_other_for_the_owner(tmp_path: Path) -> None:
    path = tmp_path / A
    path.touch()
    asker = os.open(path, os.O_RDONLY)
    fcntl.flock(asker, fcntl.LOCK_SH)
    assert not is_alive(str(tmp_path), A)
    os.close(asker)


def test_sweeping_spares_the_living_and_strange_files(tmp_path: Path) -> None:
    session = begin(str(tmp_path), A)
    assert session is not None
    (tmp_path / B).touch()
    (tmp_path / "note.txt").touch()
    sweep(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == [A, "note.txt"]
    session.close()


def test_a_file_swept_before_it_was_locked_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweeper came between create and lock: the name leads nowhere, so another one is taken."""
    real_open = os.open

    def open_and_sweep(path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = real_open(path, flags, mode)
        Path(path).unlink()
        return descriptor

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_and_sweep)
        assert begin(str(tmp_path), A) is None
    session = begin(str(tmp_path), B)
    assert session is not None
    session.close()


def test_a_file_that_is_swept_while_it_is_locked_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweeper has found the new file without a lock, and removes it after its owner has locked it."""
    found_dead, locked = threading.Event(), threading.Event()
    sweeper = threading.Thread(target=sweep, args=(str(tmp_path),))
    real_open, real_unlink = os.open, Path.unlink

    def open_and_let_sweep(path: str, flags: int, mode: int = 0o777) -> int:
        descriptor = real_open(path, flags, mode)
        if flags & os.O_CREAT:
            sweeper.start()
            assert found_dead.wait(30)
        return descriptor

    def unlink_after_the_lock(path: Path, missing_ok: bool = False) -> None:
        found_dead.set()
        assert locked.wait(30)
        real_unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", open_and_let_sweep)
        patch.setattr(Path, "unlink", unlink_after_the_lock)
        session = begin(str(tmp_path), A)
        locked.set()
        sweeper.join()
    assert session is None or is_alive(str(tmp_path), A), "alive, and dead to all others"
    again = begin(str(tmp_path), B)
    assert again is not None and is_alive(str(tmp_path), B)
    again.close()


@pytest.mark.parametrize("steps", range(1, 6))
def test_a_session_that_begins_for_a_cancelled_caller_ends_with_its_handle(
    tmp_path: Path, steps: int
) -> None:
    """It held a descriptor and a file until the process ended."""

    async def run() -> None:
        store = await open_store(f"sqlite:///{tmp_path}/meta.db")
        await store.init_cluster()
        info = BookieInfo(bookie_id=BookieId("h:1"), host="h", port=1)
        for _ in range(10):
            handle = await open_store(f"sqlite:///{tmp_path}/meta.db")
            registering = asyncio.ensure_future(handle.register_bookie(info))
            for _ in range(steps):
                await asyncio.sleep(0)
            registering.cancel()
            await asyncio.gather(registering, return_exceptions=True)
            await handle.close()
        await store.close()  # the last handle, so the thread has done what it was asked for

    before = len(sessions._held)
    asyncio.run(run())
    assert len(sessions._held) == before
    assert list(tmp_path.glob("meta.db.sessions/*")) == []
