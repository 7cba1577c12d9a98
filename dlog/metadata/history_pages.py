"""Pages of logs' histories in the metadata store: written before a record refers to them, removed when none does.

Invariant: a page's name has the version at which its record's change was sent, and the nonce of that change. Once the
record has a later version and does not refer to the page, no record ever will.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from dlog.core import metadata_keys
from dlog.core.tailing import READ_PAST
from dlog.errors import HistoryPageError, RecordFormatError
from dlog.format.history_page import decode_page, encode_page
from dlog.ledger_list.ledger_list import LedgerList
from dlog.ledger_list.listing import NamedPage
from dlog.ledger_list.page import Page, ref_to
from dlog.ledger_list.trim_cut import PENDING_MAX
from dlog.metadata.log_ref import LogRef
from dlog.model import LogMetadata, PageRef
from ledger.environment import Environment
from ledger.errors import (
    AlreadyExistsError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
    MetadataVersionError,
    RecordNotFoundError,
)
from ledger.metadata.rounds import Rounds
from ledger.metadata.store import MetadataStore

PAGES_KEPT = 64


def page_name(level: int, first_id: int, version: int, nonce: int) -> str:
    """The name of a page of a change that is sent at this version with this nonce."""
    return f"{level}-{first_id}-{version}-{nonce:x}"


def _parts(name: str) -> tuple[int, int, int] | None:
    """Level, first id and version of a page's name; None for another name."""
    parts = name.split("-")
    if len(parts) != 4 or not all(part.isdecimal() and part.isascii() for part in parts[:3]):
        return None
    return int(parts[0]), int(parts[1]), int(parts[2])


class HistoryPages:
    """Pages of any log. Those read last are kept: a page never changes."""

    def __init__(self, store: MetadataStore, environment: Environment) -> None:
        self._store = store
        self._environment = environment
        self._kept: OrderedDict[tuple[str, str], Page] = OrderedDict()

    def ledger_list(self, ref: LogRef, record: LogMetadata, pending_max: int = PENDING_MAX) -> LedgerList:
        """The list of this record. Its methods raise what `read` raises."""

        async def read(page: PageRef) -> Page:
            return await self.read(ref, page)

        return LedgerList(record, read, pending_max)

    async def read(self, ref: LogRef, page: PageRef) -> Page:
        """The page that a record or another page refers to.

        Raises:
            HistoryPageError: it does not exist, is damaged, or is another one. A page is removed only after no record
                refers to it, so a record that was read later shows whether it is lost.
        """
        key = (ref.log_uuid, page.name)
        found = self._kept.get(key)
        if found is None:
            found = await self._read(ref, page)
        self._kept[key] = found
        self._kept.move_to_end(key)
        if len(self._kept) > PAGES_KEPT:
            self._kept.popitem(last=False)
        return found

    async def _read(self, ref: LogRef, page: PageRef) -> Page:
        key = metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, page.name)
        try:
            try:
                value = (await self._store.read_record(key, fresh=False)).value
            except RecordNotFoundError:
                value = (await self._store.read_record(key)).value
            found = decode_page(value)
        except RecordNotFoundError as error:
            raise _unreadable(ref, page, key, "it does not exist") from error
        except RecordFormatError as error:
            raise _unreadable(ref, page, key, str(error), error.newer_version) from error
        if ref_to(page.name, found) != page:
            raise _unreadable(ref, page, key, "it does not hold what refers to it says")
        return found

    async def write(self, ref: LogRef, pages: Sequence[NamedPage]) -> None:
        """Store new pages. On return they are durable; after an error some may be, and are garbage.

        Raises:
            MetadataUnavailableError: the metadata store cannot be reached, or did not confirm one in many attempts.
        """
        for page in pages:
            rounds = Rounds(self._environment, f"page {page.name} of log {ref}")
            key = metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, page.name)
            while True:
                try:
                    await self._store.create_record(key, encode_page(page.page))
                except AlreadyExistsError:
                    pass  # an earlier attempt's: the name is used once
                except MetadataOutcomeUnknownError as error:
                    await _again(rounds, ref, page, error)
                    continue
                break

    async def remove(self, ref: LogRef, name: str) -> None:
        """Remove a page that no record refers to, or will ever refer to. Nothing if it does not exist.

        Raises:
            MetadataUnavailableError, MetadataOutcomeUnknownError: as the metadata store raises them.
        """
        self._kept.pop((ref.log_uuid, name), None)
        key = metadata_keys.page_key(ref.root, ref.name, ref.log_uuid, name)
        try:
            await self._store.remove_record(key, 0)
        except (RecordNotFoundError, MetadataVersionError):
            return  # removed already; a page is never written again, so it has no other version

    async def remove_unused(self, ref: LogRef, record: LogMetadata | None, version: int) -> int:
        """Remove the pages that the record of this version does not refer to and never will; return their number.

        `record`: None if the log no longer exists. Pages stay if one that may refer to them cannot be read.

        Raises:
            MetadataUnavailableError, MetadataOutcomeUnknownError: as the metadata store raises them.
        """
        names = await self._store.list_records(metadata_keys.pages_key(ref.root, ref.name, ref.log_uuid))
        ledgers = None if record is None else self.ledger_list(ref, record)
        removed = 0
        for name in names:
            if ledgers is not None and not await _is_unused(name, ledgers, version):
                continue
            await self.remove(ref, name)
            removed += 1
        return removed


async def _again(rounds: Rounds, ref: LogRef, page: NamedPage, error: MetadataOutcomeUnknownError) -> None:
    try:
        await rounds.again(error)
    except MetadataOutcomeUnknownError as last:
        raise MetadataUnavailableError(
            f"the metadata store did not confirm page {page.name} of log {ref}, so the log was not changed: {last}"
        ) from last


async def _is_unused(name: str, ledgers: LedgerList, version: int) -> bool:
    parts = _parts(name)
    if parts is None or parts[2] >= version:
        return False
    level, first_id, _ = parts
    try:
        used = await ledgers.ref_to_page(level, first_id)
    except HistoryPageError:
        return False
    return used is None or used.name != name


def _unreadable(
    ref: LogRef, page: PageRef, key: str, why: str, newer_version: int | None = None
) -> HistoryPageError:
    way_out = (
        ""
        if newer_version is not None
        else f"; restore {key} in the metadata store from a backup, or {READ_PAST}"
    )
    return HistoryPageError(
        f"page {page.name} of the history of log {ref}, with ledgers {page.first_id} to {page.last_id}, cannot be "
        f"read: {why}{way_out}",
        log=str(ref),
        key=key,
        first=page.first_id,
        last=page.last_id,
        messages=page.message_count + page.uncounted,
        newer_version=newer_version,
    )
