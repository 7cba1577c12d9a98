"""A cluster on this machine: real bookie processes, supervised, with all data in one directory.

    with dlog.standalone("data", bookies=3) as cluster, dlog.connect(cluster.uri) as client: ...

    data/meta.db         metadata of the cluster, unless an address for it is given
    data/bookie-1/ …     data of each bookie, with its port
    data/log/            log output of each bookie
    data/lock            held while a cluster runs here; names its process

The directory's data is used again by the next start. Bookies end with the process that started them, however that
ends. With metadata elsewhere (ZooKeeper, for example) the bookies join the cluster there, which is created if missing.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from dlog.blocking.loop_thread import LoopThread
from dlog.blocking.not_copied import NotCopied
from dlog.errors import StandaloneError
from dlog.local.directory_lock import DirectoryLock
from dlog.local.supervisor import ANY_PORT, STOP_TIMEOUT_S, BookieFacts, BookieSupervisor, Report
from ledger.arguments import require_type
from ledger.errors import AlreadyExistsError, ConfigurationError, LogStoreError
from ledger.extras import require
from ledger.metadata.drivers import open_store
from ledger.metadata.uri import is_utf8, parse_uri

_BOOKIE_DIRECTORY = re.compile(r"bookie-([1-9]\d*)")
_BOOKIES_MAX = 64


def _ignore(event: str) -> None:
    """Events are also in the log files."""


class AsyncStandalone:
    """The cluster for asyncio: `async with dlog.aio.standalone("data") as cluster`.

    Raises:
        ConfigurationError: `bookies` is not 1 to 64, or the directory or the metadata address cannot be used.
        MissingExtraError: the `server` extra is not installed.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        bookies: int = 3,
        *,
        metadata: str | None = None,
        report: Report | None = None,
        restart: bool = True,
        options: Callable[[int], Sequence[str]] = lambda number: ANY_PORT,
    ) -> None:
        """`directory` holds all data and is created if missing. `bookies`: how many to run, plus those with data here.

        `metadata`: address of another store than the directory's own. `report` is called with a sentence for each
        event. `restart`: restart bookies that die. `options`: arguments of `bookie start` for the bookie of a number,
        from 1.
        """
        require("a cluster of bookie processes", "server", "rocksdict", "typer")
        require_type("directory", directory, str, os.PathLike)
        if directory == "":
            raise ConfigurationError(
                "directory must not be empty: pass its path, or '.' for the working directory"
            )
        require_type("bookies", bookies, int)
        require_type("metadata", metadata, str, type(None))
        require_type("restart", restart, bool)
        if report is not None and not callable(report):
            raise ConfigurationError(f"report must be a function or None, got {report!r:.80}")
        if not 1 <= bookies <= _BOOKIES_MAX:
            raise ConfigurationError(f"bookies must be 1 to {_BOOKIES_MAX}, got {bookies}")
        try:
            self._directory = Path(directory).resolve()
        except (OSError, RuntimeError) as error:  # a RuntimeError before Python 3.13
            raise ConfigurationError(
                f"directory {os.fspath(directory)!r} cannot be used: its symbolic links lead in a circle"
            ) from error
        except ValueError as error:  # a NUL byte, or half of a surrogate pair
            raise ConfigurationError(f"directory {os.fspath(directory)!r} cannot be used: {error}") from error
        if not is_utf8(str(self._directory)):
            raise ConfigurationError(
                f"directory {str(self._directory)!r} cannot be part of an address: its name is not UTF-8"
            )
        if set("?\n") & set(str(self._directory)):
            raise ConfigurationError(
                f"directory {str(self._directory)!r} cannot be part of an address: choose one without '?' and newlines"
            )
        own = f"sqlite:///{quote(str(self._directory / 'meta.db'))}"  # a % would be taken for an escape
        self._uri = own if metadata is None else _shared(metadata)
        self._asked = bookies
        self._report = report or _ignore
        self._restart = restart
        self._options = options
        self._lock = DirectoryLock(self._directory)
        self._made = False
        self._supervisors: list[BookieSupervisor] = []

    def __repr__(self) -> str:
        running = sum(each.process_id is not None for each in self.bookies)
        return f"<Standalone {self._directory}, bookies running: {running}>"

    @property
    def uri(self) -> str:
        """The address to connect to."""
        return self._uri

    @property
    def made(self) -> bool:
        """Whether this start created the cluster."""
        return self._made

    @property
    def bookies(self) -> list[BookieFacts]:
        """The bookies' state now, in the order of their directories."""
        return [supervisor.facts for supervisor in self._supervisors]

    async def start(self) -> None:
        """Start all bookies. On return they are registered and serve; after an error none is running.

        Raises:
            StandaloneError: the directory is used by another process or cannot be written, or a bookie did not start.
            MetadataUnavailableError: the metadata store cannot be reached.
        """
        await self._lock.take(STOP_TIMEOUT_S)
        try:
            await self._init_metadata()
            self._supervisors = [self._supervisor(number) for number in self._numbers()]
            await self._start_all()
        except BaseException as error:
            await self.stop()
            if isinstance(error, OSError) and not isinstance(error, LogStoreError):
                where = self._directory if error.filename is None else error.filename
                raise StandaloneError(
                    f"cannot start a cluster in {self._directory}: {where}: {error.strerror}; correct that, or choose "
                    "another directory",
                    directory=self._directory,
                ) from error
            raise

    async def stop(self) -> None:
        """Stop all bookies cleanly and release the directory; a second call does nothing."""
        await asyncio.gather(*(supervisor.stop() for supervisor in self._supervisors))
        self._supervisors = []
        self._lock.release()

    async def kill(self, index: int) -> None:
        """Send SIGKILL to `bookies[index]`, counted from 0; it stays down until `restart`. For failure tests.

        Raises:
            ConfigurationError: there is no such bookie.
        """
        await self._find(index).kill()

    async def restart(self, index: int) -> None:
        """Start `bookies[index]` after a kill; on return it serves.

        Raises:
            ConfigurationError: there is no such bookie, or it is running or being started.
            StandaloneError: it did not start.
        """
        await self._find(index).start()

    def pause(self, index: int) -> None:
        """Send SIGSTOP to `bookies[index]`: on return it has stopped, until `resume`. For failure tests.

        Raises:
            ConfigurationError: there is no such bookie.
        """
        self._find(index).pause()

    def resume(self, index: int) -> None:
        """Send SIGCONT to `bookies[index]`.

        Raises:
            ConfigurationError: there is no such bookie.
        """
        self._find(index).resume()

    async def wait(self) -> None:
        """Run until cancelled.

        Raises:
            StandaloneError: a bookie keeps dying and is not restarted any more.
        """
        while True:
            for supervisor in self._supervisors:
                if supervisor.failed is not None:
                    raise supervisor.failed
            await asyncio.sleep(0.2)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # ---- parts

    async def _init_metadata(self) -> None:
        store = await open_store(self._uri)
        self._uri = store.uri  # absolute, so that it is valid in any process and directory
        try:
            await store.init_cluster()
            self._made = True
        except AlreadyExistsError:
            return  # an earlier start, or another client, has created it
        finally:
            await store.close()

    def _numbers(self) -> list[int]:
        """Every bookie with data here, and at least as many as asked for."""
        found = {int(match[1]) for path in self._directory.iterdir() if (match := _named(path))}
        return sorted(found | set(range(1, self._asked + 1)))

    def _supervisor(self, number: int) -> BookieSupervisor:
        logs = self._directory / "log"
        logs.mkdir(exist_ok=True)
        return BookieSupervisor(
            number,
            self._directory / f"bookie-{number}",
            logs / f"bookie-{number}.log",
            self.uri,
            self._report,
            restart=self._restart,
            inherited=(self._lock.descriptor,),
            options=self._options(number),
        )

    async def _start_all(self) -> None:
        results = await asyncio.gather(
            *(supervisor.start() for supervisor in self._supervisors), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    def _find(self, index: int) -> BookieSupervisor:
        require_type("index", index, int)
        if not 0 <= index < len(self._supervisors):
            raise ConfigurationError(
                f"there is no bookie {index}: {len(self._supervisors)} are running, numbered from 0"
            )
        return self._supervisors[index]


class Standalone(NotCopied):
    """The cluster for programs without a loop: `with dlog.standalone("data") as cluster`.

    Raises:
        ConfigurationError: `bookies` is not 1 to 64, or the directory or the metadata address cannot be used.
        MissingExtraError: the `server` extra is not installed.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        bookies: int = 3,
        *,
        metadata: str | None = None,
        report: Report | None = None,
        restart: bool = True,
    ) -> None:
        """`directory` holds all data and is created if missing. `bookies`: how many to run, plus those with data here.

        `metadata`: address of another store than the directory's own. `report` is called, in another thread, with a
        sentence for each event. `restart`: restart bookies that die.
        """
        self._cluster = AsyncStandalone(directory, bookies, metadata=metadata, report=report, restart=restart)
        self._thread: LoopThread | None = None

    def __repr__(self) -> str:
        return repr(self._cluster)

    @property
    def uri(self) -> str:
        """The address to connect to."""
        return self._cluster.uri

    @property
    def made(self) -> bool:
        """Whether this start created the cluster."""
        return self._cluster.made

    @property
    def bookies(self) -> list[BookieFacts]:
        """The bookies' state now, in the order of their directories."""
        return self._cluster.bookies

    def start(self) -> None:
        """Start all bookies. On return they are registered and serve; after an error none is running.

        Raises:
            StandaloneError: the directory is used by another process or cannot be written, or a bookie did not start.
            MetadataUnavailableError: the metadata store cannot be reached.
        """
        # Not uvloop: its child processes want the main thread's signal handler.
        thread = LoopThread("dlog standalone", new_loop=asyncio.new_event_loop)
        try:
            thread.run(self._cluster.start)
        except BaseException:
            thread.close()
            raise
        self._thread = thread

    def stop(self) -> None:
        """Stop all bookies cleanly; a second call, or one in a process forked from this, does nothing."""
        if self._thread is not None and not self._thread.lost:
            self._thread.run(self._cluster.stop)
            self._thread.close()
            self._thread = None

    def kill(self, index: int) -> None:
        """Send SIGKILL to `bookies[index]`, counted from 0; it stays down until `restart`. For failure tests.

        Raises:
            ConfigurationError: there is no such bookie, or the cluster is not running.
        """
        self._running().run(self._cluster.kill, index)

    def restart(self, index: int) -> None:
        """Start `bookies[index]` after a kill; on return it serves.

        Raises:
            ConfigurationError: there is no such bookie, it is running or being started, or the cluster is not running.
            StandaloneError: it did not start.
        """
        self._running().run(self._cluster.restart, index)

    def pause(self, index: int) -> None:
        """Send SIGSTOP to `bookies[index]`: on return it has stopped, until `resume`. For failure tests.

        Raises:
            ConfigurationError: there is no such bookie, or the cluster is not running.
        """
        self._running().call(lambda: self._cluster.pause(index))

    def resume(self, index: int) -> None:
        """Send SIGCONT to `bookies[index]`.

        Raises:
            ConfigurationError: there is no such bookie, or the cluster is not running.
        """
        self._running().call(lambda: self._cluster.resume(index))

    def wait(self) -> None:
        """Block until interrupted.

        Raises:
            StandaloneError: a bookie keeps dying and is not restarted any more.
            ConfigurationError: the cluster is not running.
        """
        self._running().run(self._cluster.wait)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _running(self) -> LoopThread:
        if self._thread is None:
            raise ConfigurationError("the cluster is not running: use it inside 'with dlog.standalone(...)'")
        return self._thread


def _shared(metadata: str) -> str:
    if parse_uri(metadata).driver == "memory":
        raise ConfigurationError(
            f"metadata address {metadata!r} exists only in this process, and bookies are processes of their own: "
            "leave it out, or use a store that they can reach, such as sqlite:/// or zk://"
        )
    return metadata


def _named(path: Path) -> re.Match[str] | None:
    return _BOOKIE_DIRECTORY.fullmatch(path.name) if path.is_dir() else None
