"""The ledger directories as places for new entry logs: which of them to take, and which have failed.

The first one has the index too, so a failure of it ends the storage. Another one that fails is not written to again by
this process: what was to go there goes to another one, from its beginning, since after a failed sync nothing is known
of what a file holds. Reads of its files are tried still; a disk often fails for writes alone, and what cannot be read
is damage, never absence. Used by workers; the loop reads what they note.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from bookie_server.disk.disk import Disk
from bookie_server.disk.disk_limits import DirectoryUsage
from bookie_server.errors import DiskFailedError, LedgerDirectoryFailedError
from bookie_server.storage.storage_paths import StoragePaths

logger = logging.getLogger(__name__)


class LogDirectories:
    """Of one bookie, by their directories of entry logs."""

    def __init__(self, disk: Disk, paths: StoragePaths, log_bytes_max: int, usage_writable: float) -> None:
        """A directory of which a larger part than `usage_writable` is used is taken only if all of them are."""
        self._disk = disk
        self._all = paths.log_directories
        self._log_bytes_max = log_bytes_max
        self._usage_writable = usage_writable
        self._failed: dict[Path, DiskFailedError] = {}
        self._turn = 0
        """Where in `_all` the search for a directory begins: with equal space each gets a log in its turn."""

    @property
    def failed(self) -> Mapping[Path, DiskFailedError]:
        """By ledger directory, what this process noticed first."""
        failed = self._failed.copy()  # in one step: another worker may note one now
        return {directory.parent: error for directory, error in failed.items()}

    def has_failed(self, directory: Path) -> bool:
        return directory in self._failed

    def require_working(self, directory: Path) -> None:
        """Before more is written to files that were opened earlier. LedgerDirectoryFailedError if it has failed."""
        if (error := self._failed.get(directory)) is not None:
            raise _failure(directory, error)

    def usages(self) -> list[DirectoryUsage]:
        """Of the ledger directories that have not failed. DiskFailedError: the first one fails now."""
        return [usage for _, usage in self._measured(sorted(self._working(), key=self._all.index))]

    def for_new_log(self, full: Collection[Path] = ()) -> Path:
        """The one with most free space, and none of those that have proved `full` unless all have.

        DiskFailedError: the first one fails now.
        """
        working = self._working()
        left = [each for each in working if each not in full] or working
        measured = self._measured(left) if len(left) > 1 else []
        if len(left) > 1 and not measured:
            return self.for_new_log(full)  # all of them fail now, so others are left
        chosen = max(measured, key=self._worth)[0] if measured else left[0]
        self._turn = self._all.index(chosen) + 1
        return chosen

    def has_other_than(self, full: Collection[Path]) -> bool:
        """Whether an entry log may go to another directory than these."""
        return any(each not in full for each in self._working())

    def _worth(self, measured: tuple[Path, DirectoryUsage]) -> tuple[bool, int, int]:
        """Space for the same number of entry logs counts as equal, as long as it is for one at least."""
        _, usage = measured
        free_logs = usage.free_bytes // self._log_bytes_max
        return usage.used_part < self._usage_writable, free_logs, 0 if free_logs else usage.free_bytes

    def _working(self) -> list[Path]:
        in_turn = (*self._all[self._turn :], *self._all[: self._turn])
        return [each for each in in_turn if each not in self._failed]

    def _measured(self, directories: Iterable[Path]) -> list[tuple[Path, DirectoryUsage]]:
        found: list[tuple[Path, DirectoryUsage]] = []
        for each in directories:
            with suppress(LedgerDirectoryFailedError), self.may_fail(each):
                usage = DirectoryUsage.measure(self._disk, each)
                found.append((each, replace(usage, directory=each.parent)))
        return found

    @contextmanager
    def may_fail(self, directory: Path) -> Iterator[None]:
        """Around writes to files in the directory.

        LedgerDirectoryFailedError if it has failed and others can take its place, else DiskFailedError.
        """
        try:
            yield
        except DiskFailedError as error:
            if directory == self._all[0]:
                raise
            self._note(directory, error)
            raise _failure(directory, error) from error

    def _note(self, directory: Path, error: DiskFailedError) -> None:
        if self._failed.setdefault(directory, error) is error:
            logger.warning(
                "ledger directory %s has failed, and no more is written to it: %s; what it holds is read as far as it "
                "can be, and the rest is left to other bookies: docs/operations.md#a-ledger-directory-that-fails",
                directory.parent,
                error,
            )


def _failure(directory: Path, error: DiskFailedError) -> LedgerDirectoryFailedError:
    return LedgerDirectoryFailedError(
        f"ledger directory {directory.parent} has failed: {error}",
        directory=directory.parent,
        path=error.path,
    )
