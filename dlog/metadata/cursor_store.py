"""Cursors of logs in the metadata store: taken over, moved by the one who holds it, set, removed.

Invariant (docs/log-semantics.md#rule-35): only its last holder moves a cursor, so a consumer that was replaced, or
whose cursor was set, cannot undo that. A holder's number is in what it writes; so after a lost answer a read shows
whether the change was made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from dlog.core import metadata_keys
from dlog.errors import CursorMovedError, CursorNotFoundError, RecordFormatError
from dlog.format.cursor import decode_cursor, encode_cursor
from dlog.metadata.log_ref import LogRef
from dlog.model import Cursor, MessageId, StoredCursor
from ledger.environment import Environment
from ledger.errors import (
    AlreadyExistsError,
    LogStoreError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
    MetadataVersionError,
    RecordNotFoundError,
)
from ledger.metadata.rounds import Rounds
from ledger.metadata.store import MetadataStore
from ledger.model import Versioned

_T = TypeVar("_T")

_UNDECIDED = (AlreadyExistsError, RecordNotFoundError, MetadataVersionError, MetadataOutcomeUnknownError)
"""After these a read shows whether the change was made, or what was."""


class CursorStore:
    """The cursors of any log."""

    def __init__(self, store: MetadataStore, environment: Environment) -> None:
        self._store = store
        self._environment = environment

    async def read(self, ref: LogRef, name: str) -> Cursor:
        """The cursor, read linearizably.

        Raises:
            CursorNotFoundError: the log has no such cursor.
            RecordFormatError: it is damaged.
        """
        found = await self._read_stored(ref, name)
        if found is None or found.value.cursor is None:
            raise _missing(ref, name)
        return found.value.cursor

    async def all(self, ref: LogRef) -> list[Cursor]:
        """The log's cursors, sorted by name.

        Raises:
            RecordFormatError: one is damaged.
        """
        names = await self._store.list_records(metadata_keys.cursors_key(ref.root, ref.name, ref.log_uuid))
        found = [await self._read_stored(ref, name) for name in names]
        return [one.value.cursor for one in found if one is not None and one.value.cursor is not None]

    async def take(
        self,
        ref: LogRef,
        name: str,
        begin: Callable[[], Awaitable[MessageId]],
        change: Callable[[Cursor], Cursor] = lambda cursor: cursor,
    ) -> Versioned[StoredCursor]:
        """Take the cursor over, with `change` made to it; one that does not exist is created at `begin`.

        On return no earlier holder can move it.

        Raises:
            ContendedError: others changed it in every round.
            MetadataUnavailableError: nothing was changed.
            MetadataOutcomeUnknownError: it may have been taken over.
            RecordFormatError: it is damaged.
        """
        holder = self._environment.token()
        rounds = Rounds(self._environment, f"cursor {name} of log {ref}")
        in_doubt: LogStoreError | None = None
        while True:
            found = await self._read_after(in_doubt, self._read_stored, ref, name)
            if found is not None and found.value.holder == holder:
                return found
            before = None if found is None else found.value.cursor
            if before is None:
                before = Cursor(name=name, position=await begin())
            taken = StoredCursor(
                holder=holder, cursor=replace(change(before), updated_us=self._environment.wall_us())
            )
            try:
                return await self._write(ref, name, taken, None if found is None else found.version)
            except _UNDECIDED as error:
                in_doubt = error if isinstance(error, MetadataOutcomeUnknownError) else in_doubt
                await rounds.again(error)

    async def move(
        self, ref: LogRef, cursor: Cursor, stored: Versioned[StoredCursor]
    ) -> Versioned[StoredCursor]:
        """Store the cursor as its holder moved it. On return it is durable.

        `stored`: the holder's last change, as far as it knows.

        Raises:
            CursorMovedError: another reader has taken it over, or it was set; nothing was changed.
            CursorNotFoundError: it was removed, perhaps with its log.
            MetadataUnavailableError: nothing was changed.
            MetadataOutcomeUnknownError: it may have been moved.
        """
        moved, version = replace(stored.value, cursor=cursor), stored.version
        rounds = Rounds(self._environment, f"cursor {cursor.name} of log {ref}")
        in_doubt: LogStoreError | None = None
        while True:
            try:
                return await self._write(ref, cursor.name, moved, version)
            except _UNDECIDED as error:
                in_doubt = error if isinstance(error, MetadataOutcomeUnknownError) else in_doubt
                failed = error
            found = await self._read_after(in_doubt, self._read_stored, ref, cursor.name)
            if found is None:
                raise _missing(ref, cursor.name)
            if found.value == moved:
                return found
            if found.value.holder != moved.holder:
                raise _moved(ref, cursor.name, found.value.cursor)
            version = found.version  # perhaps of an earlier change of this holder, whose answer was lost
            await rounds.again(failed)

    async def remove(self, ref: LogRef, name: str) -> None:
        """Remove the cursor, also one that is damaged. A consumer that comes later starts as a new one.

        Raises:
            CursorNotFoundError: the log has no such cursor.
            ContendedError: others changed it in every round.
            MetadataUnavailableError: nothing was changed.
            MetadataOutcomeUnknownError: it may have been removed.
        """
        removed = StoredCursor(holder=self._environment.token(), cursor=None)
        rounds = Rounds(self._environment, f"cursor {name} of log {ref}")
        in_doubt: LogStoreError | None = None
        while True:
            found = await self._read_after(in_doubt, self._read_value, ref, name)
            if found is not None and found.value == encode_cursor(removed):
                return
            if found is None or _is_removed(name, found.value):
                raise _missing(ref, name)
            try:
                await self._write(ref, name, removed, found.version)
            except _UNDECIDED as error:
                in_doubt = error if isinstance(error, MetadataOutcomeUnknownError) else in_doubt
                await rounds.again(error)
                continue
            return

    async def forget(self, ref: LogRef) -> None:
        """Remove everything that is stored of the cursors of a deleted log, whose path is never used again.

        Raises:
            MetadataUnavailableError, MetadataOutcomeUnknownError: something may be left.
        """
        for name in await self._store.list_records(
            metadata_keys.cursors_key(ref.root, ref.name, ref.log_uuid)
        ):
            key = _key(ref, name)
            rounds = Rounds(self._environment, f"cursor {name} of log {ref}")
            while True:
                try:
                    await self._store.remove_record(key, (await self._store.read_record(key)).version)
                except RecordNotFoundError:
                    break
                except (MetadataVersionError, MetadataOutcomeUnknownError) as error:
                    await rounds.again(error)

    # ---- parts

    async def _write(
        self, ref: LogRef, name: str, stored: StoredCursor, version: int | None
    ) -> Versioned[StoredCursor]:
        """Set it at this version, or create it (None)."""
        value = encode_cursor(stored)
        if version is None:
            return Versioned(stored, await self._store.create_record(_key(ref, name), value))
        return Versioned(stored, await self._store.write_record(_key(ref, name), value, version))

    async def _read_after(
        self,
        in_doubt: LogStoreError | None,
        read: Callable[[LogRef, str], Awaitable[_T]],
        ref: LogRef,
        name: str,
    ) -> _T:
        """Read what a change has made of it. If it cannot be read, the outcome stays unknown: raises `in_doubt`."""
        try:
            return await read(ref, name)
        except MetadataUnavailableError:
            if in_doubt is None:
                raise
            raise in_doubt from None

    async def _read_stored(self, ref: LogRef, name: str) -> Versioned[StoredCursor] | None:
        found = await self._read_value(ref, name)
        if found is None:
            return None
        try:
            return Versioned(decode_cursor(name, found.value), found.version)
        except RecordFormatError as error:
            key = _key(ref, name)
            raise RecordFormatError(
                f"the cursor under {key} cannot be decoded: {error}; or remove it with `dlog cursor rm`",
                key=key,
            ) from error

    async def _read_value(self, ref: LogRef, name: str) -> Versioned[bytes] | None:
        try:
            return await self._store.read_record(_key(ref, name))
        except RecordNotFoundError:
            return None


def _is_removed(name: str, value: bytes) -> bool:
    try:
        return decode_cursor(name, value).cursor is None
    except RecordFormatError:
        return False


def _key(ref: LogRef, name: str) -> str:
    return metadata_keys.cursor_key(ref.root, ref.name, ref.log_uuid, name)


def _missing(ref: LogRef, name: str) -> CursorNotFoundError:
    return CursorNotFoundError(
        f"log {ref} has no cursor {name!r}: opening a reader with this cursor creates it",
        log=str(ref),
        cursor=name,
    )


def _moved(ref: LogRef, name: str, now: Cursor | None) -> CursorMovedError | CursorNotFoundError:
    if now is None:
        return _missing(ref, name)
    return CursorMovedError(
        f"cursor {name!r} of log {ref} was taken over by another reader, or set: it is at {now.position} now; "
        "open a new reader to continue there",
        log=str(ref),
        cursor=name,
        position=now.position,
    )
