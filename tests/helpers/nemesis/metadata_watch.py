"""Looks at the log's metadata again and again while the nemesis is at work, for the checks of metadata histories."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from dlog.client import LogClient
from dlog.core.metadata_keys import page_key
from dlog.format.history_page import decode_page
from dlog.format.log_metadata import encode_record
from dlog.ledger_list.page import IndexPage
from dlog.metadata.log_ref import LogRef
from dlog.model import LogMetadata, PageRef
from dlog.testing.metadata.history import RegisterHistory
from ledger.errors import LogStoreError
from ledger.metadata.format.ledger import encode_ledger_metadata, rewritten
from ledger.model import LedgerId, LedgerMetadata, Versioned

_EVERY_S = 0.1


class MetadataWatch:
    """What one more client sees; versions that came and went between two looks are missing."""

    def __init__(self, client: LogClient, log: str) -> None:
        self.history = RegisterHistory()
        self.reported_lacs: dict[int, int] = {}
        """Of each ledger the highest LAC that its bookies told."""
        self._client = client
        self._log = log
        self._closed: set[int] = set()
        self._seen_pages: set[str] = set()

    async def run(self) -> None:
        while True:
            with suppress(LogStoreError):  # what is not seen is not checked
                await self.look()
            await asyncio.sleep(_EVERY_S)

    async def look(self) -> LogMetadata:
        """Read the record, and each ledger that it lists."""
        ref = await self._client.logs.find(self._client.name(self._log))
        record = await self._record(ref)
        await self._pages(ref, record.pages)
        for listed in record.ledgers:
            if listed.ledger_id not in self._closed:
                await self._ledger(listed.ledger_id)
        return record

    async def _record(self, ref: LogRef) -> LogMetadata:
        call = self.history.invoke("watch", f"{ref}/record", "read")
        reading = self._client.logs.read(ref)
        found = await self.history.follow(call, reading, lambda it: (it.version, encode_record(it.value)))
        return found.value

    async def _pages(self, ref: LogRef, pages: Sequence[PageRef]) -> None:
        for page in pages:
            if page.name in self._seen_pages:
                continue
            key = page_key(ref.root, ref.name, ref.log_uuid, page.name)
            call = self.history.invoke("watch", f"{ref}/pages/{page.name}", "read")
            reading = self._client.ledgers.store.read_record(key)
            value = (await self.history.follow(call, reading, lambda it: (it.version, it.value))).value
            self._seen_pages.add(page.name)
            found = decode_page(value)
            if isinstance(found, IndexPage):
                await self._pages(ref, found.pages)

    async def _ledger(self, ledger_id: LedgerId) -> None:
        call = self.history.invoke("watch", f"ledger/{ledger_id}", "read")
        metadata = await self.history.follow(call, self._client.ledgers.store.read_ledger(ledger_id), _seen)
        if metadata.value.closed:
            self._closed.add(ledger_id)
        else:
            handle = await self._client.ledgers.open(ledger_id)
            try:
                lac = await handle.refresh()
            finally:
                await handle.close()
            self.reported_lacs[ledger_id] = max(lac, self.reported_lacs.get(ledger_id, -1))


def _seen(found: Versioned[LedgerMetadata]) -> tuple[int, bytes]:
    return found.version, encode_ledger_metadata(rewritten(found.value))
