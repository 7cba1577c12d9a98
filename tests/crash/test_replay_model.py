"""Random operations with kills in between, against a model: replay is exact, and replaying again too."""

import asyncio
import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.storage.ledgers.stored_ledger import StoredLedger
from tests.helpers.bookie.storage import (
    COMPACTED_BELOW,
    KEY,
    add,
    copy_as_after_kill,
    durable,
    fence,
    found_ids,
    open_storage,
    set_lac,
)

ledgers = st.integers(0, 2)
ID_MAX = 30


class StorageModel(RuleBasedStateMachine):
    """Every operation is awaited until durable, so the model says exactly what must be there."""

    single_write_bytes_min = 0

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = Path(tempfile.mkdtemp(prefix="storage-model-"))
        self.copies = 0
        self.storage: LedgerStorage
        self.entries: dict[int, set[int]] = {}
        self.fenced: set[int] = set()
        self.deleted: set[int] = set()
        self.lacs: dict[int, int] = {}

    @property
    def directory(self) -> Path:
        return self.root / str(self.copies)

    @initialize()
    def start(self) -> None:
        self.storage = self.runner.run(
            open_storage(self.directory, single_write_bytes_min=self.single_write_bytes_min)
        )

    def state(self, ledger_id: int) -> StoredLedger:
        state = self.storage.ledger(ledger_id)
        if state is None:
            assert ledger_id not in self.entries
            state = self.storage.create_ledger(ledger_id, KEY)
            self.entries[ledger_id] = set()
        return state

    @rule(ledger_id=ledgers, ids=st.sets(st.integers(0, ID_MAX), min_size=1, max_size=8))
    def add(self, ledger_id: int, ids: set[int]) -> None:
        state = self.state(ledger_id)
        if not state.deleted:
            self.runner.run(add(self.storage, state, sorted(ids)))
            self.entries[ledger_id] |= ids

    @rule(ledger_id=ledgers)
    def fence(self, ledger_id: int) -> None:
        state = self.state(ledger_id)
        if not state.deleted:
            self.runner.run(fence(self.storage, state))
            self.fenced.add(ledger_id)

    @rule(ledger_id=ledgers, lac=st.integers(0, ID_MAX))
    def set_explicit_lac(self, ledger_id: int, lac: int) -> None:
        state = self.state(ledger_id)
        if not state.deleted:
            self.runner.run(durable(lambda done: set_lac(self.storage, state, b"packet %d" % lac, lac, done)))
            self.lacs[ledger_id] = max(lac, self.lacs.get(ledger_id, -1))

    @rule(ledger_id=st.just(2))
    def delete(self, ledger_id: int) -> None:
        self.state(ledger_id)
        self.runner.run(durable(lambda done: self.storage.delete_ledger(ledger_id, done)))
        self.deleted.add(ledger_id)
        self.entries[ledger_id] = set()

    @rule()
    def checkpoint(self) -> None:
        self.runner.run(self.storage.checkpoint())

    @rule()
    def remove_dead_logs(self) -> None:
        self.runner.run(self.storage.remove_dead_logs())

    @rule()
    def compact(self) -> None:
        self.runner.run(self.storage.compact(COMPACTED_BELOW))

    @rule(times=st.integers(1, 3))
    def kill(self, times: int) -> None:
        """Killed, several times in a row: the next process finds the files as they are."""
        for _ in range(times):
            self.restart(clean=False)

    @rule()
    def close(self) -> None:
        self.restart(clean=True)

    def restart(self, *, clean: bool) -> None:
        old, source = self.storage, self.directory
        if clean:
            self.runner.run(old.close())
        self.copies += 1
        copy_as_after_kill(source, self.directory)
        if not clean:
            self.runner.run(old.close())
        shutil.rmtree(source)
        self.storage = self.runner.run(
            open_storage(self.directory, single_write_bytes_min=self.single_write_bytes_min)
        )

    @invariant()
    def holds_exactly_what_was_acknowledged(self) -> None:
        for ledger_id, ids in self.entries.items():
            state = self.storage.ledger(ledger_id)
            assert state is not None
            assert state.deleted == (ledger_id in self.deleted)
            if state.deleted:
                continue
            assert state.fenced == (ledger_id in self.fenced)
            assert state.explicit_lac_value == self.lacs.get(ledger_id, -1)
            assert state.last_entry == max(ids, default=-1)
            assert self.runner.run(found_ids(self.storage, ledger_id, ID_MAX + 2)) == sorted(ids)
        alive = [ledger_id for ledger_id in sorted(self.entries) if ledger_id not in self.deleted]
        assert list(self.storage.ledger_ids()) == alive

    def teardown(self) -> None:
        if hasattr(self, "storage"):
            self.runner.run(self.storage.close())
        self.runner.close()
        shutil.rmtree(self.root)


class SingleWriteModel(StorageModel):
    """The same, of a storage that writes some entries once."""

    single_write_bytes_min = 200


TestStorageModel = StorageModel.TestCase
TestSingleWriteModel = SingleWriteModel.TestCase
TestSingleWriteModel.settings = settings(
    max_examples=25, stateful_step_count=25, deadline=None, derandomize=True
)
TestStorageModel.settings = settings(max_examples=25, stateful_step_count=25, deadline=None, derandomize=True)
