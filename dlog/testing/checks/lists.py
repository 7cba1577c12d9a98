"""The whole ledger list of a record, also of its pages, from the history of the metadata store."""

from __future__ import annotations

from collections.abc import Sequence

from dlog.ledger_list.page import LedgerPage, ref_to
from dlog.model import ListedLedger, LogMetadata, PageRef
from dlog.testing.checks.decoded import decode_page, decode_record
from dlog.testing.metadata.history import RegisterHistory


class WholeLists:
    """The lists of all versions of one log's record. `LookupError`: a page that is needed was never written.

    A page's name is used once: what was written first is the page, and later values are damage.
    """

    def __init__(self, history: RegisterHistory, record_register: str) -> None:
        prefix = record_register.removesuffix("record") + "pages/"
        self._pages = {
            call.register.removeprefix(prefix): call.value
            for call in reversed(history.calls)
            if call.operation != "remove" and call.register.startswith(prefix) and call.value is not None
        }
        self._ids: dict[bytes, frozenset[int]] = {}

    def ids_in(self, value: bytes) -> frozenset[int]:
        """The ids that an encoded record lists."""
        found = self._ids.get(value)
        if found is None:
            found = frozenset(each.ledger_id for each in self.of(decode_record(value)))
            self._ids[value] = found
        return found

    def of(self, record: LogMetadata) -> tuple[ListedLedger, ...]:
        """Every listed ledger, ascending."""
        in_pages = (one for one in self._below(record.pages) if one.ledger_id >= record.first_id)
        return (*in_pages, *record.ledgers)

    def _below(self, refs: Sequence[PageRef]) -> list[ListedLedger]:
        found: list[ListedLedger] = []
        for ref in refs:
            if ref.name not in self._pages:
                raise LookupError(f"page {ref.name} was never written")
            page = decode_page(self._pages[ref.name])
            if ref_to(ref.name, page) != ref:
                raise LookupError(f"page {ref.name} holds something else than the record says")
            found += page.ledgers if isinstance(page, LedgerPage) else self._below(page.pages)
        return found
