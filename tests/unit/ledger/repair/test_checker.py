"""How a check of many copies shares the loop."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Sequence
from typing import Any, cast

import pytest

from ledger.inspection.copies import Copy, CopyState
from ledger.inspection.copy_audit import CopyAudit
from ledger.model import BookieId, DigestType, LedgerId, LedgerMetadata
from ledger.repair.copying.checker import FragmentChecker


class SilentBookie:
    """Known not to answer: an audit gives the result without a wait."""

    async def copies_on(self, _bookie_id: Any, _ledger_id: Any, _digester: Any, entries: list[int]) -> Any:
        return dict.fromkeys(entries, Copy(CopyState.UNREACHABLE, reason="it did not answer"))


class EmptyBookie:
    """Has every seventh entry, and lacks the others."""

    async def copies_on(self, _bookie_id: Any, _ledger_id: Any, _digester: Any, entries: list[int]) -> Any:
        states = (CopyState.MISSING, CopyState.INTACT, CopyState.DAMAGED)
        return {each: Copy(states[1 if each % 7 == 0 else 2 * (each % 2)]) for each in reversed(entries)}


METADATA = cast(LedgerMetadata, type("Metadata", (), {"digest_type": DigestType.CRC32C, "password": b""}))


@pytest.mark.parametrize("entry_ids", [range(5, 4_000), list(range(5, 9_000, 3))], ids=["a row", "striped"])
async def test_what_a_member_lacks_is_listed_in_order(entry_ids: Sequence[int]) -> None:
    checker = FragmentChecker(cast(CopyAudit, EmptyBookie()))
    held = await checker.lacking(LedgerId(1), METADATA, BookieId("b"), entry_ids)
    assert list(held.lacking) == [each for each in entry_ids if each % 7]


async def test_what_a_member_lacks_takes_no_memory_for_each_entry() -> None:
    class Empty:
        async def copies_on(
            self, _bookie_id: Any, _ledger_id: Any, _digester: Any, entries: list[int]
        ) -> Any:
            return dict.fromkeys(entries, Copy(CopyState.MISSING))

    checker = FragmentChecker(cast(CopyAudit, Empty()))
    tracemalloc.start()
    held = await checker.lacking(LedgerId(1), METADATA, BookieId("b"), range(100_000))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(held.lacking) == 100_000
    assert kept < 200_000


async def test_others_run_while_the_entries_of_a_silent_bookie_are_passed_over() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    checker = FragmentChecker(cast(CopyAudit, SilentBookie()))
    counting = asyncio.create_task(count_turns())
    held = await checker.lacking(LedgerId(1), METADATA, BookieId("b"), range(100_000))
    counting.cancel()
    assert not held.lacking and held.unknown == "it did not answer"
    assert turns >= 99
