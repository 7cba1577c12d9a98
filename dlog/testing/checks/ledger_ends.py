"""How ledgers end, read from the history of the metadata store.

C12, `NoDivergenceBetweenClientAndMetaData` of BookKeeper's TLA+ specification: a candidate for a log recovers its tail
before it proposes a record, and the record has the end of each ledger. So each proposal counts, also one that was
refused: all proposals agree on a ledger's end, and agree with the ledger's own metadata.

C1: an acknowledged message lies within its ledger, even if it was trimmed later. A writer that was paused while its
ledger ended must not report success for an append after that end.

C6: a message is in a ledger of its writer's epoch.

C15: a recovered ledger stays fenced. Checked at the end of a run, when bookies have been killed, powered off and
restarted: in each write set of the fenced ensemble fewer than an ack quorum still take a normal add. For a log that is
docs/log-semantics.md#i12.

C13: a ledger is deleted only by the log that it was made for, and is not listed afterwards (docs/log-semantics.md#i13).
Ledgers of other applications, or of logs under another root of the same store, are deleted only by their owners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dlog.core.metadata_keys import TAG_EPOCH, record_key
from dlog.core.orphans import Origin, origin_of
from dlog.testing.checks.decoded import decode_ledger_metadata, decode_record
from dlog.testing.checks.history import History, Outcome
from dlog.testing.checks.lists import WholeLists
from dlog.testing.checks.order import places
from dlog.testing.checks.transitions import values
from dlog.testing.metadata.history import CallOutcome, RegisterCall, RegisterHistory
from ledger.model import BookieId, LedgerMetadata, LedgerState

# ---- C12: recoveries agree


def c12_recoverers_agree(history: RegisterHistory) -> Iterator[str]:
    """All proposed ends of a ledger are equal, and equal to the end in its metadata."""
    closed = _closed(history)
    for ledger_id, ends in sorted(_proposed(history).items()):
        if len(ends) > 1:
            found = ", ".join(f"{end} by {client}" for end, client in sorted(ends.items()))
            yield f"recoveries of ledger {ledger_id} found different ends: {found}"
        for end, client in ends.items():
            if closed.get(ledger_id, end) != end:
                yield f"{client} recorded {end} as the end of ledger {ledger_id}, its metadata says {closed[ledger_id]}"


def _proposed(history: RegisterHistory) -> dict[int, dict[int, str]]:
    """The proposed ends of each ledger, each with the first client that proposed it."""
    found: dict[int, dict[int, str]] = {}
    looked_at: set[bytes] = set()
    for call in history.calls:
        if call.register.endswith("/record") and call.value is not None and call.value not in looked_at:
            looked_at.add(call.value)
            for listed in decode_record(call.value).ledgers:
                if listed.seal is not None:
                    found.setdefault(listed.ledger_id, {}).setdefault(listed.seal.last_entry, call.client)
    return found


def _closed(history: RegisterHistory) -> dict[int, int]:
    """Where each ledger ends by its own metadata, if it was closed."""
    found: dict[int, int] = {}
    for register, versions in values(history).items():
        if register.startswith("ledger/"):
            last = decode_ledger_metadata(versions[max(versions)])
            if last.closed:
                found[int(register.removeprefix("ledger/"))] = last.last_entry
    return found


# ---- C1: acknowledgements lie within their ledger


def c1_acknowledged_within_its_ledger(history: History, registers: RegisterHistory) -> Iterator[str]:
    """No acknowledged entry id is above the end of its closed ledger."""
    ends = _closed(registers)
    for append in history.appends:
        if append.outcome is Outcome.ACKED and append.message_id is not None:
            end = ends.get(append.message_id.ledger_id)
            if end is not None and append.message_id.entry_id > end:
                yield f"{append.message_id} of {append.writer} was acknowledged, but its ledger ends at {end}"


# ---- C6: epochs


def c6_each_ledger_has_the_messages_of_one_epoch(
    history: History, registers: RegisterHistory
) -> Iterator[str]:
    """A message is in a ledger that was made for its writer's epoch (docs/log-semantics.md#rule-4, #i12)."""
    made_for = {
        int(register.removeprefix("ledger/")): dict(metadata.custom).get(TAG_EPOCH, b"").decode()
        for register, metadata in _created(registers)
    }
    epochs = {each.writer: each.epoch for each in history.takeovers}
    place_of = places(history)
    for append in history.appends:
        place, epoch = place_of.get(append.payload), epochs.get(append.writer)
        if place is None or epoch is None or append.outcome is Outcome.REJECTED:
            continue
        found = made_for.get(place.ledger_id)
        if found != str(epoch):
            yield f"{place} of {append.writer}, whose epoch is {epoch}, is in a ledger made for epoch {found}"


def _created(registers: RegisterHistory) -> Iterator[tuple[str, LedgerMetadata]]:
    for call in registers.calls:
        if call.operation == "create" and call.register.startswith("ledger/") and call.value is not None:
            yield call.register, decode_ledger_metadata(call.value)


# ---- C15: fences stay

IsFenced = Callable[[BookieId, int], bool]


def c15_fences_are_permanent(history: RegisterHistory, is_fenced: IsFenced) -> Iterator[str]:
    """In no write set of a recovered ledger an ack quorum still takes a normal add.

    `is_fenced` asks a running bookie; True also if it refuses every add to the ledger for another reason.
    """
    removed = {call.register for call in history.calls if call.operation == "remove"}
    for register, versions in values(history).items():
        if not register.startswith("ledger/") or register in removed:
            continue
        states = [decode_ledger_metadata(value) for value in versions.values()]
        recovered = [state for state in states if state.state is LedgerState.IN_RECOVERY]
        if recovered and states[-1].closed:
            ledger_id = int(register.removeprefix("ledger/"))
            yield from open_write_sets(ledger_id, recovered[-1], is_fenced)


def open_write_sets(ledger_id: int, metadata: LedgerMetadata, is_fenced: IsFenced) -> Iterator[str]:
    """The write sets of the last ensemble in which an ack quorum is not fenced."""
    ensemble, quorum = metadata.last_fragment.ensemble, metadata.quorum
    fenced = [is_fenced(bookie_id, ledger_id) for bookie_id in ensemble]
    for first in range(len(ensemble)):
        members = [(first + offset) % len(ensemble) for offset in range(quorum.write)]
        still_open = [ensemble[index] for index in members if not fenced[index]]
        if len(still_open) >= quorum.ack:
            yield f"ledger {ledger_id} was recovered, but {', '.join(still_open)} would still accept an add to it"


# ---- C13: deletions


def c13_ledgers_are_deleted_by_their_own_log(
    history: RegisterHistory, root_of: Callable[[str], str | None]
) -> Iterator[str]:
    """Each ledger is removed by a client of its own log's root, after it left the log's list.

    `root_of`: the root of the logs of a client's process; None if it has none.
    """
    origins = _origins(history)
    lists: dict[str, WholeLists] = {}
    for call in history.calls:
        if call.operation != "remove" or call.outcome is CallOutcome.NOT_DONE or call.register not in origins:
            continue
        origin, root = origins[call.register], root_of(call.client)
        if origin is None or root is None or origin.root != root:
            of = "no log" if origin is None else f"log {origin.log} under {origin.root}"
            yield f"{call.client}, whose logs are under {root}, deleted {call.register}, which belongs to {of}"
            continue
        key = record_key(root, origin.log, origin.log_uuid)
        if key not in lists:
            lists[key] = WholeLists(history, key)
        if _is_listed_later(history, key, lists[key], call):
            yield f"{call.client} deleted {call.register}, but log {origin.log} lists it"


def _origins(history: RegisterHistory) -> dict[str, Origin | None]:
    return {register: origin_of(metadata) for register, metadata in _created(history)}


def _is_listed_later(history: RegisterHistory, key: str, lists: WholeLists, removal: RegisterCall) -> bool:
    """Whether a read of the log's record that began after the removal was asked for found the ledger listed."""
    ledger_id = int(removal.register.removeprefix("ledger/"))
    return any(
        call.operation == "read"
        and call.invoked > removal.invoked
        and call.value is not None
        and ledger_id in lists.ids_in(call.value)
        for call in history.of(key)
    )
