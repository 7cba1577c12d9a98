"""The ledgers of one task of a sink: written and closed before any list names them.

    append ──► ledger 1, closed when full ──► ledger 2 …      finish: all of them are closed, and reported
                                                              discard: all of them are deleted

Nothing here is acknowledged to anyone, and no reader can find a ledger, until the driver publishes the batch.
"""

from __future__ import annotations

from dlog.config import LogConfig
from dlog.core.degraded import fallback_quorum, fallback_tags
from dlog.core.metadata_keys import ledger_tags, staging_tags
from dlog.core.publication import SinkBatch, StagedLedger
from dlog.core.snapshot_places import SnapshotPlaces
from dlog.errors import MessageTooLargeError, StagingBarredError
from dlog.format.entry import ENTRY_OVERHEAD_BYTES, enclose
from dlog.sink.epoch import SinkEpoch
from dlog.together import each
from ledger.client import LedgerClient
from ledger.config import Visibility
from ledger.errors import LedgerNotFoundError, LogStoreError, NotEnoughBookiesError
from ledger.model import LedgerId, QuorumSizes
from ledger.writing.write_handle import WriteHandle

_IN_FLIGHT_BYTES_MAX = 16 * 1024 * 1024
"""Enough to keep three bookies busy, and little enough for many tasks on one machine."""


def body_bytes_max(epoch: SinkEpoch, config: LogConfig) -> int:
    """Capacity of one entry for encoded messages, next to a snapshot of the log's producers."""
    snapshot = None if epoch.producers is None else epoch.producers.snapshot
    return config.ledger.entry_bytes_max - ENTRY_OVERHEAD_BYTES - len(snapshot or b"")


class _OpenLedger:
    """The ledger that takes the entries now."""

    def __init__(self, handle: WriteHandle, created_us: int, places: SnapshotPlaces) -> None:
        self.handle = handle
        self.created_us = created_us
        self.places = places
        self.messages = 0


class StagingWriter:
    """Writes one task's messages; used by one task of the event loop at a time.

    Entries keep the order of the calls, within a ledger and across ledgers, since ids of ledgers rise.
    """

    def __init__(
        self, epoch: SinkEpoch, batch: SinkBatch | None, ledgers: LedgerClient, config: LogConfig
    ) -> None:
        """`batch`: what the ledgers are for, if its replay can be recognised."""
        self._epoch = epoch
        self._ledgers = ledgers
        self._config = config
        self._batch_number = None if batch is None else batch.number
        self._kind = staging_tags(None, 0) if batch is None else staging_tags(batch.writer_id, batch.number)
        self._body_bytes_max = body_bytes_max(epoch, config)
        self._open: _OpenLedger | None = None
        self._created: list[LedgerId] = []
        self._staged: list[StagedLedger] = []

    async def append(self, body: bytes, count: int) -> None:
        """Add an entry of `count` encoded messages. Waits only while too many bytes are in flight.

        Raises:
            NotEnoughBookiesError: too few writable bookies for a ledger.
            AddFailedError, LedgerFencedError: the ledger failed; write the whole task again.
            StagingBarredError: the ledger was deleted: another attempt has published the batch, or a sweep took it for
                abandoned; write the whole batch again.
            MessageTooLargeError: the messages exceed the limit of an entry.
            MetadataUnavailableError, MetadataOutcomeUnknownError: as the metadata store raises them.
        """
        if len(body) > self._body_bytes_max:
            raise MessageTooLargeError(
                f"{count} messages take {len(body)} bytes, the limit of an entry of log {self._epoch.ref} is "
                f"{self._body_bytes_max}: split them",
                entry_bytes=len(body) + ENTRY_OVERHEAD_BYTES,
                entry_bytes_max=self._body_bytes_max + ENTRY_OVERHEAD_BYTES,
            )
        current = self._open
        if current is not None and self._is_full(current):
            await self._close_current(current)
            current = None
        if current is None:
            current = self._open = await self._create()
        handle = current.handle
        envelope, stored = enclose(
            body,
            count,
            epoch=self._epoch.epoch,
            append_time_us=self._epoch.append_time_us,
            codec=self._config.codec,
            messages_before=current.messages,
            producers=current.places.next(len(body)),
        )
        try:
            handle.submit(b"".join((envelope, stored)))
            current.messages += count
            await handle.wait_for_capacity(_IN_FLIGHT_BYTES_MAX)
        except LedgerNotFoundError as error:
            raise self._swept(error) from error

    async def finish(self) -> tuple[StagedLedger, ...]:
        """Close the last ledger. On return everything appended is durable, and nothing can be added to it.

        Raises as `append`.
        """
        if self._open is not None:
            await self._close_current(self._open)
        return tuple(self._staged)

    async def discard(self) -> None:
        """Delete what was written: it was reported to no driver, so no list can ever name it."""
        if self._open is not None:
            self._open.handle.abandon(LogStoreError("the task that wrote the ledger has failed"))
            self._open = None
        await each(self._created, self._ledgers.delete)

    # ---- parts

    def _is_full(self, current: _OpenLedger) -> bool:
        limits, handle = self._config.rotation, current.handle
        return handle.length >= limits.bytes_max or handle.last_add_pushed + 1 >= limits.entries_max

    async def _close_current(self, current: _OpenLedger) -> None:
        try:
            await current.handle.drain()
            metadata = await current.handle.close()
        except LedgerNotFoundError as error:
            raise self._swept(error) from error
        self._open = None
        self._staged.append(
            StagedLedger(
                ledger_id=current.handle.ledger_id,
                created_us=current.created_us,
                last_entry=metadata.last_entry,
                message_count=current.messages,
                byte_count=metadata.length,
            )
        )

    def _swept(self, error: LedgerNotFoundError) -> StagingBarredError:
        """Only a sweep deletes a ledger that is being written, once its batch can no longer be published with it."""
        return StagingBarredError(
            f"ledger {error.ledger_id} of a sink's batch for log {self._epoch.ref} was deleted while it was written: "
            "another attempt has published the batch, or a sweep took it for abandoned; write the batch again",
            log=str(self._epoch.ref),
            batch=self._batch_number,
        )

    async def _create(self) -> _OpenLedger:
        """With fewer bookies than configured if the policy allows it (docs/log-semantics.md#rule-19b)."""
        wanted = self._config.quorum
        created_us = self._ledgers.environment.wall_us()
        try:
            handle = await self._create_with(wanted, created_us)
        except NotEnoughBookiesError:
            live = len(self._ledgers.bookies().writable)
            smaller = fallback_quorum(wanted, live, self._config.degraded)
            if smaller is None:
                raise
            handle = await self._create_with(smaller, created_us, fallback_tags(wanted))
        self._created.append(handle.ledger_id)
        return _OpenLedger(handle, created_us, SnapshotPlaces(self._epoch.producers))

    async def _create_with(
        self, quorum: QuorumSizes, created_us: int, more: tuple[tuple[str, bytes], ...] = ()
    ) -> WriteHandle:
        epoch = self._epoch
        tags = ledger_tags(
            root=epoch.ref.root,
            log=epoch.ref.name,
            log_uuid=epoch.ref.log_uuid,
            epoch=epoch.epoch,
            owner=epoch.owner,
            created_us=created_us,
        )
        return await self._ledgers.create(
            quorum,
            digest_type=self._config.digest_type,
            password=self._config.password,
            custom=(*tags, *self._kind, *more),
            # No reader can find it before it is closed, and a closed ledger shows all its entries.
            visibility=Visibility.FAST,
        )
