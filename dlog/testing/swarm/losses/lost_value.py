"""A log one of whose values in the metadata store is lost or damaged for a while, at the end of a run.

Each use that needs the value raises an error that names it, and the others work as before. No use makes it worse: once
the value is back, as from a backup, everything is as it was, and what was acknowledged in the meantime is there too.

Source: docs/log-semantics.md#rule-5, #rule-35.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.errors import LogNotFoundError, OwnerUnresponsiveError, RecordFormatError
from dlog.metadata.log_ref import LogRef
from dlog.model import Message, MessageId
from dlog.read.config import ReaderConfig
from dlog.testing.metadata.server import SimulatedMetadata
from dlog.testing.swarm.losses.loss_check import KEEPS_ALL, Connect, LossCheck
from dlog.write.writer import LogWriter
from ledger.errors import LogStoreError, OutcomeUnknownError

_CURSOR, _OTHER = "kept", "other"
"""The one that is lost with "cursor", and one that never is."""
_PROPERTIES = {"owner": "swarm"}
_LOG: frozenset[str] = frozenset(("record", "name"))
"""What most uses need."""
_WITH_CURSOR: frozenset[str] = _LOG | {"cursor"}
_WITH_RETENTION: frozenset[str] = _LOG | {"retention"}
_NOTHING: frozenset[str] = frozenset()
_ONLY_CURSORS: frozenset[str] = frozenset(("name", "cursor"))
_ONLY_PROPERTIES: frozenset[str] = frozenset(("name", "properties"))
_ONLY_RETENTION: frozenset[str] = frozenset(("name", "retention"))


@dataclass(frozen=True, slots=True)
class _Use:
    """One thing to do with the log, and the values without which it must not be done."""

    name: str
    do: Callable[[], Awaitable[object]]
    needs: frozenset[str] = _LOG
    expected: object = None
    """What it returns otherwise; None: anything."""


class LostValue(LossCheck):
    """Takes one value away, or changes its bytes, uses the log, and puts the value back."""

    def __init__(
        self,
        connect: Connect,
        log: str,
        chance: Random,
        config: ReaderConfig,
        *,
        metadata: SimulatedMetadata,
        value: str,
    ) -> None:
        """`value`: record, name, cursor, properties or retention."""
        super().__init__(connect, log, chance, config, metadata=metadata)
        self.what = f"a lost {value}"
        self._value = value
        self._ref: LogRef
        self._before: list[Message] = []
        self._acked: set[bytes] = set()
        """Payloads that were acknowledged during the loss, and those whose outcome is unknown."""
        self._in_doubt: set[bytes] = set()

    async def check(self) -> list[str]:
        """What must not have happened."""
        owner = await self._connect()
        try:
            writer = await self._prepare(owner)
            key = self._key()
            saved = self._metadata.replace_record(key, None)
            assert saved is not None, f"{key} was just written"
            damaged = self._damaged(saved)
            if damaged is not None:
                self._metadata.replace_record(key, damaged)
            self._client = await self._connect()
            try:
                await self._use_it(writer, key)
                self._metadata.replace_record(key, saved)
                await self._close(writer)
                await self._everything_is_there()
                await self._delete()
            finally:
                await self._client.close()
        finally:
            await owner.close()
        return self._wrong[:1]

    # ---- the loss

    async def _prepare(self, owner: LogClient) -> LogWriter:
        """A log with all values, and a writer that owns it."""
        self._client = owner
        await self._keep_everything()
        writer: LogWriter = await self._again(lambda: owner.open_writer(self._log))
        await self._append_to(writer, b"before the loss")
        self._before = await self._whole()
        self._acked -= {one.payload for one in self._before if one.payload}  # the last may be readable later
        self._ref = (await self._again(lambda: owner.describe(self._log))).ref
        for cursor in (_CURSOR, _OTHER):
            position = self._chance.choice(self._before).id
            await self._again(partial(owner.set_cursor, self._log, cursor, position))
        await self._again(lambda: owner.update_properties(self._log, _PROPERTIES))
        self._positions = await self._again(self._cursors)
        return writer

    def _key(self) -> str:
        where = (self._ref.root, self._ref.name, self._ref.log_uuid)
        match self._value:
            case "name":
                return metadata_keys.name_key(*where[:2])
            case "record":
                return metadata_keys.record_key(*where)
            case "cursor":
                return metadata_keys.cursor_key(*where, _CURSOR)
            case "properties":
                return metadata_keys.properties_key(*where)
            case _:
                return metadata_keys.retention_key(*where)

    def _damaged(self, value: bytes) -> bytes | None:
        """What is in its place: None if nothing, which only the name proves of a record, and nothing of the others."""
        ways = ["flip", "cut", "replace"] + (["remove"] if self._value == "record" else [])
        at = self._chance.randrange(len(value))
        match self._chance.choice(ways):
            case "flip":
                return value[:at] + bytes((value[at] ^ 1 << self._chance.randrange(8),)) + value[at + 1 :]
            case "cut":
                return value[:at]
            case "replace":
                return self._chance.randbytes(at)
            case _:
                return None

    # ---- what is done with it

    def _uses(self) -> list[_Use]:
        client, log = self._client, self._log
        some = self._chance.choice(self._before).id
        return [
            _Use("read", self._read_all),
            _Use("read from a cursor", lambda: self._items(cursor=_CURSOR), _WITH_CURSOR),
            _Use("read from another cursor", lambda: self._items(cursor=_OTHER)),
            _Use("read the last", lambda: self._items(last=1)),
            _Use("open a writer", self._append),
            _Use("open a writer, or create the log", partial(self._append, create=True)),
            _Use("describe", lambda: client.describe(log)),
            _Use("overview", lambda: client.overview(log)),
            _Use("list the ledgers", lambda: client.list_ledgers(log)),
            _Use("history", lambda: client.history(log)),
            _Use("verify", lambda: client.verify(log)),
            _Use("explain", lambda: client.explain(log, some)),
            _Use("resolve", lambda: client.resolve(log, some)),
            _Use("rotate", self._rotate),
            _Use("shrink", lambda: client.shrink(log, self._before[0].id)),
            _Use("collect", lambda: client.collect(log)),
            _Use("list", self._listed, _NOTHING, expected=True),
            _Use("sweep", lambda: client.admin.sweep(age_s=0.0), _NOTHING),
            _Use("cursors", self._cursors, _ONLY_CURSORS, expected=self._positions),
            _Use("lag of a cursor", lambda: client.cursor_lag(log, _CURSOR), _WITH_CURSOR),
            _Use("set a cursor", lambda: client.set_cursor(log, _OTHER, self._positions[_OTHER])),
            _Use("properties", lambda: client.properties(log), _ONLY_PROPERTIES, expected=_PROPERTIES),
            _Use("store properties", self._store_properties, _ONLY_PROPERTIES),
            _Use("retention", lambda: client.retention(log), _ONLY_RETENTION, expected=KEEPS_ALL),
            _Use("plan a retention", lambda: client.plan_retention(log), _WITH_RETENTION),
            _Use("retain", lambda: client.apply_retention(log), _WITH_RETENTION),
            *(
                _Use(name, end)
                for name, end in (("seal", lambda: client.seal(log)), ("delete", lambda: client.delete(log)))
                if self._value in _LOG
            ),
        ]

    async def _use_it(self, writer: LogWriter, key: str) -> None:
        uses = self._uses()
        self._chance.shuffle(uses)
        for use in uses:
            await self._append_as_owner(writer)
            self._lose_an_answer()
            needed = self._value in use.needs
            try:
                found = await self._again(use.do)
            except RecordFormatError as error:
                if not needed:
                    self._say(f"{use.name}, which does not need it, raised {error!r}")
                elif error.key != key:
                    self._say(f"{use.name} raised {error!r}, which does not name {key}")
            else:
                if needed:
                    self._say(f"{use.name} returned {found!r}")
                elif use.expected not in (None, found):
                    self._say(f"{use.name} returned {found!r} for {use.expected!r}")
        self._metadata.faults.disarm()

    async def _read_all(self) -> None:
        found = [one for one in await self._items() if isinstance(one, Message)]
        self._expect("what was there before", found[: len(self._before)], self._before)

    async def _append(self, **options: Any) -> None:
        payload = b"during the loss %d" % self._chance.getrandbits(64)
        async with self._client.open_writer(self._log, **options) as writer:
            await self._append_to(writer, payload)

    async def _append_as_owner(self, writer: LogWriter) -> None:
        with suppress(LogStoreError):  # it was deposed by a use, or has met the loss
            await self._append_to(writer, b"of the owner %d" % self._chance.getrandbits(64))

    async def _append_to(self, writer: LogWriter, payload: bytes) -> None:
        try:
            await writer.append(payload)
        except OutcomeUnknownError:
            self._in_doubt.add(payload)
            raise
        self._acked.add(payload)

    async def _listed(self) -> bool:
        return self._log in await self._client.list()

    async def _cursors(self) -> dict[str, MessageId]:
        found = await self._client.cursors(self._log)
        return {one.name: one.position for one in found if one.name in (_CURSOR, _OTHER)}

    async def _rotate(self) -> None:
        with suppress(OwnerUnresponsiveError):  # the store may take longer than owners are waited for
            await self._client.rotate(self._log)

    async def _store_properties(self) -> None:
        await self._client.update_properties(self._log, _PROPERTIES | {"more": "text"})
        await self._client.update_properties(self._log, {"more": None})

    # ---- the end

    async def _close(self, writer: LogWriter) -> None:
        with suppress(LogStoreError):  # its appends were looked at one by one
            await self._again(writer.close)

    async def _everything_is_there(self) -> None:
        """After a takeover, which makes readable whatever was acknowledged."""
        await self._again(self._append)
        found = await self._whole()
        self._expect("what was there before", found[: len(self._before)], self._before)
        later = [one.payload for one in found[len(self._before) :]]
        missing, strange = self._acked - {*later}, {*later} - self._acked - self._in_doubt
        if missing or strange or len(later) != len({*later}):
            self._say(f"once it was back, {missing} was missing, and the log had {later}")
        for what, now, before in (
            ("cursors", await self._again(self._cursors), self._positions),
            ("properties", await self._again(lambda: self._client.properties(self._log)), _PROPERTIES),
            ("retention", await self._again(lambda: self._client.retention(self._log)), KEEPS_ALL),
        ):
            if now != before:
                self._say(f"once it was back, the {what} were {now} instead of {before}")

    async def _delete(self) -> None:
        """Completely, whatever answer is lost."""
        self._lose_an_answer(requests=40)
        try:
            deleted = await self._again(lambda: self._client.delete(self._log))
        except LogNotFoundError:
            deleted = True  # by an attempt whose answer was lost
        self._metadata.faults.disarm()
        where = metadata_keys.name_key(self._ref.root, self._ref.name)
        await self._again(self._client.sweep)  # removes what the deletion had to leave
        left = await self._again(lambda: self._client.ledgers.store.list_records(where))
        if deleted and self._ref.log_uuid in left:
            self._say(f"a log that was deleted has left something under {where}/{self._ref.log_uuid}")
