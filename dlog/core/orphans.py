"""Whether a ledger that no list names may be deleted. Pure.

Invariant (docs/log-semantics.md#orphan-sweep): a ledger is deleted only because of the record, or the name, of the one
log that its own tags name. A ledger without tags, with tags of another root, or with tags from before tags had a root
and no record that lists it, is never deleted. An absent record alone proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from dlog.core import metadata_keys
from dlog.model import LogMetadata, LogName, NameNode, NameState
from ledger.digits import whole_number
from ledger.errors import InvalidNameError
from ledger.model import LedgerId, LedgerMetadata

_TIME_US_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The log that a ledger was created for, by its tags. `root` is None for tags that had none yet."""

    root: str | None
    log: LogName
    log_uuid: str
    created_us: int


def origin_of(metadata: LedgerMetadata) -> Origin | None:
    """The ledger's origin; None for other programs' ledgers, damaged tags, and a sink's staging ledgers."""
    tags = dict(metadata.custom)
    if metadata_keys.TAG_KIND in tags or not tags.get(metadata_keys.TAG_LOG_UUID):
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
        )
    except (UnicodeDecodeError, InvalidNameError):
        return None


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
