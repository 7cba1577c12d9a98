"""MetadataStore on a session of the simulated server: the shared driver, plus a history of what it was asked.

As a good driver does, it registers a bookie again after its session was lost: a bookie counts as present as long
as its process lives, with a gap of at most the time until the loss was noticed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from typing import TypeAlias, TypeVar

from dlog.testing.metadata.history import Operation, RegisterCall, RegisterHistory
from dlog.testing.metadata.older_answers import OlderAnswers
from dlog.testing.metadata.session import Session
from ledger.buggify import linger
from ledger.environment import Environment
from ledger.errors import AlreadyExistsError, LogStoreError
from ledger.metadata.format.ledger import encode_ledger_metadata, rewritten
from ledger.metadata.record_keys import check_value
from ledger.metadata.store import (
    NewestLedger,
    OnLost,
    OnRenewed,
    Registration,
    Unwatch,
    Watch,
    ignore_loss,
    ignore_renewal,
)
from ledger.metadata.transactions import ledgers
from ledger.metadata.transactions.key_value import Job, Transaction
from ledger.metadata.transactions.store import KeyValueRegistration, KeyValueStore
from ledger.model import BookieInfo, LedgerId, LedgerMetadata, Versioned

_AGAIN_S = 1.0
"""Pause between two attempts to register again."""

_T = TypeVar("_T")
_Found: TypeAlias = tuple[int | None, bytes | None]
"""Version and value."""


class SimulatedStore(KeyValueStore):
    """One node's handle."""

    def __init__(self, session: Session, environment: Environment, history: RegisterHistory) -> None:
        super().__init__(session, environment)
        self._session = session
        self._history = history
        self._registrations: list[KeptRegistration] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._answers = OlderAnswers()
        session.on_reconnected = self._register_again

    # ---- presence

    async def register_bookie(
        self, info: BookieInfo, *, newest_ledger: NewestLedger | None = None
    ) -> Registration:
        registration = KeyValueRegistration(self._write_in_order, info, self._session.name)
        await registration.open(info.read_only, newest_ledger)
        kept = KeptRegistration(registration, read_only=info.read_only)
        self._registrations.append(kept)
        return kept

    async def _write_in_order(self, job: Job[_T]) -> _T:
        return await self._session.write_in_order(partial(self._in_cluster, job))

    def _register_again(self) -> None:
        for kept in self._registrations:
            task = asyncio.get_running_loop().create_task(kept.renew())
            self._tasks.append(task)
            task.add_done_callback(self._tasks.remove)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for kept in self._registrations:
            kept.forget()
        await super().close()

    # ---- history: ledgers

    async def create_new_ledger(self, metadata: LedgerMetadata) -> tuple[LedgerId, int]:
        data = check_value(encode_ledger_metadata(metadata), "metadata of a new ledger")
        call = self._invoke("", "create", value=_bytes(metadata))

        def create(tx: Transaction) -> int:
            ledger_id = ledgers.create_new(tx, data)
            # The history knows the id even if the client never learns it.
            call.register = _ledger(ledger_id)
            return ledger_id

        ledger_id = await self._change(call, self._write(create), lambda _: (0, call.value))
        return LedgerId(ledger_id), 0

    async def create_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata) -> int:
        call = self._invoke(_ledger(ledger_id), "create", value=_bytes(metadata))
        answer = super().create_ledger(ledger_id, metadata)
        return await self._change(call, answer, lambda version: (version, call.value))

    async def read_ledger(self, ledger_id: LedgerId) -> Versioned[LedgerMetadata]:
        register = _ledger(ledger_id)
        call = self._invoke(register, "read")
        began = self._answers.now(register)
        answer = super().read_ledger(ledger_id)
        found = await self._history.follow(call, answer, lambda found: (found.version, _bytes(found.value)))
        self._answers.keep(register, began, found)
        return found

    async def glance_at_ledgers(
        self, ledger_ids: Sequence[LedgerId]
    ) -> dict[LedgerId, Versioned[LedgerMetadata]]:
        began = {ledger_id: self._answers.now(_ledger(ledger_id)) for ledger_id in ledger_ids}
        found = await super().glance_at_ledgers(ledger_ids)
        for ledger_id in ledger_ids:
            if (older := self._answers.older(_ledger(ledger_id))) is not None:
                found[ledger_id] = older
            elif ledger_id in found:
                self._answers.keep(_ledger(ledger_id), began[ledger_id], found[ledger_id])
        return found

    def watch_ledger(self, ledger_id: LedgerId, watch: Watch, *, urgent: bool = False) -> Unwatch:
        reporting = self._answers.reporting(_ledger(ledger_id), watch)
        return super().watch_ledger(ledger_id, reporting, urgent=urgent)

    async def write_ledger(self, ledger_id: LedgerId, metadata: LedgerMetadata, version: int) -> int:
        call = self._invoke(_ledger(ledger_id), "write", expected=version, value=_bytes(metadata))
        answer = _slowly(super().write_ledger(ledger_id, metadata, version))
        return await self._change(call, answer, lambda version: (version, call.value))

    async def remove_ledger(self, ledger_id: LedgerId, version: int | None = None) -> None:
        call = self._invoke(_ledger(ledger_id), "remove", expected=version)
        await self._change(call, super().remove_ledger(ledger_id, version), _nothing)

    # ---- history: records

    async def create_record(self, key: str, value: bytes) -> int:
        call = self._invoke(key, "create", value=value)
        answer = super().create_record(key, value)
        return await self._change(call, answer, lambda version: (version, value))

    async def read_record(self, key: str, *, fresh: bool = True) -> Versioned[bytes]:
        call = self._invoke(key, "read")
        began = self._answers.now(key)
        answer = super().read_record(key, fresh=fresh)
        found = await self._history.follow(call, answer, lambda found: (found.version, found.value))
        older = None if fresh else self._answers.older(key)
        if older is None:
            self._answers.keep(key, began, found)
        return found if older is None else older

    def watch_record(self, key: str, watch: Watch, *, urgent: bool = False) -> Unwatch:
        return super().watch_record(key, self._answers.reporting(key, watch), urgent=urgent)

    async def write_record(self, key: str, value: bytes, version: int) -> int:
        call = self._invoke(key, "write", expected=version, value=value)
        answer = super().write_record(key, value, version)
        return await self._change(call, answer, lambda version: (version, value))

    async def remove_record(self, key: str, version: int) -> None:
        call = self._invoke(key, "remove", expected=version)
        await self._change(call, super().remove_record(key, version), _nothing)

    async def _change(self, call: RegisterCall, answer: Awaitable[_T], found: Callable[[_T], _Found]) -> _T:
        self._answers.forget(call.register)
        try:
            return await self._history.follow(call, answer, found)
        finally:
            self._answers.forget(call.register)

    def _invoke(
        self,
        register: str,
        operation: Operation,
        *,
        expected: int | None = None,
        value: bytes | None = None,
    ) -> RegisterCall:
        return self._history.invoke(self._session.node, register, operation, expected=expected, value=value)


class KeptRegistration:
    """A registration that is made again while its owner wants it.

    Invariant: its changes never overlap, as those of the ZooKeeper driver: the list that was asked for last is the one
    that it is in.
    """

    def __init__(self, registration: Registration, *, read_only: bool) -> None:
        self.on_lost: OnLost = ignore_loss
        self.on_renewed: OnRenewed = ignore_renewal
        self._registration = registration
        self._read_only = read_only
        self._wanted = True
        self._lock = asyncio.Lock()

    async def set_read_only(self, read_only: bool) -> None:
        async with self._lock:
            self._read_only = read_only
            await self._registration.set_read_only(read_only)

    async def close(self) -> None:
        self._wanted = False
        async with self._lock:
            await self._registration.close()

    def forget(self) -> None:
        self._wanted = False

    async def renew(self) -> None:
        while self._wanted:
            try:
                async with self._lock:
                    await self._registration.set_read_only(self._read_only)
                await self.on_renewed()
                return
            except AlreadyExistsError as error:
                self.on_lost(error)  # another process has taken the id
                return
            except LogStoreError:
                await asyncio.sleep(_AGAIN_S)


async def _slowly(answer: Awaitable[_T]) -> _T:
    found = await answer
    await linger("metadata.slow-ledger-answer")
    return found


def _ledger(ledger_id: int) -> str:
    return f"ledger/{ledger_id}"


@lru_cache(maxsize=64)
def _bytes(metadata: LedgerMetadata) -> bytes:
    """The metadata without the token of its creation, which a rewrite drops."""
    return encode_ledger_metadata(rewritten(metadata))


def _nothing(_: None) -> tuple[None, None]:
    return None, None
