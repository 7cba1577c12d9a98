"""Trims logs as their retention says.

Invariant (docs/log-semantics.md#rule-34): the rules only find a position; what trims there is a shrink, which never
takes the newest ledger, nor one whose seal the record does not hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from dlog.admin import LogAdmin
from dlog.core import metadata_keys
from dlog.core.metadata_changes import has_deletable
from dlog.errors import RecordFormatError
from dlog.format.retention import decode_retention, encode_retention
from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.fresh_record import with_fresh_record
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.metadata.value import cannot_be_decoded, change_value, read_value
from dlog.model import ListedLedger, LogMetadata, LogState, MessageId, PageRef, Retention
from ledger.environment import Environment
from ledger.errors import LogStoreError
from ledger.metadata.rounds import Rounds
from ledger.metadata.store import MetadataStore
from ledger.model import Versioned

NEWEST_LEDGER = "newest_ledger"
"""What keeps a log whose rules let go of everything that a trim may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan:
    """What a log's retention trims: `ledgers` of them, all below `before`. None and zeros if it trims nothing now."""

    before: MessageId | None = None
    ledgers: int = 0
    messages: int = 0
    """Number of messages in those of them that were counted."""
    uncounted: int = 0
    """Number of the others."""
    bytes: int = 0
    """Bytes of their entries."""
    kept_by: str = ""
    """The rule that keeps most, by the name of its field, or NEWEST_LEDGER; empty if none has a say."""


class LogRetention:
    """The retention of any log: read, set, carried out."""

    def __init__(
        self, store: MetadataStore, logs: LogMetadataStore, admin: LogAdmin, environment: Environment
    ) -> None:
        self._store = store
        self._logs = logs
        self._admin = admin
        self._environment = environment

    async def read(self, ref: LogRef) -> Retention:
        """The log's retention; one without rules if none was set.

        Raises:
            RecordFormatError: it is damaged.
        """
        key = metadata_keys.retention_key(ref.root, ref.name, ref.log_uuid)
        found = await read_value(self._store, key)
        return Retention() if found is None else _decoded(key, found.value)

    async def set(self, ref: LogRef, retention: Retention) -> None:
        """Replace the log's retention, also one that is damaged. Trims nothing.

        Raises:
            RecordFormatError: it was set by a later release, and may have rules that this one does not know.
            ContendedError: others changed it in every round.
            MetadataOutcomeUnknownError: it may have been set.
        """
        value = encode_retention(retention)

        async def decide(found: Versioned[bytes] | None) -> bytes | None:
            if found is not None and found.value == value:
                return None
            if found is not None:
                _check_not_newer(key, found.value)
            return value

        key = metadata_keys.retention_key(ref.root, ref.name, ref.log_uuid)
        await change_value(self._store, self._environment, key, f"the retention of log {ref}", decide)

    async def plan(self, ref: LogRef, retention: Retention | None = None) -> RetentionPlan:
        """What this retention, by default the log's own, would trim now. Changes nothing and asks no bookie.

        Raises:
            LogNotFoundError: the log was deleted.
            RecordFormatError: the log's retention is damaged; or a cursor is, and unread messages are kept.
            HistoryPageError: a part of the ledger list is lost.
        """
        rules = await self.read(ref) if retention is None else retention
        if rules.keeps_everything:
            return RetentionPlan()
        read_to = None
        if rules.keep_unread:
            cursors = await self._logs.cursors.all(ref)
            read_to = min((cursor.position.ledger_id for cursor in cursors), default=None)

        async def look(listed: LedgerList) -> RetentionPlan:
            return await self._plan(rules, listed, read_to)

        return await with_fresh_record(self._logs, ref, self._environment, look, "what is trimmed")

    async def _plan(self, retention: Retention, listed: LedgerList, read_to: int | None) -> RetentionPlan:
        tail = None if listed.record.state is LogState.DELETING else listed.tail
        oldest_kept = {} if read_to is None else {"keep_unread": read_to}
        if retention.max_age_s is not None:
            since = await listed.from_time(self._environment.wall_us() - round(retention.max_age_s * 1e6))
            if since is not None:
                oldest_kept["max_age_s"] = since.ledger_id
            elif tail is not None:
                oldest_kept["max_age_s"] = tail.ledger_id
        if retention.max_bytes is not None:
            oldest_kept["max_bytes"] = await listed.newest_with(retention.max_bytes, _bytes, _page_bytes)
        if retention.max_messages is not None:
            oldest_kept["max_messages"] = await listed.newest_with(
                retention.max_messages, _messages, _page_messages
            )
        if tail is None or not oldest_kept:
            return RetentionPlan()
        rule, kept = min(oldest_kept.items(), key=lambda each: each[1])
        if kept >= await listed.newest_kept():
            rule = NEWEST_LEDGER  # another rule, or none, would have no more trimmed
        cut = await listed.trim_cut(MessageId(kept, 0, 0))
        if cut is None:
            return RetentionPlan(kept_by=rule)
        goes = await listed.totals_below(cut.floor)
        return RetentionPlan(
            before=MessageId(min(cut.floor, kept), 0, 0),  # above that it is after a page that is lost
            ledgers=goes.ledgers,
            messages=goes.messages,
            uncounted=goes.uncounted,
            bytes=goes.bytes,
            kept_by=rule,
        )

    async def apply(self, ref: LogRef) -> RetentionPlan:
        """Trim the log as its retention says; returns what was trimmed.

        Raises:
            LogNotFoundError: the log was deleted.
            ContendedError: its retention or its cursors changed in every round.
            The errors of `plan`, and of `LogAdmin.shrink`.
        """
        rounds = Rounds(self._environment, f"the retention of log {ref}, or a cursor,")
        while True:
            rules = await self.read(ref)
            plan = await self.plan(ref, rules)
            if plan.before is None:
                return plan
            still_so = partial(self._lets_go, ref, rules, plan.before)
            if await self._admin.shrink_ref(ref, plan.before, still_so) is not None:
                return plan
            await rounds.again()

    async def _lets_go(self, ref: LogRef, rules: Retention, before: MessageId) -> bool:
        """Whether these are the log's rules still, and no cursor was set to a message below `before` since."""
        if await self.read(ref) != rules:
            return False
        cursors = await self._logs.cursors.all(ref) if rules.keep_unread else ()
        return all(cursor.position >= before for cursor in cursors)

    async def tidy(self, ref: LogRef, record: LogMetadata) -> None:
        """What an owner does after a rotation: trim as the retention says, and delete ledgers that are due.

        `record`: the newest that the owner knows.

        Raises:
            The errors of `apply`, and of `LogAdmin.collect_ref`.
        """
        waits = has_deletable(record)
        try:
            trimmed = (await self.apply(ref)).before is not None
        except LogStoreError:
            if waits:  # what waits for its deletion does not wait for a retention that fails
                await self._admin.collect_ref(ref)
            raise
        if trimmed or waits:
            await self._admin.collect_ref(ref)


def _decoded(key: str, value: bytes) -> Retention:
    try:
        return decode_retention(value)
    except RecordFormatError as error:
        raise cannot_be_decoded("the retention", key, error, ", or set it again") from error


def _check_not_newer(key: str, value: bytes) -> None:
    try:
        _decoded(key, value)
    except RecordFormatError as error:
        if error.newer_version is not None:
            raise


def _bytes(listed: ListedLedger) -> int:
    return 0 if listed.seal is None else listed.seal.byte_count


def _messages(listed: ListedLedger) -> int:
    return 0 if listed.seal is None else max(0, listed.seal.message_count)


def _page_bytes(page: PageRef) -> int:
    return page.byte_count


def _page_messages(page: PageRef) -> int:
    return page.message_count
