"""Cursors of logs in the metadata store: taken over, moved by the one who holds it, set, removed.

Invariant (docs/log-semantics.md#rule-35): only its last holder moves a cursor, so a consumer that was replaced, or
whose cursor was set, cannot undo that. A holder's number is in what it writes; so after a lost answer a read shows
whether the change was made.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from dlog.core import metadata_keys
from dlog.errors import CursorMovedError, CursorNotFoundError, RecordFormatError
from dlog.format.cursor import decode_cursor, encode_cursor
from dlog.metadata.log_ref import LogRef
from dlog.metadata.value import UNDECIDED, cannot_be_decoded, change_value, forget_value, read_value, still
from dlog.model import Cursor, MessageId, StoredCursor
from dlog.together import each
from ledger.environment import Environment
from ledger.errors import LogStoreError, MetadataOutcomeUnknownError
from ledger.metadata.rounds import Rounds
from ledger.metadata.store import MetadataStore
from ledger.model import Versioned

Decide = Callable[[Versioned[bytes] | None], Awaitable[bytes | None]]


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
        found = await self._read(ref, name)
        if found is None or found.value.cursor is None:
            raise _missing(ref, name)
        return found.value.cursor

    async def all(self, ref: LogRef) -> list[Cursor]:
        """The log's cursors, sorted by name.

        Raises:
            RecordFormatError: one is damaged.
        """
        found = await each(await self._names(ref), lambda name: self._read(ref, name))
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

        async def decide(found: Versioned[bytes] | None) -> bytes | None:
            stored = _decoded(ref, name, found)
            if stored is not None and stored.value.holder == holder:
                return None
            before = None if stored is None else stored.value.cursor
            if before is None:
                before = Cursor(name=name, position=await begin())
            cursor = replace(change(before), updated_us=self._environment.wall_us())
            return encode_cursor(StoredCursor(holder=holder, cursor=cursor))

        taken = _decoded(ref, name, await self._change(ref, name, decide))
        assert taken is not None, "it was just taken"
        return taken

    async def move(
        self, ref: LogRef, cursor: Cursor, stored: Versioned[StoredCursor]
    ) -> Versioned[StoredCursor]:
        """Store the cursor as its holder moved it. On return it is durable.

        `stored`: the holder's last change, as far as it knows.

        Raises:
            CursorMovedError: another reader has taken it over, or it was set.
            CursorNotFoundError: it was removed, perhaps with its log.
            MetadataUnavailableError: nothing was changed.
            MetadataOutcomeUnknownError: it may have been moved.
        """
        moved, version = replace(stored.value, cursor=cursor), stored.version
        key = _key(ref, cursor.name)
        rounds = Rounds(self._environment, _subject(ref, cursor.name))
        in_doubt: LogStoreError | None = None
        while True:
            with still(in_doubt):
                try:
                    return Versioned(
                        moved, await self._store.write_record(key, encode_cursor(moved), version)
                    )
                except UNDECIDED as error:
                    in_doubt = error if isinstance(error, MetadataOutcomeUnknownError) else in_doubt
                    failed = error
            with still(in_doubt):
                found = _decoded(ref, cursor.name, await read_value(self._store, key))
            if found is None:
                raise _missing(ref, cursor.name)
            if found.value == moved:
                return found
            if found.value.holder != moved.holder:
                raise _moved(ref, cursor.name, found.value.cursor)
            version = found.version  # perhaps of an earlier change of this holder, whose answer was lost
            await rounds.again(in_doubt or failed)

    async def remove(self, ref: LogRef, name: str) -> None:
        """Remove the cursor, also one that is damaged. A consumer that comes later starts as a new one.

        Raises:
            CursorNotFoundError: the log has no such cursor.
            RecordFormatError: a later release has written it.
            ContendedError: others changed it in every round.
            MetadataUnavailableError: nothing was changed.
            MetadataOutcomeUnknownError: it may have been removed.
        """
        removed = encode_cursor(StoredCursor(holder=self._environment.token(), cursor=None))

        async def decide(found: Versioned[bytes] | None) -> bytes | None:
            if found is not None and found.value == removed:
                return None
            if found is None or _is_removed(ref, name, found):
                raise _missing(ref, name)
            return removed

        await self._change(ref, name, decide)

    async def forget(self, ref: LogRef) -> None:
        """Remove everything that is stored of the cursors of a deleted log, whose path is never used again.

        Raises:
            MetadataUnavailableError, MetadataOutcomeUnknownError: something may be left.
        """
        for name in await self._names(ref):
            await forget_value(self._store, self._environment, _key(ref, name), _subject(ref, name))

    # ---- parts

    async def _names(self, ref: LogRef) -> list[str]:
        return await self._store.list_records(metadata_keys.cursors_key(ref.root, ref.name, ref.log_uuid))

    async def _read(self, ref: LogRef, name: str) -> Versioned[StoredCursor] | None:
        return _decoded(ref, name, await read_value(self._store, _key(ref, name)))

    async def _change(self, ref: LogRef, name: str, decide: Decide) -> Versioned[bytes] | None:
        return await change_value(
            self._store, self._environment, _key(ref, name), _subject(ref, name), decide
        )


def _decoded(ref: LogRef, name: str, found: Versioned[bytes] | None) -> Versioned[StoredCursor] | None:
    if found is None:
        return None
    try:
        return Versioned(decode_cursor(name, found.value), found.version)
    except RecordFormatError as error:
        else_ = ", or remove the cursor with `dlog cursor rm`"
        raise cannot_be_decoded("the cursor", _key(ref, name), error, else_) from error


def _is_removed(ref: LogRef, name: str, found: Versioned[bytes]) -> bool:
    """RecordFormatError: a later release has written it."""
    try:
        stored = _decoded(ref, name, found)
    except RecordFormatError as error:
        if error.newer_version is not None:
            raise
        return False
    return stored is not None and stored.value.cursor is None


def _key(ref: LogRef, name: str) -> str:
    return metadata_keys.cursor_key(ref.root, ref.name, ref.log_uuid, name)


def _subject(ref: LogRef, name: str) -> str:
    return f"cursor {name} of log {ref}"


def _missing(ref: LogRef, name: str) -> CursorNotFoundError:
    return CursorNotFoundError(
        f"log {ref} has no cursor {name!r}: check the name (`dlog cursor ls` lists them); a reader that is opened with "
        "a new name creates it",
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
