"""Whether a ledger that no list names may be deleted. Pure.

Invariant (docs/log-semantics.md#orphan-sweep): a ledger is deleted only because of the record, or the name, of the one
log that its own tags name. A ledger without tags, with tags of another root, or with tags from before tags had a root
and no record that lists it, is never deleted. An absent record alone proves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from dlog.core import metadata_keys
from dlog.model import LogMetadata, LogName, NameNode, NameState
from ledger.digits import whole_number
from ledger.errors import InvalidNameError
from ledger.model import LedgerId, LedgerMetadata

_TIME_US_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Staged:
    """The batch of a sink that a ledger was written for. `writer_id` is empty if the batch is not numbered."""

    writer_id: str = ""
    batch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The log that a ledger was created for, by its tags. `root` is None for tags that had none yet."""

    root: str | None
    log: LogName
    log_uuid: str
    created_us: int
    epoch: int = 0
    staged: Staged | None = None
    """Of a sink's ledger; None for that of a writer."""


def origin_of(metadata: LedgerMetadata) -> Origin | None:
    """The ledger's origin; None for other programs' ledgers, damaged tags, and kinds of ledgers unknown here."""
    tags = dict(metadata.custom)
    if tags.get(metadata_keys.TAG_KIND) not in (None, metadata_keys.KIND_STAGING):
        return None
    if not tags.get(metadata_keys.TAG_LOG_UUID):
        return None
    created = tags.get(metadata_keys.TAG_CREATED_US, b"")
    try:
        root = tags[metadata_keys.TAG_ROOT].decode() if metadata_keys.TAG_ROOT in tags else None
        namespace, _, name = tags.get(metadata_keys.TAG_LOG_NAME, b"").decode().partition("/")
        return Origin(
            root=root,
            log=LogName(namespace=namespace, name=name),
            log_uuid=tags[metadata_keys.TAG_LOG_UUID].decode(),
            created_us=whole_number(created, _TIME_US_MAX) or 0,
            epoch=whole_number(tags.get(metadata_keys.TAG_EPOCH, b""), _TIME_US_MAX) or 0,
            staged=_staged(tags),
        )
    except (UnicodeDecodeError, InvalidNameError):
        return None


def _staged(tags: Mapping[str, bytes]) -> Staged | None:
    if metadata_keys.TAG_KIND not in tags:
        return None
    return Staged(
        tags.get(metadata_keys.TAG_SINK_WRITER, b"").decode(),
        whole_number(tags.get(metadata_keys.TAG_SINK_BATCH, b""), _TIME_US_MAX) or 0,
    )


def is_abandoned(origin: Origin, record: LogMetadata, *, now_us: int, grace_us: int) -> bool:
    """Whether no driver is expected to publish this unlisted ledger of a sink any more.

    Its entries are no acknowledged messages if its batch was published with other ledgers. Otherwise that is assumed
    after the grace, unless the record is of an earlier epoch than the ledger: then records were lost or restored.
    """
    assert origin.staged is not None, "only a sink's ledger is staged"
    if any(
        mark.writer_id == origin.staged.writer_id and mark.batch >= origin.staged.batch
        for mark in record.sinks
    ):
        return True
    return record.epoch >= origin.epoch and now_us - origin.created_us >= grace_us


class Verdict(Enum):
    """What a log's record implies for a ledger."""

    KNOWN = "listed, or waiting for its deletion"
    NEVER_LISTED = "not listed, and it can never be"
    BAR_FIRST = "not listed yet; one compare-and-set makes that final"


def verdict_of(record: LogMetadata, ledger_id: LedgerId, *, in_page: bool) -> Verdict:
    """By the record of the log that the ledger's tags name. `in_page`: one of its pages has the ledger."""
    pending = (one.ledger_id for one in record.pending_delete)
    if in_page or record.find_recent(ledger_id) or ledger_id in pending:
        return Verdict.KNOWN
    return Verdict.NEVER_LISTED if ledger_id <= record.last_ledger_id else Verdict.BAR_FIRST


def absence_is_final(origin: Origin, name: NameNode | None) -> bool:
    """Whether an absent record was removed at the end of its log: its name, in the same root, shows it.

    A name goes from one incarnation of a log to the next only after all ledgers of the former are deleted.
    """
    if origin.root is None or name is None or not name.log_uuid:
        return False
    return name.log_uuid != origin.log_uuid or name.state is NameState.DELETED
