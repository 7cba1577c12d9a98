"""What the list of a record without pages answers, without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from dlog.core.metadata_changes import shrunk
from dlog.core.tailing import Tailing
from dlog.ledger_list.ledger_list import LedgerList
from dlog.ledger_list.page import Page
from dlog.ledger_list.trim_cut import TrimCut
from dlog.ledger_list.window import ListWindow
from dlog.model import LogMetadata, MessageId, PageRef

T = TypeVar("T")


async def _no_page(ref: PageRef) -> Page:
    raise AssertionError(f"the record refers to page {ref.name}")


def list_of(record: LogMetadata) -> LedgerList:
    """The list of a record without pages: its methods never wait."""
    return LedgerList(record, _no_page)


def now(call: Coroutine[Any, Any, T]) -> T:
    """The result of a call that does not wait for anything."""
    try:
        call.send(None)
    except StopIteration as end:
        found: T = end.value
        return found
    raise AssertionError("the call waits")


def window_of(record: LogMetadata, ledger_id: int = 0) -> ListWindow:
    return now(list_of(record).window(ledger_id))


def cut_of(record: LogMetadata, before: MessageId) -> TrimCut | None:
    return now(list_of(record).trim_cut(before))


def show(machine: Tailing, record: LogMetadata) -> None:
    """As a reader reports a record to its machine."""
    machine.on_record(record, window_of(record, machine.position.ledger_id))


def trimmed(
    record: LogMetadata, before: MessageId, *, nonce: int = 5, last_count: int | None = None
) -> LogMetadata:
    """The record after a trim."""
    return shrunk(record, before, cut_of(record, before), nonce, last_count=last_count)
