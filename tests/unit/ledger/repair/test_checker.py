"""How a check of many copies shares the loop."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from ledger.inspection.copies import Copy, CopyState
from ledger.inspection.copy_audit import CopyAudit
from ledger.model import BookieId, DigestType, LedgerId, LedgerMetadata
from ledger.repair.copying.checker import FragmentChecker


class SilentBookie:
    """Known not to answer: an audit gives the result without a wait."""

    async def copies_on(self, _bookie_id: Any, _ledger_id: Any, _digester: Any, entries: list[int]) -> Any:
        return dict.fromkeys(entries, Copy(CopyState.UNREACHABLE, reason="it did not answer"))


async def test_others_run_while_the_entries_of_a_silent_bookie_are_passed_over() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    metadata = cast(LedgerMetadata, type("Metadata", (), {"digest_type": DigestType.CRC32C, "password": b""}))
    checker = FragmentChecker(cast(CopyAudit, SilentBookie()))
    counting = asyncio.create_task(count_turns())
    held = await checker.lacking(LedgerId(1), metadata, BookieId("b"), range(100_000))
    counting.cancel()
    assert held.lacking == () and held.unknown == "it did not answer"
    assert turns >= 99
