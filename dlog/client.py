"""The log client in asyncio: create, open, read, list, describe, shrink, seal, delete.

    async with await connect("sqlite:///data/meta.db") as client:
        async with await client.open_writer("orders") as writer:
            await writer.append(b"payload")

The blocking API (dlog/blocking/client.py) is the same, one call at a time.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Self
from weakref import WeakKeyDictionary

from dlog.admin import LogAdmin, LogInfo
from dlog.config import LogConfig
from dlog.core import metadata_keys
from dlog.core.degraded import DegradedPolicy
from dlog.core.tailing import OnMissing
from dlog.errors import AppendsFailedError, LogExistsError, LogNotFoundError
from dlog.format.entry import encode_entry
from dlog.format.message import Columns
from dlog.metadata.store import LogMetadataStore, LogRef
from dlog.model import LogMetadata, LogName, MessageId, check_log_name
from dlog.read.config import ReaderConfig
from dlog.read.range import Where, read_range
from dlog.read.reader import Reader
from dlog.read.resolution import Resolution, resolve
from dlog.write.append_queue import AppendQueue
from dlog.write.ledger_creation import LedgerMaker
from dlog.write.rotation_runner import RotationRunner
from dlog.write.takeover_runner import TakeoverRunner, new_owner
from dlog.write.unread_failures import in_one, raise_unless_raising
from dlog.write.writer import LogWriter
from ledger.arguments import require_type
from ledger.client import LedgerClient
from ledger.environment import Environment, SystemEnvironment
from ledger.errors import LogStoreError, NotEnoughBookiesError
from ledger.metadata.drivers import open_store
from ledger.metadata.rounds import Rounds
from ledger.metadata.store import MetadataStore
from ledger.metadata.uri import parse_uri
from ledger.model import LedgerId

DEFAULT_NAMESPACE = "default"


async def connect(
    uri: str,
    namespace: str = DEFAULT_NAMESPACE,
    *,
    config: LogConfig | None = None,
    environment: Environment | None = None,
) -> LogClient:
    """A client of the cluster whose metadata is at `uri`. Starts nothing; closing it closes all it opened."""
    check_log_name(namespace)
    require_type("config", config, LogConfig, type(None))
    environment = environment or SystemEnvironment()
    store = await open_store(uri, environment)
    root = parse_uri(uri).option("root") or metadata_keys.DEFAULT_ROOT
    client = LogClient(store, namespace, config=config, environment=environment, root=root)
    try:
        await client.start()
    except BaseException:
        await client.close()
        raise
    return client


class LogClient:
    """The logs of one namespace. Owns the store it is given. Use it on the loop that started it."""

    _started = False

    def __init__(
        self,
        store: MetadataStore,
        namespace: str = DEFAULT_NAMESPACE,
        *,
        config: LogConfig | None = None,
        environment: Environment | None = None,
        root: str = metadata_keys.DEFAULT_ROOT,
    ) -> None:
        require_type("config", config, LogConfig, type(None))
        self.config = config or LogConfig()
        self.namespace = namespace
        self._environment = environment or SystemEnvironment()
        self._store = store
        self.ledgers = LedgerClient(store, config=self.config.ledger, environment=self._environment)
        self.logs = LogMetadataStore(store, self._environment, root=root)
        self.admin = LogAdmin(self.logs, self.ledgers, self.config)
        self._writers: dict[LogWriter, None] = {}
        # Weak: a reader that its user has dropped stops by itself.
        self._readers: WeakKeyDictionary[Reader, None] = WeakKeyDictionary()
        # A simulated process that is killed closes nothing.
        self._warns = isinstance(self._environment, SystemEnvironment)
        self._releasing: asyncio.Future[None] | None = None
        _check_codec(self.config)

    @property
    def uri(self) -> str:
        return self._store.uri

    @property
    def writers(self) -> frozenset[LogWriter]:
        """Open writers of this client."""
        return frozenset(self._writers)

    async def start(self) -> None:
        """Read the registered bookies. MetadataUnavailableError."""
        await self.ledgers.start()
        self._started = True

    async def close(self) -> None:
        """Close writers (settling what they accepted), readers, connections and the store.

        If cancelled, writers give up what is in flight; everything is closed all the same. A second call does
        nothing. AppendsFailedError, once all is closed, if an append failed whose outcome nobody has read.
        """
        failures: list[AppendsFailedError] = []
        try:
            await asyncio.gather(*(_close(writer, failures) for writer in self._writers))
        except asyncio.CancelledError:
            await self._released()
            raise
        await self._released()
        if (failure := in_one(failures)) is not None:
            raise failure

    async def _released(self) -> None:
        if self._releasing is None:
            self._releasing = asyncio.ensure_future(self._release())
        try:
            await asyncio.shield(self._releasing)
        except asyncio.CancelledError:
            await self._releasing  # it takes milliseconds, and half closed is worse
            raise

    async def _release(self) -> None:
        """Close everything, whatever of it fails, and raise the first error.

        No `finally` waits here: a process that is killed in the simulator drops this coroutine where it is.
        """
        for writer in list(self._writers):
            writer.abort()
        errors: list[Exception] = []
        for close in (
            *(reader.close for reader in list(self._readers)),
            self.ledgers.close,
            self._store.close,
        ):
            try:
                await close()
            except Exception as error:  # noqa: BLE001 - raised below, once everything is closed
                errors.append(error)
        if errors:
            raise errors[0]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except AppendsFailedError as failure:
            raise_unless_raising(failure, error)

    def __del__(self) -> None:
        if self._started and self._warns and self._releasing is None:
            warnings.warn(f"unclosed client of {self.uri}", ResourceWarning, source=self, stacklevel=2)

    def name(self, log: str) -> LogName:
        """The full name of a log in this client's namespace. InvalidNameError."""
        return LogName(namespace=self.namespace, name=log)

    # ---- writing

    async def create(self, log: str) -> None:
        """Make an empty log. LogExistsError."""
        await self.logs.create(self.name(log), grace_us=self.config.grace_us)

    async def open_writer(
        self, log: str, *, create: bool = True, given_up: Collection[LedgerId] = ()
    ) -> LogWriter:
        """Take the log over: fence whoever wrote it, go on in a new ledger. Creates the log if asked.

        `given_up`: ledgers that are lost and whose loss you accept. LogNotFoundError, LogSealedError,
        TakeoverLostError (somebody else opened it at the same time), NotEnoughBookiesError, DataLossError.
        """
        _require_ledger_ids(given_up)
        name = self.name(log)
        ref = await self._find_or_create(name) if create else await self.logs.find(name)
        try:
            writer = await self._take_over(ref, given_up)
        except NotEnoughBookiesError as error:
            raise self._explain(error) from error
        self._writers[writer] = None
        writer.over.add_done_callback(lambda _: self._writers.pop(writer, None))
        return writer

    async def _find_or_create(self, name: LogName) -> LogRef:
        rounds = Rounds(self._environment, f"log {name}")
        while True:
            try:
                return await self.logs.find(name)
            except LogNotFoundError:
                pass
            try:
                return await self.logs.create(name, grace_us=self.config.grace_us)
            except LogExistsError:
                await rounds.again()  # somebody else has just created it

    async def _take_over(self, ref: LogRef, given_up: Collection[LedgerId]) -> LogWriter:
        owner = new_owner(self._environment, self.config.owner_name)
        takeover = await TakeoverRunner(
            ref, owner, logs=self.logs, ledgers=self.ledgers, config=self.config, given_up=given_up
        ).run()
        queue = AppendQueue(
            self.config,
            self._environment,
            epoch=takeover.record.epoch,
            last_append_us=_last_append_us(takeover.record),
        )
        maker = LedgerMaker(ref, owner, self.ledgers, self.config)
        rotation = RotationRunner(
            ref,
            takeover,
            queue,
            maker,
            logs=self.logs,
            ledgers=self.ledgers,
            config=self.config,
            collect=lambda: self.admin.collect_ref(ref),
        )
        rotation.start()
        return LogWriter(ref, owner, queue, rotation, warns=self._warns)

    def _explain(self, error: NotEnoughBookiesError) -> LogStoreError:
        live, quorum = len(self.ledgers.bookies().writable), self.config.quorum
        if live:
            least = quorum.ack if self.config.degraded is DegradedPolicy.ALLOW else quorum.ensemble
            return NotEnoughBookiesError(
                f"a log needs {least} writable bookies at least, {quorum.ensemble} for all its copies, and {live} "
                f"can be written at {self.uri}: start more with `bookie start`",
                **error.facts,
            )
        return NotEnoughBookiesError(
            f"no bookie is registered at {self.uri}: start some with `bookie start`, "
            "or a whole local cluster with `dlog standalone`",
            **error.facts,
        )

    # ---- reading

    def reader(
        self,
        log: str,
        start: Where | None = None,
        *,
        after: Where | None = None,
        until: Where | None = None,
        last: int | None = None,
        on_trimmed: OnMissing | str = OnMissing.FAIL,
        on_data_loss: OnMissing | str = OnMissing.FAIL,
        config: ReaderConfig | None = None,
    ) -> Reader:
        """Messages from `start` (inclusive), behind `after`, or the `last` n, up to `until` (exclusive).

        Without `until` the reader waits for more. Fences nothing.
        """
        reader = Reader(
            self.logs,
            self.ledgers,
            self.name(log),
            read_range(start=start, after=after, until=until, last=last),
            config=config,
            on_trimmed=on_trimmed,
            on_data_loss=on_data_loss,
            password=self.config.password,
        )
        self._readers[reader] = None
        return reader

    def tail(
        self,
        log: str,
        *,
        start: Where | None = None,
        last: int | None = None,
        follow: bool = True,
        config: ReaderConfig | None = None,
    ) -> Reader:
        """Messages as they come, from now on unless `start` or `last` (so many before now) says otherwise.

        Without `follow` it ends at the tail as it is when the reader opens.
        """
        require_type("last", last, int, type(None))
        if start is None and not last:
            start, last = "latest", None
        return self.reader(log, start, last=last, until=None if follow else "latest", config=config)

    # ---- administration

    async def list(self) -> list[str]:
        """Names of the logs in the namespace, sorted."""
        return await self.logs.names(self.namespace)

    async def describe(self, log: str) -> LogInfo:
        return await self.admin.describe(self.name(log))

    async def resolve(self, log: str, message_id: MessageId | str) -> Resolution:
        """What became of an append that ended in AppendIndeterminateError. Undecided until its ledger is sealed."""
        found = MessageId.of(message_id)
        ref = await self.logs.find(self.name(log))
        return await resolve(self.logs, ref, self.ledgers, found, self.config.password)

    async def rotate(self, log: str) -> LogInfo:
        """Take the log over, which seals its ledger, and give it up again: the way to rotate from outside.

        Only an owner rotates, so this deposes the writer there is; a program that has the writer open calls its
        `rotate` instead.
        """
        writer = await self.open_writer(log, create=False)
        await writer.close()
        return await self.describe(log)

    async def shrink(self, log: str, before: MessageId | str) -> LogMetadata:
        return await self.admin.shrink(self.name(log), MessageId.of(before))

    async def seal(self, log: str) -> LogMetadata:
        return await self.admin.seal(self.name(log))

    async def delete(self, log: str) -> bool:
        return await self.admin.delete(self.name(log))

    async def sweep(self) -> Sequence[LedgerId]:
        """Delete empty ledgers that crashed takeovers and rotations of any log under this root have left behind.

        Returns them. Ledgers of other applications and of logs under another root are never touched.
        """
        return await self.admin.sweep()

    async def collect(self, log: str) -> LogMetadata | None:
        """Delete the log's ledgers whose time has come. None once a log being deleted is gone."""
        return await self.admin.collect(self.name(log))


async def _close(writer: LogWriter, failures: list[AppendsFailedError]) -> None:
    try:
        await writer.close()
    except AppendsFailedError as failure:
        failures.append(failure)


def _last_append_us(record: LogMetadata) -> int:
    """The newest append time recorded: the next entry's is not below it, whatever the clock says.

    Of a ledger whose last entry could not be read when it was sealed only the time of its creation is known.
    """
    return max(
        (max(one.created_us, one.seal.last_append_us) for one in record.ledgers if one.seal is not None),
        default=0,
    )


def _check_codec(config: LogConfig) -> None:
    """A compression library that is missing shows here, not at the first append."""
    encode_entry(Columns([None], [b"\0" * 256], [[]]), epoch=0, append_time_us=0, codec=config.codec)


def _require_ledger_ids(given_up: Collection[LedgerId]) -> None:
    require_type("given_up", given_up, list, tuple, set, frozenset)
    for ledger_id in given_up:
        require_type("a ledger id in given_up", ledger_id, int)
