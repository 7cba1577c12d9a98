"""Whether a trim has taken messages from a position on. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from dlog.model import LogMetadata, MessageId
from spark_connector.extents.partitions import Extent


def has_missed(record: LogMetadata, extents: Sequence[Extent], position: MessageId) -> bool:
    """Whether a message at or after `position` was trimmed. `extents`: what is readable from its ledger on.

    A position below the trim id may have missed nothing: at the end of a sealed ledger the next message is in another.

    Source: docs/log-semantics.md#rule-28.
    """
    if position >= record.trim_before:
        return False
    if position < record.trimmed_end:
        return True
    for extent in extents:
        first = max(position, MessageId(extent.ledger_id, 0, 0))
        if extent.ledger_id < position.ledger_id or first >= record.trim_before:
            continue
        if extent.last_entry >= first.entry_id:
            return True
    for listed in record.ledgers:
        first = max(position, MessageId(listed.ledger_id, 0, 0))
        if listed.ledger_id < position.ledger_id or first >= record.trim_before:
            continue
        # A trim id in a ledger without a recorded seal was proved to be at or below the tail.
        if listed.seal is None or listed.seal.last_entry >= first.entry_id:
            return True
    return False
