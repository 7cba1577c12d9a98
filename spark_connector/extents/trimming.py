"""Whether a trim has taken messages from a position on. Pure."""

from __future__ import annotations

from dlog.model import MessageId
from spark_connector.extents.readable import Readable


def has_missed(readable: Readable, position: MessageId) -> bool:
    """Whether a message at or after `position` was trimmed. `readable`: from the ledger of the position on.

    A position below the trim id may have missed nothing: at the end of a sealed ledger the next message is in another.

    Source: docs/log-semantics.md#rule-28.
    """
    record = readable.record
    if position >= record.trim_before:
        return False
    if position < record.trimmed_end:
        return True
    for extent in readable.extents:
        first = max(position, MessageId(extent.ledger_id, 0, 0))
        if extent.ledger_id < position.ledger_id or first >= record.trim_before:
            continue
        if extent.last_entry >= first.entry_id:
            return True
    for listed in record.ledgers:
        first = max(position, MessageId(listed.ledger_id, 0, 0))
        if listed.ledger_id < position.ledger_id or first >= record.trim_before:
            continue
        if listed.seal is not None:
            if listed.seal.last_entry >= first.entry_id:
                return True
        elif listed.ledger_id >= readable.complete_below:
            return True  # the id was proved to be at or below the tail, so the ledger has messages up to it
    return False
