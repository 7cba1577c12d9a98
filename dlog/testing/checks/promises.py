"""C15, bookie by bookie: what it has answered once it keeps, over all its lives.

A fence that was answered is there after every start, and no add of a normal writer is answered well after it.
Entries whose add was answered are known after every start, and so is the LAC in them: it never decreases.
A ledger is deleted when metadata has it no more, and stays deleted.
Beside that each LAC is kept that any writer has reported: recovery must not end a ledger below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bookie_server.errors import StorageError
from bookie_server.protocol.requests import AddRun
from bookie_server.protocol.service import BookieService, OnAdded
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from dlog.testing.checks.decoded import decode_ledger_metadata
from dlog.testing.checks.instants.denials import AcknowledgedEntries
from dlog.testing.checks.transitions import values
from dlog.testing.metadata.history import RegisterHistory
from ledger.wire.status import Status


@dataclass(slots=True)
class _Promised:
    fenced: bool = False
    last_entry: int = -1
    lac: int = -1


@dataclass(slots=True)
class _AskedRun:
    """A run that is not answered yet."""

    lac: int
    """In its last entry."""
    too_late: bool
    """A fence was confirmed before it."""
    known_lac: int = -1
    """What the bookie knew of `lac` when it had taken the run."""


class BookiePromises:
    """Told what one bookie's processes answer, one process after the other."""

    def __init__(self, bookie: str, exists: Callable[[int], bool] = lambda _: False) -> None:
        """`exists`: whether metadata has a ledger now."""
        self.broken: list[str] = []
        self.broken_in_limbo: list[str] = []
        """What not even damage excuses, since the bookie knew of it."""
        self.reported_lacs: dict[int, int] = {}
        """Of each ledger the highest LAC that a writer has sent; true whatever became of the add."""
        self._bookie = bookie
        self._knows_of_damage = False
        """Whether its process began in limbo, which may be over since."""
        self._exists = exists
        self._ledgers: dict[int, _Promised] = {}
        self._deleted: dict[int, None] = {}
        self._entries = AcknowledgedEntries(self._broken)

    def has_confirmed_fence(self, ledger_id: int) -> bool:
        """Whether it refuses a normal writer's adds to this ledger for good, as it has answered."""
        promised = self._ledgers.get(ledger_id)
        return ledger_id in self._deleted or (promised is not None and promised.fenced)

    def acknowledged(self) -> dict[int, frozenset[int]]:
        """The entries of each ledger that it has acknowledged so far, and that it must have until it is deleted."""
        return self._entries.so_far()

    def hold(self, service: BookieService) -> None:
        """A process has started: compare what it knows with what was promised, and listen to what it answers."""
        for ledger_id, promised in list(self._ledgers.items()):
            try:
                state = service.storage.ledger(ledger_id)
            except StorageError:
                continue  # an error of the disk; it answers nothing
            self._compare(ledger_id, promised, state)
        for ledger_id in self._deleted:
            self._compare_deleted(service, ledger_id)
        self._knows_of_damage = service.storage.limbo
        self._entries.listen(service)
        self._listen(service)

    def _compare(self, ledger_id: int, promised: _Promised, state: StoredLedger | None) -> None:
        if state is None:
            self._broken(f"forgot ledger {ledger_id}, of which it had promised {promised}")
        elif state.deleted:
            del self._ledgers[ledger_id]
            self._entries.forget(ledger_id)
        elif promised.fenced and not state.fenced:
            self._broken(f"forgot the fence of ledger {ledger_id}")
        elif state.last_entry < promised.last_entry or state.lac < promised.lac:
            self._broken(f"had promised {promised}, but has {state} after a restart")

    def _compare_deleted(self, service: BookieService, ledger_id: int) -> None:
        try:
            state = service.storage.ledger(ledger_id)
        except StorageError:
            return
        if state is None or not state.deleted:
            self._broken(f"has ledger {ledger_id} again, which it had deleted")

    def _broken(self, text: str) -> None:
        self.broken.append(f"c15_promises_are_kept: {self._bookie} {text}")

    # ---- listening

    def _listen(self, service: BookieService) -> None:
        """Stand in front of what decides; a process that ends takes this with it."""
        storage: Any = service.storage
        outer: Any = service
        outer.add = partial(self._add, service, service.add)
        outer.ledger = partial(self._ledger, service.ledger)
        storage.fence = partial(self._fence, service.storage.fence)
        storage.delete_ledger = partial(self._delete, service.storage.delete_ledger)

    def _ledger(self, ledger: Callable[[int], StoredLedger | None], ledger_id: int) -> StoredLedger | None:
        found = ledger(ledger_id)
        if found is not None and found.fence_durable and not found.deleted:
            # A fence of an earlier process that was never confirmed: from now on it is.
            self._ledgers.setdefault(ledger_id, _Promised()).fenced = True
        return found

    def _add(
        self,
        service: BookieService,
        add: Callable[[Sequence[AddRun], OnAdded], None],
        runs: Sequence[AddRun],
        done: OnAdded,
    ) -> None:
        # By identity: runs are not hashable, and `runs` keeps them alive.
        unanswered = {id(run): self._asked(run) for run in runs}

        def answer(some: Sequence[AddRun], status: Status, refused: frozenset[int]) -> None:
            for run in some:
                asked = unanswered.pop(id(run))
                if status is Status.EOK and not refused:
                    self._added(run.ledger_id, max(run.ids), asked.known_lac)
                    self._entries.acknowledged(run.ledger_id, list(run.ids))
                    if asked.too_late:
                        self._took_too_late(run.ledger_id)
            done(some, status, refused)

        add(runs, answer)
        for run in runs:
            asked = unanswered.get(id(run))
            if asked is not None:
                # An entry that was there already stays as it is, with its LAC: recovery repeats it with another one.
                state = service.storage.ledger(run.ledger_id)
                assert state is not None, "it has accepted the add"
                asked.known_lac = min(asked.lac, state.lac)

    def _asked(self, run: AddRun) -> _AskedRun:
        lac = int.from_bytes(run.entries[-1][16:24], "big", signed=True)
        if lac > self.reported_lacs.get(run.ledger_id, -1):
            self.reported_lacs[run.ledger_id] = lac
        promised = self._ledgers.get(run.ledger_id)
        too_late = promised is not None and promised.fenced and not run.recovery
        return _AskedRun(lac, too_late)

    def _took_too_late(self, ledger_id: int) -> None:
        self._broken(f"accepted an add to ledger {ledger_id} after it had confirmed a fence")
        if self._knows_of_damage:
            self.broken_in_limbo.append(self.broken[-1])

    def _added(self, ledger_id: int, last_entry: int, lac: int) -> None:
        promised = self._ledgers.setdefault(ledger_id, _Promised())
        promised.last_entry = max(promised.last_entry, last_entry)
        promised.lac = max(promised.lac, lac)

    def _fence(
        self,
        fence: Callable[[StoredLedger, Callable[[Exception | None], None]], None],
        state: StoredLedger,
        on_durable: Callable[[Exception | None], None],
    ) -> None:
        def answer(error: Exception | None) -> None:
            if error is None:
                self._ledgers.setdefault(state.ledger_id, _Promised()).fenced = True
            on_durable(error)
            if state.fence_durable and not self.has_confirmed_fence(state.ledger_id):
                self._broken(f"takes the fence of ledger {state.ledger_id} for durable, although it is not")

        fence(state, answer)

    def _delete(
        self,
        delete: Callable[[int, Callable[[Exception | None], None]], None],
        ledger_id: int,
        on_durable: Callable[[Exception | None], None],
    ) -> None:
        if self._exists(ledger_id):
            self._broken(f"deleted ledger {ledger_id}, which still has metadata")
        self._ledgers.pop(ledger_id, None)
        self._entries.forget(ledger_id)

        def answer(error: Exception | None) -> None:
            if error is None:
                self._deleted[ledger_id] = None
            on_durable(error)

        delete(ledger_id, answer)


def c15_no_ledger_ends_below_its_lac(history: RegisterHistory, reported: Mapping[int, int]) -> Iterator[str]:
    """`reported`: the highest LAC of each ledger that any client was sent. Everything up to it stays confirmed."""
    for register, versions in values(history).items():
        if register.startswith("ledger/"):
            ledger_id = int(register.removeprefix("ledger/"))
            last = decode_ledger_metadata(versions[max(versions)])
            if last.closed and last.last_entry < reported.get(ledger_id, -1):
                yield f"ledger {ledger_id} ends at {last.last_entry}, but {reported[ledger_id]} was confirmed"
