"""What an error of one of several ledger directories has to say while a bookie starts: the bookie can go on without it.

Once it serves, `LogDirectories` goes on by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bookie_server.errors import DiskFailedError
from bookie_server.storage.storage_paths import StoragePaths


@contextmanager
def may_be_lost(paths: StoragePaths, directory: Path) -> Iterator[None]:
    """Around work on the directory, or on that of its entry logs: a DiskFailedError has the way out, if there is one.

    Without the journal or the index there is none.
    """
    try:
        yield
    except DiskFailedError as error:
        lost = next((each for each in paths.more if each in (directory, directory.parent)), None)
        if lost is None:
            raise
        raise DiskFailedError(
            f"{error}; if the disk of ledger directory {lost} is lost, give it up, and go on with the other ones: "
            f"--lost-ledger-dir {lost}",
            path=lost,
            missing=error.missing,
        ) from error
