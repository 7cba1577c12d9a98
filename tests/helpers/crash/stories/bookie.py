"""A bookie's storage as stories use it: opened as a bookie's start does it, asked step by step, its answers noted."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any

from bookie_server.cookie import own_cookie, prove_identity
from bookie_server.disk.directory_lock import lock_directories
from bookie_server.disk.disk import Disk
from bookie_server.errors import DiskFullError, EntryConflictError, StorageClosedError, TooManyFilesError
from bookie_server.net.port import keep_port, kept_port
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.stored_entry import StoredEntry
from dlog.testing.disk.disk import SimulatedDisk
from ledger.errors import LogStoreError
from tests.helpers.bookie.storage import COMPACTED_BELOW, KEY, EntryRun, add_run, set_lac
from tests.helpers.crash.identity_scenarios import BOOKIE, PORT, Known
from tests.helpers.crash.stories.promises import (
    LedgerPromises,
    Promises,
    Version,
    check,
    entry_bytes,
    packet_bytes,
)
from tests.helpers.crash.stories.story import HOME, Step
from tests.helpers.simulation.disk import CountedEnvironment

_ANSWER_S_MAX = 60.0
"""Of virtual time; the disk needs milliseconds."""


class StoryEnvironment(CountedEnvironment):
    """Tokens, which are salts of journal files, as unlikely to repeat as the system's."""

    def token(self) -> int:
        return self.rng.getrandbits(63)


async def open_storage(disk: Disk, config: StorageConfig, known: Known, name: str) -> LedgerStorage:
    """The steps of a bookie's start in their order, without those on the network."""
    environment = StoryEnvironment(name)
    journal, ledgers = config.journal_directory, config.ledger_directory
    lock_directories(disk, config)
    if kept_port(disk, ledgers) is None:
        keep_port(disk, ledgers, PORT)
    ours = own_cookie(BOOKIE, journal, ledgers, "instance", config.more_ledger_directories)
    await prove_identity(known.store(), disk, ours, config, environment)
    return await LedgerStorage.open(config, disk, environment)


class StoryBookie:
    """One life of the storage. `promises` outlive it."""

    def __init__(
        self, storage: LedgerStorage, disk: SimulatedDisk, promises: Promises, *, full: bool
    ) -> None:
        self.storage = storage
        self.full = full
        """The disk was full, now or in an earlier life."""
        self.promises = promises
        self.excused = disk.capacity_bytes is not None
        """A fault was injected: requests may be refused, and the storage may fail."""
        self.closing = False
        """What is begun from now on may be refused, since the storage is closed."""
        self.working: set[str] = set()
        """Checkpoints and collections under way."""
        self._disk = disk
        self._pending: dict[int, int] = {}
        """Requests without an answer: their number, and the ledger of an add."""
        self._overtaken: set[int] = set()
        """Adds without an answer when a fence was answered that came after them."""
        self._count = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._wrong: list[str] = []

    # ---- steps

    async def do(self, step: Step) -> None:
        if step.do == "check":
            await self._check()
        else:
            self.begin(step)
        if step.wait_s < 0:
            await self.answered()
        elif step.wait_s:
            await asyncio.sleep(step.wait_s)
        self.require_sound()

    async def _check(self) -> None:
        try:
            await check(self.storage, self.promises)
        except LogStoreError as error:
            self._refused("a check", error)

    def begin(self, step: Step) -> None:
        """Do what the loop does for it in one go; the answer comes later."""
        match step.do:
            case "checkpoint":
                self._start("checkpoint", self.storage.checkpoint())
            case "collect":
                self._start("collection", self.storage.remove_dead_logs())
            case "compact":
                self._start("compaction", self.storage.compact(COMPACTED_BELOW))
            case "rebuild":
                self._start("rebuild", self.storage.rebuild_index())
            case "fill":
                self.excused = self.full = True
                self._disk.capacity_bytes = self._disk.used_bytes + step.number
            case "space":
                self._disk.capacity_bytes = None
                self._start("disk check", self.storage.check_disk())
            case "fill_directory":
                full = self._disk.full_directories
                full.clear()
                full.update([HOME / step.part] if step.part else [])
            case "fault":
                self.excused = self.excused or not step.part.startswith("more-")  # the others take its place
                self.full = self.full or step.kind == "no_descriptor"  # which is refused in the same way
                self._disk.faults.arm(step.kind, step.part, number=step.number)  # type: ignore[arg-type]
            case "force":
                self.storage.force(self._expect(-1))
            case _:
                self._change(step)

    def _change(self, step: Step) -> None:
        ledger_id = step.ledger
        asked = self.promises.setdefault(ledger_id, LedgerPromises())
        try:
            state = self.storage.ledger(ledger_id)
        except LogStoreError as error:
            self._refused(step.do, error)
            return
        if step.do == "delete":
            asked.deletion_asked = True
            self.storage.delete_ledger(ledger_id, self._expect(-1, partial(_note_deletion, asked)))
            return
        if state is not None and state.deleted:
            return  # as the service refuses it
        state = state or self.storage.create_ledger(ledger_id, KEY)
        match step.do:
            case "add":
                self._add(step, asked)
            case "fence":
                asked.fence_asked = True
                self.storage.fence(state, self._expect(-1, partial(self._note_fence, ledger_id, self._count)))
            case "lac":
                lac = step.lac or 0
                asked.lac_asked = max(asked.lac_asked, lac)
                asked.packets[lac] = (*asked.packets.get(lac, ()), step.size)
                done = self._expect(-1, partial(_note_lac, asked, lac))
                set_lac(self.storage, state, packet_bytes(lac, step.size), lac, done)
            case _:
                raise ValueError(step.do)

    def _add(self, step: Step, asked: LedgerPromises) -> None:
        state = self.storage.ledger(step.ledger)
        assert state is not None
        versions = {
            entry_id: Version(step.size, step.other, entry_id - 1 if step.lac is None else step.lac)
            for entry_id in step.ids
        }
        for entry_id, version in versions.items():
            known = asked.asked.get(entry_id, ())
            if version not in known:
                asked.asked[entry_id] = (*known, version)
        entries: list[StoredEntry] = [
            memoryview(entry_bytes(step.ledger, entry_id, versions[entry_id])) for entry_id in step.ids
        ]
        done = self._expect(step.ledger, partial(self._note_added, self._count + 1, asked, versions))
        add_run(self.storage, state, EntryRun(list(step.ids), entries), done)

    def _start(self, name: str, work: Coroutine[Any, Any, object]) -> None:
        async def run() -> None:
            self.working.add(name)
            try:
                await work
            except LogStoreError as error:
                self._refused(name, error)
            finally:
                self.working.discard(name)

        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- answers

    def _expect(self, ledger_id: int, note: Any = None) -> Any:
        number = self._count = self._count + 1
        self._pending[number] = ledger_id

        def done(error: Exception | None) -> None:
            if self._pending.pop(number, None) is None:
                self._wrong.append(f"request {number} was answered twice")
            if error is not None and not isinstance(error, EntryConflictError):
                self._refused("a request", error)
            elif note is not None:
                note(error)

        return done

    def _note_added(
        self,
        number: int,
        asked: LedgerPromises,
        versions: dict[int, Version],
        conflict: EntryConflictError | None,
    ) -> None:
        refused = frozenset[int]() if conflict is None else conflict.entry_ids
        for entry_id, version in versions.items():
            others = {each.payload for each in asked.asked[entry_id]} - {version.payload}
            if entry_id in refused:
                if not others:
                    self._wrong.append(f"entry {entry_id} conflicts with nothing")
                continue
            if number in self._overtaken and entry_id not in asked.acked:
                self._wrong.append(f"a later fence was answered before add {number} of entry {entry_id}")
            if asked.acked.setdefault(entry_id, version.payload) != version.payload:
                self._wrong.append(f"entry {entry_id} was acknowledged with two payloads")

    def _note_fence(self, ledger_id: int, before: int, _error: None) -> None:
        self.promises[ledger_id].fenced = True
        # What only repeats or refuses an add takes a read, and may be answered later: recovery finds the first one.
        self._overtaken |= {
            number for number, of in self._pending.items() if of == ledger_id and number <= before
        }

    def _refused(self, what: str, error: Exception) -> None:
        if self.closing and isinstance(error, StorageClosedError):
            return
        if self.storage.failed_directories and self._disk.full_directories:
            self.excused = True  # none may be left for an entry log
        if not self.excused:
            self._wrong.append(f"{what} was refused on a sound disk: {error!r}")
        elif not _is_short(error) and self.storage.failed is None and what != "rebuild":
            self._wrong.append(f"{what} got {error!r}, and the storage serves on")

    # ---- waiting

    def require_sound(self) -> None:
        assert not self._wrong, "; ".join(self._wrong)
        failed = self.storage.failed
        assert failed is None or self.excused, f"the storage failed on a sound disk: {failed!r}"

    @property
    def failed(self) -> bool:
        return self.storage.failed is not None

    async def answered(self) -> None:
        """Until every request has its answer."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _ANSWER_S_MAX
        while self._pending or self._tasks:
            assert loop.time() < until, f"{len(self._pending)} requests, {sorted(self.working)}: no answer"
            await asyncio.sleep(0.001)

    async def abandon(self) -> None:
        """The process is dead."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _is_short(error: Exception) -> bool:
    """The storage is closed, or lacks space or descriptors: then what needs a file is refused, or cannot be read."""
    return isinstance(error, DiskFullError | StorageClosedError) or isinstance(
        error.__cause__, TooManyFilesError
    )


def _note_deletion(asked: LedgerPromises, _error: None) -> None:
    asked.deleted = True


def _note_lac(asked: LedgerPromises, lac: int, _error: None) -> None:
    asked.lac_acked = max(asked.lac_acked, lac)
