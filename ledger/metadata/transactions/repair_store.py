"""RepairStore over any Backend: the jobs of repair.py, with the session of the handle."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Collection
from functools import partial
from typing import Protocol

from ledger.metadata.format.repair import (
    decode_check_time,
    decode_delay,
    encode_check_time,
    encode_delay,
    encode_holder,
    encode_vote,
    shown_mark,
    shown_name,
)
from ledger.metadata.refusals import checked_ledger_id
from ledger.metadata.repair_store import Candidacy, RepairLock, UnderReplicated
from ledger.metadata.transactions import repair
from ledger.metadata.transactions.key_value import Backend, Job, T
from ledger.metadata.watching import Unwatch, Watch
from ledger.model import LEDGER_ID_MAX, BookieId, LedgerId, Versioned

_PAGE_MARKS = 500


class Run(Protocol):
    """Runs a job in the cluster, and refuses where there is none."""

    def __call__(self, job: Job[T], /) -> Awaitable[T]: ...


class KeyValueRepair:
    """What memory and SQLite share."""

    def __init__(self, backend: Backend, read: Run, write: Run) -> None:
        self._backend = backend
        self._read = read
        self._write = write
        self._locked: set[LedgerId] = set()
        """By tasks of this handle: the store cannot tell them apart."""

    # ---- marks

    async def mark(self, ledger_id: LedgerId, missing: Collection[BookieId], now_ms: int) -> None:
        checked_ledger_id(ledger_id)
        await self._write(partial(repair.mark, ledger_id=ledger_id, missing=missing, now_ms=now_ms))

    async def read_mark(self, ledger_id: LedgerId) -> Versioned[UnderReplicated]:
        checked_ledger_id(ledger_id)
        node = await self._read(partial(repair.read_mark, ledger_id=ledger_id))
        return Versioned(shown_mark(ledger_id, node.value), node.version)

    async def marks(self) -> AsyncIterator[UnderReplicated]:
        first = 0
        while page := await self._read(partial(repair.page_of_marks, first=first, limit=_PAGE_MARKS)):
            for ledger_id, value in page:
                yield shown_mark(ledger_id, value)
            if page[-1][0] == LEDGER_ID_MAX:
                break
            first = page[-1][0] + 1

    def watch_marks(self, watch: Watch) -> Unwatch:
        return self._backend.watch_key(repair.MARKED, watch, urgent=False)

    # ---- locks

    async def lock(self, ledger_id: LedgerId, holder: str) -> RepairLock | None:
        checked_ledger_id(ledger_id)
        if ledger_id in self._locked:
            return None
        self._locked.add(ledger_id)
        taken = False
        try:
            session = await self._backend.session()
            taken = await self._write(
                partial(repair.lock, ledger_id=ledger_id, data=encode_holder(holder), session=session)
            )
        finally:
            if not taken:
                self._locked.discard(ledger_id)
        return KeyValueLock(self, ledger_id, session) if taken else None

    async def lock_holder(self, ledger_id: LedgerId) -> str | None:
        checked_ledger_id(ledger_id)
        found = await self._read(partial(repair.lock_holder, ledger_id=ledger_id))
        return None if found is None else shown_name(found)

    async def holds_lock(self, ledger_id: LedgerId, session: str) -> bool:
        return await self._read(partial(repair.holds_lock, ledger_id=ledger_id, session=session))

    async def clear_mark(self, ledger_id: LedgerId, version: int, session: str) -> None:
        await self._write(partial(repair.clear_mark, ledger_id=ledger_id, version=version, session=session))

    async def release(self, ledger_id: LedgerId, session: str) -> None:
        await self._write(partial(repair.release, ledger_id=ledger_id, session=session))
        # Not before: a release that is tried again would end the lock that another task of this handle has taken since.
        self._locked.discard(ledger_id)

    # ---- switches

    async def enabled(self) -> bool:
        return await self._read(lambda tx: tx.get(repair.DISABLED)) is None

    async def set_enabled(self, enabled: bool) -> None:
        if enabled:
            await self._write(lambda tx: tx.remove(repair.DISABLED))
        else:
            await self._write(lambda tx: repair.put(tx, repair.DISABLED, b""))

    async def lost_bookie_delay_s(self) -> Versioned[int] | None:
        found = await self._read(lambda tx: tx.get(repair.DELAY))
        return None if found is None else Versioned(decode_delay(found.value), found.version)

    async def set_lost_bookie_delay_s(self, delay_s: int) -> None:
        value = encode_delay(delay_s)
        await self._write(lambda tx: repair.put(tx, repair.DELAY, value))

    def watch_switches(self, watch: Watch) -> Unwatch:
        unwatch = [
            self._backend.watch_key(key, watch, urgent=False) for key in (repair.DISABLED, repair.DELAY)
        ]
        return partial(_each, unwatch)

    async def all_checked_ms(self) -> int | None:
        return await self._time(repair.CHECKED)

    async def set_all_checked_ms(self, now_ms: int) -> None:
        await self._write(lambda tx: repair.put(tx, repair.CHECKED, encode_check_time(now_ms)))

    async def placement_checked_ms(self) -> int | None:
        return await self._time(repair.PLACEMENT_CHECKED)

    async def set_placement_checked_ms(self, now_ms: int) -> None:
        await self._write(lambda tx: repair.put(tx, repair.PLACEMENT_CHECKED, encode_check_time(now_ms)))

    async def _time(self, key: str) -> int | None:
        found = await self._read(lambda tx: tx.get(key))
        return None if found is None else decode_check_time(found.value)

    # ---- the auditor

    async def stand(self, name: str) -> Candidacy:
        candidacy = KeyValueCandidacy(
            self._backend, self._write, encode_vote(name), await self._backend.session()
        )
        await candidacy.is_elected()
        return candidacy

    async def auditor(self) -> str | None:
        found = await self._read(repair.auditor)
        return None if found is None else shown_name(found)


class KeyValueLock:
    def __init__(self, store: KeyValueRepair, ledger_id: LedgerId, session: str) -> None:
        self.ledger_id = ledger_id
        self._store = store
        self._session = session

    async def is_held(self) -> bool:
        return await self._store.holds_lock(self.ledger_id, self._session)

    async def clear_mark(self, version: int) -> None:
        await self._store.clear_mark(self.ledger_id, version, self._session)

    async def release(self) -> None:
        await self._store.release(self.ledger_id, self._session)


class KeyValueCandidacy:
    def __init__(self, backend: Backend, write: Run, vote: bytes, session: str) -> None:
        self._backend = backend
        self._write = write
        self._vote = vote
        self._session = session

    async def is_elected(self) -> bool:
        return await self._write(partial(repair.stand, data=self._vote, session=self._session))

    def watch(self, watch: Watch) -> Unwatch:
        return self._backend.watch_range(repair.VOTES, watch)

    async def close(self) -> None:
        await self._write(partial(repair.withdraw, session=self._session))


def _each(calls: list[Unwatch]) -> None:
    for call in calls:
        call()
