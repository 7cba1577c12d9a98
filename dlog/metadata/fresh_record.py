"""Reads from ledgers that a log's record lists, while the log may be trimmed and what was trimmed deleted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from dlog.core.tailing import READ_PAST, require_readable
from dlog.errors import DataLossError, HistoryPageError
from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import ListedLedger, LogMetadata
from ledger.environment import Environment
from ledger.errors import EntryNotFoundError, LedgerNotFoundError, LogStoreError, MetadataFormatError
from ledger.metadata.rounds import Rounds

_T = TypeVar("_T")

GIVE_UP = (
    "accept the loss of its messages with open_writer(..., given_up=[{0}]) or `dlog append --given-up {0}`"
)
"""Of a ledger that a writer needs; {0} is its id. For READ_PAST the id does not matter."""

_RESTORE_ENTRY = "restore that entry on its bookies"

PassesLoss = Callable[[ListedLedger | HistoryPageError | EntryNotFoundError], Awaitable[bool]]
"""Whether the seal of a ledger that was not found is used in its place, what is known of a page, or an entry left out.
"""


async def with_fresh_record(
    logs: LogMetadataStore,
    ref: LogRef,
    environment: Environment,
    look: Callable[[LedgerList], Awaitable[_T]],
    what: str,
    *,
    without: str = READ_PAST,
    lost_entry: str = _RESTORE_ENTRY,
) -> _T:
    """The result of `look` for the list of a fresh record; repeated if what it reads was trimmed in the meantime.

    `what`: what is read, as the object of a sentence. `without`: what a caller can do if a sealed ledger is lost, with
    {0} for its id. `lost_entry`: what to do about an entry that does not exist.

    Raises:
        DataLossError: a ledger or entry is missing that the record still lists, or the metadata of one is damaged.
        HistoryPageError: a page is missing that the record still refers to, or is damaged.
        LogNotFoundError: the log was deleted.
        ContendedError: the record changed in every round.

    Source: docs/log-semantics.md#rule-28.
    """
    rounds = Rounds(environment, f"the record of log {ref}")
    while True:
        record = (await logs.read(ref)).value
        try:
            return await look(logs.ledger_list(ref, record))
        except HistoryPageError as error:
            if (await logs.read(ref)).value == record:
                raise
            await rounds.again(error)
        except (LedgerNotFoundError, EntryNotFoundError) as error:
            if (await logs.read(ref)).value == record:
                raise DataLossError(
                    f"cannot determine {what} of log {ref.name}: {error}; "
                    f"{_way_out(error, record, without=without, lost_entry=lost_entry)}",
                    ledger_id=error.ledger_id,
                ) from error
            await rounds.again(error)
        except MetadataFormatError as error:
            if not is_damaged_ledger(error):
                raise
            if (await logs.read(ref)).value == record:
                why = f"cannot determine {what} of log {ref.name}"
                raise _damaged_ledger(error, record, why, without) from error
            await rounds.again(error)


async def with_readable_record(
    logs: LogMetadataStore,
    ref: LogRef,
    environment: Environment,
    look: Callable[[LedgerList], Awaitable[_T]],
    what: str,
) -> _T:
    """As `with_fresh_record`, for what a reader asks. Also raises LogNotFoundError if the log is being deleted.

    Source: docs/log-semantics.md#rule-30.
    """

    async def look_if_readable(listed: LedgerList) -> _T:
        require_readable(str(ref), listed.record)
        return await look(listed)

    lost_entry = f"{_RESTORE_ENTRY}, or {READ_PAST}"
    return await with_fresh_record(logs, ref, environment, look_if_readable, what, lost_entry=lost_entry)


def is_damaged_ledger(error: MetadataFormatError) -> bool:
    """Whether it is of the metadata of a ledger, which no later release has written."""
    return isinstance(error.key, int) and error.newer_version is None


def is_lost_ledger(error: LogStoreError) -> bool:
    """Whether a ledger that could not be opened is lost: it does not exist, or its metadata is damaged."""
    return isinstance(error, LedgerNotFoundError) or (
        isinstance(error, MetadataFormatError) and is_damaged_ledger(error)
    )


def passes_loss(logs: LogMetadataStore, listed: LedgerList, ref: LogRef, *, accept_loss: bool) -> PassesLoss:
    """For a reader that accepts the loss of messages: it is shown the gap when it comes there.

    Only of what is lost: if the record has changed, it may have been trimmed instead.
    """

    async def decide(missing: ListedLedger | HistoryPageError | EntryNotFoundError) -> bool:
        match missing:
            case HistoryPageError():
                is_known = missing.newer_version is None
            case ListedLedger():
                is_known = missing.seal is not None
            case EntryNotFoundError():
                is_known = True
        if not accept_loss or not is_known:
            return False
        return (await logs.read(ref)).value == listed.record

    return decide


def way_out_of_loss(ledger_id: int, *, sealed: bool, without: str = READ_PAST) -> str:
    """What to do about a listed ledger without usable metadata. A takeover asks only for those that are not sealed."""
    way_out = without if sealed else GIVE_UP
    return f"restore the metadata store from a backup, or {way_out.format(ledger_id)}"


def _damaged_ledger(
    error: MetadataFormatError, record: LogMetadata, what_fails: str, without: str
) -> DataLossError:
    assert isinstance(error.key, int), "it is of a ledger"
    way_out = GIVE_UP if _is_unsealed(error.key, record) else without
    return DataLossError(f"{what_fails}: {error}; or {way_out.format(error.key)}", ledger_id=error.key)


def _way_out(
    error: LedgerNotFoundError | EntryNotFoundError, record: LogMetadata, *, without: str, lost_entry: str
) -> str:
    if isinstance(error, EntryNotFoundError):
        return lost_entry
    sealed = not _is_unsealed(error.ledger_id, record)
    return way_out_of_loss(error.ledger_id, sealed=sealed, without=without)


def _is_unsealed(ledger_id: int, record: LogMetadata) -> bool:
    return any(listed.ledger_id == ledger_id and listed.seal is None for listed in record.ledgers)
