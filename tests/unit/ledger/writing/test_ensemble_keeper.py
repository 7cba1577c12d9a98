"""The keeper's changes of metadata whose outcome is unknown."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ledger.config import LedgerClientConfig
from ledger.environment import SystemEnvironment
from ledger.errors import MetadataOutcomeUnknownError, MetadataUnavailableError
from ledger.metadata.drivers import open_store
from ledger.model import BookieId, EntryId, Fragment, LedgerMetadata, QuorumSizes
from ledger.writing.ensemble_keeper import EnsembleKeeper
from tests.helpers.metadata.lossy_store import Fate, LossyStore

B = [BookieId(f"b{number}:1") for number in range(8)]


class _StoreAwayAfterLoss(LossyStore):
    """Once the answer to a write was lost, nothing can be read until `read_error` is cleared."""

    async def write_ledger(self, *given: Any) -> int:
        try:
            return await super().write_ledger(*given)
        except MetadataOutcomeUnknownError:
            self.read_error = MetadataUnavailableError("the store is away")
            raise


async def test_a_change_that_was_sent_after_a_repair_is_decided_although_it_arrives_late() -> None:
    """Taken for decided while it is under way, it would put another bookie in the place of one that was taken back."""
    store = await open_store("memory:settle-after-repair")
    await store.init_cluster()
    fragments = (Fragment(EntryId(0), tuple(B[:3])), Fragment(EntryId(5), (B[0], B[1], B[3])))
    ledger_id, _ = await store.create_new_ledger(LedgerMetadata(quorum=QuorumSizes(), fragments=fragments))
    local = await store.read_ledger(ledger_id)
    repaired = (Fragment(EntryId(0), (B[0], B[1], B[7])), fragments[1])
    await store.write_ledger(ledger_id, replace(local.value, fragments=repaired), local.version)

    # The first is refused because of the repair; the second is sent at the version of the repair.
    lossy = _StoreAwayAfterLoss(store, [Fate.ANSWERED, Fate.LATE])
    handle: Any = SimpleNamespace(
        ledger_id=ledger_id,
        local=local,
        metadata_lock=asyncio.Lock(),
        finished=lambda: False,
        fail=lambda error: pytest.fail(str(error)),
    )
    machine = SimpleNamespace(freeze=lambda: EntryId(9), thaw=list, lac=8)
    stream: Any = SimpleNamespace(
        machine=machine, execute=lambda commands: None, change_ensemble=lambda fragment: True
    )
    context: Any = SimpleNamespace(store=lossy, config=LedgerClientConfig(), environment=SystemEnvironment())
    keeper = EnsembleKeeper(handle, stream, context)
    with pytest.raises(MetadataOutcomeUnknownError):
        await keeper._change({2: (B[3], B[5])})
    assert keeper._unsettled

    lossy.read_error = None
    await keeper._settle()
    assert not keeper._unsettled
    await lossy.settle()
    stored = await store.read_ledger(ledger_id)
    assert stored == handle.local
    await store.close()
