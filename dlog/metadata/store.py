"""Log records in the metadata store: find by name, create, compare-and-set with lost answers resolved.

A name is created as a name node in state DELETED, then the record is written under a fresh uuid, then the
name is set to that uuid. An interruption leaves a name that names no log, or a record that no name refers to
(docs/log-semantics.md#rule-4, #rule-5, #rule-10). Reads here are linearizable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from dlog.backoff import Backoff
from dlog.core import metadata_keys
from dlog.core.metadata_update import Applied, Look, NotOurs, look_again
from dlog.errors import HistoryPageError, LogExistsError, LogNotFoundError, RecordFormatError
from dlog.format.log_metadata import decode_name, decode_record, encode_name, encode_record
from dlog.ledger_list.ledger_list import LedgerList
from dlog.ledger_list.listing import DEFAULT_SIZES, SHORT_SIZES, NamedPage, archived
from dlog.ledger_list.window import ListWindow
from dlog.metadata.cursor_store import CursorStore
from dlog.metadata.history_pages import HistoryPages, page_name
from dlog.metadata.log_ref import LogRef
from dlog.metadata.owner_requests import OwnerRequests
from dlog.metadata.value import cannot_be_decoded, forget_value, still
from dlog.model import DEFAULT_NAMESPACE, GRACE_US, LogMetadata, LogName, NameNode, NameState
from dlog.together import each
from ledger.buggify import buggify, linger
from ledger.environment import Environment
from ledger.errors import (
    AlreadyExistsError,
    LayoutMismatchError,
    LogStoreError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
    MetadataVersionError,
    RecordNotFoundError,
)
from ledger.metadata.rounds import Rounds
from ledger.metadata.store import MetadataStore, Unwatch, Watch
from ledger.model import Versioned

_T = TypeVar("_T")
TOUCH_S_MAX = 10.0
"""For a change whose answer was lost; that of no use is made again."""


class LogMetadataStore:
    """The metadata of a cluster's logs. Cheap to create: it has no connection of its own."""

    def __init__(
        self, store: MetadataStore, environment: Environment, *, root: str = metadata_keys.DEFAULT_ROOT
    ) -> None:
        self._store = store
        self._environment = environment
        self._root = root
        self.list_sizes = DEFAULT_SIZES
        """How much of a list stays in the record when this client changes it."""
        self._instance_id: str | None = None
        self._pages = HistoryPages(store, environment)
        self.cursors = CursorStore(store, environment)
        self.requests = OwnerRequests(store, environment)

    @property
    def root(self) -> str:
        """The key below which the logs' values are stored."""
        return self._root

    # ---- names

    async def find(self, log: LogName) -> LogRef:
        """The current incarnation of the log.

        Raises:
            LogNotFoundError: the name was never used, or its log is deleted.
        """
        node = await self.read_name(log)
        if node is None or node.value.state is NameState.DELETED:
            raise LogNotFoundError(
                f"log {log} does not exist: check the name (`{_listing(log)}` lists them), or create the log",
                log=str(log),
            )
        return LogRef(log, node.value.log_uuid, self._root)

    async def namespaces(self) -> list[str]:
        """Namespaces under this root, sorted, in which logs are or were."""
        return await self._store.list_records(self._root)

    async def used_names(self, namespace: str) -> list[str]:
        """Names in a namespace, sorted, that logs have or had: one that was deleted leaves its name."""
        return await self._store.list_records(metadata_keys.namespace_key(self._root, namespace))

    async def names(self, namespace: str) -> list[str]:
        """Names of the logs in a namespace, sorted; a name that cannot be decoded is one of them."""

        async def is_active(name: str) -> bool:
            try:
                node = await self.read_name(LogName(namespace=namespace, name=name))
            except RecordFormatError:
                return True  # who opens that log learns of it, and the others are not kept from theirs
            return node is not None and node.value.state is NameState.ACTIVE

        used = await self.used_names(namespace)
        active = await each(used, is_active)
        return [name for name, names_a_log in zip(used, active, strict=True) if names_a_log]

    async def create(self, log: LogName, *, grace_us: int | None = None) -> LogRef:
        """Create a log with an empty list and epoch 0.

        `grace_us`: how long its ledgers are kept for a writer that may be paused; None: the default.

        Raises:
            LogExistsError: the name is in use.
        """
        node = await self._free_name(log)
        ref = LogRef(log, self._environment.new_uuid(), self._root)
        record = LogMetadata(
            log_uuid=ref.log_uuid,
            instance_id=await self._read_instance(),  # the cluster may have been formatted while we were connected
            nonce=self._environment.token(),
            grace_us=GRACE_US if grace_us is None else grace_us,
        )
        await self._create_value(self._record_key(ref), encode_record(record))
        try:
            await self._set_name(log, node, NameNode(log_uuid=ref.log_uuid, state=NameState.ACTIVE))
        except LogExistsError:
            await self._remove_unnamed(ref)
            raise
        return ref

    async def end_name(self, ref: LogRef) -> None:
        """Set the name to DELETED after the log's ledgers were deleted; leave a newer log's name alone."""
        rounds = Rounds(self._environment, f"the name of log {ref.name}")
        ended = NameNode(log_uuid=ref.log_uuid, state=NameState.DELETED)
        in_doubt: LogStoreError | None = None
        while True:
            with still(in_doubt):
                node = await self.read_name(ref.name)
                if node is None or node.value == ended or node.value.log_uuid != ref.log_uuid:
                    return
                try:
                    await self._store.write_record(
                        metadata_keys.name_key(self._root, ref.name), encode_name(ended), node.version
                    )
                    return
                except (MetadataVersionError, MetadataOutcomeUnknownError) as error:
                    in_doubt = error if isinstance(error, MetadataOutcomeUnknownError) else in_doubt
                    await rounds.again(in_doubt or error)  # the next round reads the outcome

    # ---- records

    async def read(self, ref: LogRef, *, fresh: bool = True) -> Versioned[LogMetadata]:
        """The record, read linearizably; with `fresh=False` as `read_window` does.

        Raises:
            LogNotFoundError: this incarnation no longer exists.
            LayoutMismatchError: the record belongs to another cluster.
            RecordFormatError: the record is damaged or lost.
        """
        found = await self.read_or_none(ref, fresh=fresh)
        if found is None and not fresh:
            found = await self.read_or_none(ref)
        if found is None:
            await self._raise_if_lost(ref)
            raise LogNotFoundError(f"log {ref.name} ({ref.log_uuid}) no longer exists", log=str(ref.name))
        return found

    async def read_or_none(self, ref: LogRef, *, fresh: bool = True) -> Versioned[LogMetadata] | None:
        """As `read`; None if there is no record, whatever the reason."""
        try:
            found = await self._store.read_record(self._record_key(ref), fresh=fresh)
        except RecordNotFoundError:
            return None
        record = _decoded(self._record_key(ref), decode_record, found.value)
        instance = await self._instance()
        if record.instance_id != instance:
            instance = await self._read_instance()
        if record.instance_id != instance:
            raise LayoutMismatchError(
                f"log {ref.name} belongs to cluster {record.instance_id}, this metadata store to cluster {instance}: "
                "connect to the metadata store in which it was created",
                log=str(ref.name),
            )
        return Versioned(record, found.version)

    async def _raise_if_lost(self, ref: LogRef) -> None:
        """RecordFormatError if the record, which is absent, was not deleted: a deletion ends the name first."""
        node = await self.read_name(ref.name)
        if node is not None and node.value == NameNode(log_uuid=ref.log_uuid, state=NameState.ACTIVE):
            key = self._record_key(ref)
            raise RecordFormatError(
                f"the record of log {ref.name} under {key} is missing, and the log was not deleted: restore it from a "
                "backup",
                key=key,
            )

    async def read_window(
        self, ref: LogRef, ledger_id: int, ledgers_wanted: int = 1, *, fresh: bool = True
    ) -> tuple[Versioned[LogMetadata], ListWindow]:
        """The record, read linearizably, and the part of its list that begins at this id or the lowest one above it.

        `ledgers_wanted`: a hint how long the part should be. With `fresh=False` it is the cheapest read, which shows
        each change that a watch of this client has reported, and perhaps no later one; in a new session not even that.

        A page that the newest record refers to, and that is missing or damaged, is `lost` in the part.

        Raises:
            HistoryPageError: a later release has written a page.
            The errors of `read`.
        """
        read = await self.read(ref, fresh=fresh)
        while True:
            window: ListWindow | None = None
            try:
                window = await self.ledger_list(ref, read.value).window(ledger_id, ledgers_wanted)
                if window.lost is not None:
                    raise window.lost
            except HistoryPageError:
                before, read = read, await self.read(ref)
                if read.version != before.version:
                    continue
                if window is None:
                    raise
            return read, window

    async def raise_unless_changed(self, ref: LogRef, version: int, error: HistoryPageError) -> None:
        """Raise `error`, of a page that the record of this version refers to, unless the record has changed since.

        Raises:
            LogNotFoundError: the log was deleted.
        """
        if (await self.read(ref)).version == version:
            raise error

    def ledger_list(self, ref: LogRef, record: LogMetadata) -> LedgerList:
        """The list of the ledgers that the record lists, also in pages. Its methods read pages.

        They raise HistoryPageError if a page is missing or damaged; if a fresh record is another one, repeat them with
        that.
        """
        return self._pages.ledger_list(ref, record, self.list_sizes.pending_max)

    def watch(self, ref: LogRef, watch: Watch) -> Unwatch:
        """Call `watch` on the event loop after each change of the record, and possibly without one."""
        return self._store.watch_record(self._record_key(ref), watch)

    async def compare_and_set(
        self, ref: LogRef, record: LogMetadata, version: int, *, limit_s: float | None = None
    ) -> Applied | NotOurs:
        """Set the record if it still has `version`. If the response is lost, reads determine the outcome.

        `record` must carry a nonce of its own. If its list has become long, old ledgers of it first move into a page.
        While the outcome is unknown and the store cannot be reached this waits, up to `limit_s` seconds; if that is
        None, until it is cancelled.

        Raises:
            MetadataUnavailableError: the change was not made.
            MetadataOutcomeUnknownError: the outcome is still unknown after `limit_s`.
            RecordTooLargeError: the record exceeds its size limit; nothing was written.

        Source: docs/log-semantics.md#rule-10.
        """
        try:
            async with asyncio.timeout(limit_s):
                return await self._compare_and_set(ref, record, version)
        except TimeoutError as error:
            raise MetadataOutcomeUnknownError(
                f"the metadata store did not confirm a change of log {ref} within {limit_s} s: it may "
                "have been made; repeat the call when the store is available",
                log=str(ref),
            ) from error

    async def _compare_and_set(self, ref: LogRef, record: LogMetadata, version: int) -> Applied | NotOurs:
        nonce = record.nonce
        sizes = SHORT_SIZES if buggify("metadata.short-list") else self.list_sizes
        record, pages = archived(
            record, lambda level, first_id: page_name(level, first_id, version, nonce), sizes
        )
        await self._pages.write(ref, pages)
        answer = await self._set(ref, record, version)
        if isinstance(answer, NotOurs) and answer.definite:
            await self._remove_pages(ref, pages)
        return answer

    async def _remove_pages(self, ref: LogRef, pages: Sequence[NamedPage]) -> None:
        """Remove pages of a change that was certainly refused; the collection of garbage finds what is left."""
        with suppress(MetadataUnavailableError, MetadataOutcomeUnknownError):
            for page in pages:
                await self._pages.remove(ref, page.name)

    async def _set(self, ref: LogRef, record: LogMetadata, version: int) -> Applied | NotOurs:
        value = encode_record(record)
        key = self._record_key(ref)
        in_doubt = False
        backoff = Backoff(self._environment)
        while True:
            try:
                await linger("metadata.slow-record-change")
                applied = Applied(record, await self._store.write_record(key, value, version))
                await linger("metadata.slow-record-answer")
                return applied
            except RecordNotFoundError:
                return NotOurs(None, definite=not in_doubt)
            except MetadataVersionError:
                if not in_doubt:
                    return NotOurs(await self._until_available(self.read_or_none, ref), definite=True)
            except MetadataOutcomeUnknownError:
                in_doubt = True
            except MetadataUnavailableError:
                if not in_doubt:
                    raise
            found = await self._until_available(self.read_or_none, ref)
            match look_again(record, version, found):
                case Look.APPLIED:
                    assert found is not None
                    return Applied(found.value, found.version)
                case Look.DECIDED:
                    return NotOurs(found, definite=False)
                case Look.SEND_AGAIN:
                    await asyncio.sleep(backoff.next_s())

    async def touch(self, ref: LogRef) -> None:
        """Change the record without changing what it says, so that its owner reads what is asked of it.

        Raises:
            LogNotFoundError: the log was deleted.
            ContendedError: others changed it in every round.
            MetadataUnavailableError, MetadataOutcomeUnknownError: it may be unchanged.
        """
        rounds = Rounds(self._environment, f"the record of log {ref}")
        while True:
            read = await self.read(ref)
            touched = replace(read.value, nonce=self._environment.token())
            answer = await self.compare_and_set(ref, touched, read.version, limit_s=TOUCH_S_MAX)
            if isinstance(answer, Applied):
                return
            # What came first may be a change of the owner's own, after which it reads no requests.
            await rounds.again()

    async def remove_unused_pages(self, ref: LogRef, record: LogMetadata, version: int) -> int:
        """Remove the pages that the record of this version does not refer to; return their number."""
        return await self._pages.remove_unused(ref, record, version)

    # ---- after the end of a log

    async def incarnations(self, log: LogName) -> list[LogRef]:
        """Every log of this name of which something is stored, also one that is being created."""
        below = await self._store.list_records(metadata_keys.name_key(self._root, log))
        # The root of other logs may be below a name, too.
        return [LogRef(log, each, self._root) for each in below if metadata_keys.is_log_uuid(each)]

    async def values_of(self, ref: LogRef) -> list[str]:
        """What is stored of the log in addition to its record: pages, cursors, retention, properties, a request."""
        record = metadata_keys.record_key(self._root, ref.name, ref.log_uuid)
        path, _, record_name = record.rpartition("/")
        return [name for name in await self._store.list_records(path) if name != record_name]

    async def remove_record(self, ref: LogRef) -> None:
        """Remove what is stored of a deleted log, whose name has ended: its path is never used again.

        Raises:
            ContendedError, MetadataUnavailableError, MetadataOutcomeUnknownError: something may be left, which the
                collection of garbage finds (left_records.py).
        """
        what = f"what is stored with log {ref}"
        await self._pages.remove_unused(ref, None, 0)
        await forget_value(self._store, self._environment, self._record_key(ref), what)
        # Last: a reader that creates a cursor looks for the record afterwards.
        await self.cursors.forget(ref)
        for key_of in (metadata_keys.retention_key, metadata_keys.properties_key, metadata_keys.request_key):
            key = key_of(self._root, ref.name, ref.log_uuid)
            await forget_value(self._store, self._environment, key, what)

    # ---- parts

    def _record_key(self, ref: LogRef) -> str:
        return metadata_keys.record_key(self._root, ref.name, ref.log_uuid)

    async def _instance(self) -> str:
        return self._instance_id or await self._read_instance()

    async def _read_instance(self) -> str:
        self._instance_id = await self._store.instance_id()
        return self._instance_id

    async def _until_available(self, read: Callable[[LogRef], Awaitable[_T]], ref: LogRef) -> _T:
        """Repeat a read until the store answers."""
        backoff = Backoff(self._environment)
        while True:
            try:
                return await read(ref)
            except MetadataUnavailableError:
                await asyncio.sleep(backoff.next_s())

    async def read_name(self, log: LogName) -> Versioned[NameNode] | None:
        """What the name refers to, read linearizably. None if it was never used."""
        try:
            found = await self._store.read_record(metadata_keys.name_key(self._root, log))
        except RecordNotFoundError:
            return None
        return Versioned(
            _decoded(metadata_keys.name_key(self._root, log), decode_name, found.value), found.version
        )

    async def _free_name(self, log: LogName) -> Versioned[NameNode]:
        """The name node, created if necessary, in state DELETED; LogExistsError if it names a log."""
        node = await self.read_name(log)
        if node is None:
            unused = NameNode(log_uuid="", state=NameState.DELETED)
            await self._create_value(metadata_keys.name_key(self._root, log), encode_name(unused))
            node = await self.read_name(log)
            assert node is not None, "a name node is never removed"
        if node.value.state is NameState.ACTIVE:
            raise _exists(log)
        return node

    async def _create_value(self, key: str, value: bytes) -> None:
        """Create a value under `key` unless there is one."""
        rounds = Rounds(self._environment, key)
        while True:
            try:
                await self._store.create_record(key, value)
            except AlreadyExistsError:
                return
            except MetadataOutcomeUnknownError as error:
                await rounds.again(error)  # creating it again succeeds or finds it
                continue
            return

    async def _set_name(self, log: LogName, node: Versioned[NameNode], new: NameNode) -> None:
        """Compare-and-set the name. A fresh uuid is the nonce of this request. LogExistsError if refused."""
        key = metadata_keys.name_key(self._root, log)
        rounds = Rounds(self._environment, f"the name of log {log}")
        in_doubt: LogStoreError | None = None
        while True:
            try:
                with still(in_doubt):
                    await self._store.write_record(key, encode_name(new), node.version)
                return
            except (MetadataVersionError, MetadataOutcomeUnknownError) as error:
                in_doubt = error if isinstance(error, MetadataOutcomeUnknownError) else in_doubt
                with still(in_doubt):
                    found = await self.read_name(log)
                if found is not None and found.value == new:
                    return
                if isinstance(error, MetadataVersionError) or found is None or found.version != node.version:
                    raise _exists(log) from error
                await rounds.again(error)

    async def _remove_unnamed(self, ref: LogRef) -> None:
        """Remove the record of a create that lost the name; version 0 proves that no client has used it."""
        try:
            await self._store.remove_record(self._record_key(ref), 0)
        except (RecordNotFoundError, MetadataVersionError, MetadataOutcomeUnknownError):
            return  # unreachable either way: no name refers to it


def _decoded(key: str, decode: Callable[[bytes], _T], value: bytes) -> _T:
    """The decoded value; its error also names the key."""
    try:
        return decode(value)
    except RecordFormatError as error:
        raise cannot_be_decoded("the log metadata", key, error) from error


def _listing(log: LogName) -> str:
    return "dlog ls" if log.namespace == DEFAULT_NAMESPACE else f"dlog ls --namespace {log.namespace}"


def _exists(log: LogName) -> LogExistsError:
    return LogExistsError(
        f"log {log} already exists: use it (`dlog info` shows whether it can be written), or choose another name",
        log=str(log),
    )
