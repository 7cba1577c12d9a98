"""A log of which trimmed ledgers are still listed, in pages."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

import pytest

from dlog.client import LogClient
from dlog.ledger_list.listing import SHORT_SIZES
from dlog.metadata import store
from dlog.model import MessageId, PageRef


class TrimTo(StrEnum):
    """Where the trim position is, next to the first ledger that it keeps."""

    BEFORE_LEDGER = "before the ledger, at an id that is not listed"
    LEDGER = "at the beginning of the ledger"
    INSIDE_LEDGER = "inside the ledger"


def keep_trimmed_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As while too many ledgers wait for their deletion: those of the record stay listed until they are in a page."""
    monkeypatch.setattr(store, "DEFAULT_SIZES", replace(SHORT_SIZES, pending_max=0))


async def append_and_trim(client: LogClient, log: str, to: TrimTo) -> list[PageRef]:
    """A log of some ledgers with two messages each. Returns pages that list ledgers, all of them trimmed.

    Every other ledger id is of another log.
    """
    async with (
        client.open_writer(log, create=True) as writer,
        client.open_writer("other", create=True) as other,
    ):
        for ledger in range(8):
            first = await writer.append(b"one")
            second = await writer.append(b"two")
            if ledger == 4:  # the first one of its page
                positions = {
                    TrimTo.BEFORE_LEDGER: MessageId(first.ledger_id - 1, 0, 0),
                    TrimTo.LEDGER: first,
                    TrimTo.INSIDE_LEDGER: second,
                }
                await client.shrink(log, positions[to])
            await other.append(b"")
            await other.rotate()
            await writer.rotate()
    ref, record = (info := await client.describe(log)).ref, info.record
    ledgers = client.logs.ledger_list(ref, record)
    found: dict[PageRef, None] = {}
    async for listed in ledgers.walk():
        page = await ledgers.ref_to_page(0, listed.ledger_id)
        if page is not None and page.last_id < record.trim_before.ledger_id:
            found[page] = None
    return list(found)
