"""C13: a ledger is deleted by the log that it was made for, and is not listed afterwards (docs/log-semantics.md#i13).

What another application wrote, or a log under another root of the same store, nobody deletes but its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dlog.core.metadata_keys import record_key
from dlog.core.orphans import Origin, origin_of
from dlog.format.log_metadata import decode_record
from dlog.testing.metadata.history import Outcome, RegisterCall, RegisterHistory
from ledger.metadata.format.ledger import decode_ledger_metadata


def c13_ledgers_are_deleted_by_their_own_log(
    history: RegisterHistory, root_of: Callable[[str], str | None]
) -> Iterator[str]:
    """`root_of`: under which root the logs of a client's process are; None if it has none."""
    origins = _origins(history)
    for call in history.calls:
        if call.operation != "remove" or call.outcome is Outcome.NOT_DONE or call.register not in origins:
            continue
        origin, root = origins[call.register], root_of(call.client)
        if origin is None or origin.root != root:
            of = "no log" if origin is None else f"log {origin.log} under {origin.root}"
            yield f"{call.client}, whose logs are under {root}, deletes {call.register}, which is of {of}"
        elif _is_listed_later(history, origin, call):
            yield f"{call.client} deletes {call.register}, and log {origin.log} lists it"


def _origins(history: RegisterHistory) -> dict[str, Origin | None]:
    return {
        call.register: origin_of(decode_ledger_metadata(call.value))
        for call in history.calls
        if call.operation == "create" and call.register.startswith("ledger/") and call.value is not None
    }


def _is_listed_later(history: RegisterHistory, origin: Origin, removal: RegisterCall) -> bool:
    """Whether a read that began after the removal was asked for found the ledger listed."""
    assert origin.root is not None
    key = record_key(origin.root, origin.log, origin.log_uuid)
    ledger_id = int(removal.register.removeprefix("ledger/"))
    return any(
        call.operation == "read"
        and call.invoked > removal.invoked
        and call.value is not None
        and decode_record(call.value).find(ledger_id) is not None
        for call in history.of(key)
    )
