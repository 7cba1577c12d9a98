"""Where `dlog export` writes: stdout, or a file that gets its name once it is whole.

Invariant: under the name of the file there is nothing that is half written, whenever the export or the machine stops.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ledger.errors import ConfigurationError
from ledger.printing import require_stdout

STDOUT = "-"


def check_destination(file: str, force: bool) -> None:
    """Refuse what `Output.opened` would refuse, before anything is read.

    Raises:
        ConfigurationError: the file exists, and `force` is not set; it is a directory or a device; its directory does
            not exist; its symbolic links lead in a circle; its name is too long.
        OSError: it is stdout, and that is closed.
    """
    if file == STDOUT:
        require_stdout()
        return
    if not file:
        raise ConfigurationError("FILE is empty: pass the name of a file, or - for stdout")
    path = Path(file)
    _resolved(file)
    try:
        exists, is_file, has_directory = path.exists(), path.is_file(), path.parent.is_dir()
    except OSError as error:
        raise _cannot_be_written(file, error) from error
    if exists and not is_file:
        raise ConfigurationError(f"{file} is not a regular file: pass another name, or - for stdout")
    if exists and not force:
        raise _exists(file)
    if not has_directory:
        raise ConfigurationError(f"cannot write {file}: there is no directory {path.parent}; make it first")


class Output:
    """Stdout for `-`; else a new file next to `file`, which takes its place if the block of `opened` succeeds."""

    def __init__(self, file: str, force: bool) -> None:
        self._file = file
        self._force = force
        self._path = Path(file)
        self._written: os.stat_result | None = None
        """Of the file that was written in full."""

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """On success the content is on the disk, under its name.

        A file has the permissions of the one that it replaces, or those that the umask gives a new one. After a
        failure it is removed, unless it `is_in_place`; of a process that was killed, `FILE.XXX.partial` remains.

        Raises:
            ConfigurationError: it cannot be created, its directory cannot be opened, or `file` was created in the
                meantime and `force` is not set.
        """
        file = self._file
        if file == STDOUT:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        path = self._path = _resolved(file)  # what a symbolic link leads to is replaced, not the link
        partial = path.with_name(f"{path.name}.{secrets.token_hex(6)}.partial")
        # Opened first: when the file has its name it is too late for a refusal.
        with _opened_directory(path.parent, file) as directory:
            try:
                with _created(partial, file) as output:
                    with suppress(FileNotFoundError):
                        os.fchmod(output.fileno(), stat.S_IMODE(path.stat().st_mode))
                    yield output
                    output.flush()
                    os.fsync(output.fileno())
                    self._written = os.fstat(output.fileno())
                _name(partial, path, file, self._force)
            finally:
                with suppress(OSError):  # the reason is being raised, or it was renamed
                    partial.unlink()
            os.fsync(directory)

    @property
    def is_in_place(self) -> bool:
        """Whether `file` is what was written in full. A signal may come as it gets its name, so the disk is asked."""
        if self._written is None:
            return False
        try:
            return os.path.samestat(self._path.stat(), self._written)
        except OSError:
            return False


def _resolved(file: str) -> Path:
    try:
        return Path(file).resolve()
    except (OSError, RuntimeError) as error:  # a RuntimeError before Python 3.13
        raise ConfigurationError(
            f"cannot write {file}: its symbolic links lead in a circle; pass another name"
        ) from error


def _created(partial: Path, file: str) -> BinaryIO:
    try:
        return partial.open("xb")
    except OSError as error:
        raise _cannot_be_written(file, error) from error


def _name(partial: Path, path: Path, file: str, force: bool) -> None:
    if not force:
        try:
            path.hardlink_to(partial)  # unlike a rename it never replaces a file
            return
        except FileExistsError:
            raise _exists(file) from None
        except OSError:  # a file system without hard links
            if path.exists():
                raise _exists(file) from None
    partial.replace(path)


@contextmanager
def _opened_directory(directory: Path, file: str) -> Iterator[int]:
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {file}: its directory cannot be opened to sync it: {error.strerror}; use another directory"
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _cannot_be_written(file: str, error: OSError) -> ConfigurationError:
    return ConfigurationError(f"cannot write {file}: {error.strerror}; pass another name")


def _exists(file: str) -> ConfigurationError:
    return ConfigurationError(f"{file} exists: pass another name, or --force to replace it")
