"""Locks of ledgers, on a session whose answers are lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ledger.errors import MetadataOutcomeUnknownError, MetadataUnavailableError
from ledger.metadata.zookeeper.repair.locks import Locks
from ledger.model import LedgerId


class _LosingSession:
    session_id = 7

    async def create(self, path: str, value: bytes, *, ephemeral: bool) -> str:
        raise MetadataOutcomeUnknownError("the answer was lost")

    async def exists(self, path: str) -> Any:
        raise MetadataUnavailableError("there is no connection")


async def test_a_lock_that_may_be_held_is_not_reported_as_certainly_not_taken() -> None:
    session: Any = _LosingSession()

    async def change(what: str, apply: Any) -> Any:
        return await apply()

    tree: Any = SimpleNamespace(
        session=session, change=change, paths=SimpleNamespace(under_replication="/ledgers/underreplication")
    )
    marks: Any = None
    with pytest.raises(MetadataOutcomeUnknownError):
        await Locks(tree, marks).lock(LedgerId(1), "worker")
