"""C13: metadata moves only as the rules allow. Looks at each version of a value and the one before it.

Of ledgers: OPEN → IN_RECOVERY → CLOSED, never back, and only its writer leaves the mark out; closed is final;
fragments only grow, and what an earlier one holds stays, but for members that repair replaces.
Of logs: docs/log-semantics.md#i1, #i2, #i3, #i10.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from dlog.ledger_list.listing import broken_rule
from dlog.model import ListedLedger, LogMetadata, LogState, MessageId
from dlog.testing.checks.decoded import decode_ledger_metadata, decode_record
from dlog.testing.checks.lists import WholeLists
from dlog.testing.metadata.history import CallOutcome, RegisterHistory
from ledger.model import Fragment, LedgerMetadata, LedgerState

_UNSEALED_MAX = 2
_REPAIR = ("repairer", "operator")
"""How the names of the processes begin that run repair, as a worker or by hand."""


def values(history: RegisterHistory) -> dict[str, dict[int, bytes]]:
    """The values of every register that a client read or wrote, by rising version."""
    found: dict[str, dict[int, bytes]] = {}
    for call in history.calls:
        if call.register and call.version is not None and call.value is not None:
            found.setdefault(call.register, {})[call.version] = call.value
    return {register: dict(sorted(versions.items())) for register, versions in found.items()}


def c13_ledger_metadata_moves_legally(history: RegisterHistory) -> Iterator[str]:
    repaired = {
        call.register
        for call in history.calls
        if call.operation == "write" and call.client.startswith(_REPAIR)
    }
    for register, versions in values(history).items():
        if register.startswith("ledger/"):
            decoded = [decode_ledger_metadata(value) for value in versions.values()]
            for before, after in pairwise(decoded):
                for wrong in _ledger_change(before, after, repaired=register in repaired):
                    yield f"{register}: {wrong}"
    yield from _closed_unmarked(history)


def _closed_unmarked(history: RegisterHistory) -> Iterator[str]:
    """Only its writer closes an open ledger: a recovery marks it first, so that the writer's next change fails."""
    creators: dict[str, str] = {}
    for call in history.calls:
        if call.operation == "create":
            creators[call.register] = call.client
    found = values(history)
    for call in history.calls:
        if call.operation != "write" or call.outcome is not CallOutcome.DONE or call.register not in creators:
            continue
        before = None if call.version is None else found[call.register].get(call.version - 1)
        if before is None or call.client == creators[call.register] or call.value is None:
            continue
        if (
            call.register.startswith("ledger/")
            and decode_ledger_metadata(call.value).closed
            and decode_ledger_metadata(before).state is LedgerState.OPEN
        ):
            yield f"{call.register}: {call.client} closed it without marking it, {creators[call.register]} wrote it"


def _ledger_change(before: LedgerMetadata, after: LedgerMetadata, *, repaired: bool) -> Iterator[str]:
    """`repaired`: repair has changed the ledger, so finished fragments may have other members."""
    if after.state < before.state:
        yield f"went from {before.state.name} back to {after.state.name}"
    if before.state is LedgerState.CLOSED and (before.last_entry, before.length) != (
        after.last_entry,
        after.length,
    ):
        yield f"closed at {before.last_entry}, then closed again at {after.last_entry}"
    last_only = slice(-1, None) if repaired else slice(None)
    if (
        before.state is after.state is LedgerState.IN_RECOVERY
        and before.fragments[last_only] != after.fragments[last_only]
    ):
        # The next recovery must ask those who may have the entries, not those who were to get them.
        yield f"recovery changed fragments before it closed: {before.fragments} to {after.fragments}"
    kept = before.fragments if before.closed else before.fragments[:-1]
    if before.closed:
        # Repair replaces members, never where fragments begin.
        if [each.first_entry for each in kept] != [each.first_entry for each in after.fragments]:
            yield f"fragments changed after it was closed: {before.fragments} to {after.fragments}"
    elif after.fragments[: len(kept)] != kept and not (
        repaired and _firsts(after.fragments[: len(kept)]) == _firsts(kept)
    ):
        yield f"finished fragments changed: {before.fragments} to {after.fragments}"
    if after.last_fragment.first_entry < before.last_fragment.first_entry:
        yield f"the last fragment went back: {before.fragments} to {after.fragments}"
    if (before.quorum, before.digest_type, before.password) != (
        after.quorum,
        after.digest_type,
        after.password,
    ):
        yield "quorum, digest or password changed"


def _firsts(fragments: Sequence[Fragment]) -> list[int]:
    return [each.first_entry for each in fragments]


def c13_log_records_move_legally(history: RegisterHistory) -> Iterator[str]:
    for register, versions in values(history).items():
        if register.endswith("/record"):
            records = [decode_record(value) for value in versions.values()]
            lists = WholeLists(history, register)
            try:
                whole = [lists.of(record) for record in records]
            except LookupError as error:
                yield f"{register}: {error}"
                continue
            for record in records:
                for wrong in _record(record):
                    yield f"{register}: {wrong}"
            numbered = zip(versions, records, whole, strict=True)
            for (number, before, listed), (following, after, listed_after) in pairwise(numbered):
                for wrong in (
                    *_record_change(before, after),
                    *_list_change(before, listed, after, listed_after),
                ):
                    yield f"{register}: {wrong}"
                if following == number + 1 and after.epoch == before.epoch:
                    for ledger_id in _dropped_unsealed(listed, listed_after):
                        yield f"{register}: unsealed ledger {ledger_id} left the list without a takeover"


def _record(record: LogMetadata) -> Iterator[str]:
    """Source: docs/log-semantics.md#i1, #i2."""
    ids = record.ledger_ids
    broken = broken_rule(record)
    if broken is not None:
        yield f"I1: {broken}"
    unsealed = [each.ledger_id for each in record.ledgers if each.seal is None]
    if len(unsealed) > _UNSEALED_MAX or unsealed != list(ids[len(ids) - len(unsealed) :]):
        yield f"I2: unsealed ledgers are {unsealed} of {ids}"


def _dropped_unsealed(before: Sequence[ListedLedger], after: Sequence[ListedLedger]) -> list[int]:
    """No takeover would fence these any more (docs/log-semantics.md#rule-33)."""
    kept = {each.ledger_id for each in after}
    return [each.ledger_id for each in before if each.seal is None and each.ledger_id not in kept]


def _record_change(before: LogMetadata, after: LogMetadata) -> Iterator[str]:
    """Versions may be missing between the two, if no client saw them (docs/log-semantics.md#i3, #i10)."""
    if after.epoch < before.epoch:
        yield f"I3: epoch went from {before.epoch} to {after.epoch}"
    if (after.epoch == before.epoch) != (after.owner == before.owner):
        yield f"I3: owner is {before.owner} at epoch {before.epoch}, then {after.owner} at {after.epoch}"
    if after.last_ledger_id < before.last_ledger_id:
        yield f"last_ledger_id fell from {before.last_ledger_id} to {after.last_ledger_id}"
    if after.trim_before < before.trim_before:
        yield f"the trim id fell from {before.trim_before} to {after.trim_before}"
    if after.grace_us < before.grace_us or after.format_version < before.format_version:
        yield f"the grace fell from {before.grace_us} µs (version {before.format_version}) to {after.grace_us} µs"
    if (after.grace_us, after.format_version) != (before.grace_us, before.format_version) and (
        after.epoch == before.epoch
    ):
        yield f"the grace became {after.grace_us} µs without a takeover"
    if after.log_uuid != before.log_uuid:
        yield "the uuid changed under one path"
    if after.deleted_below < before.deleted_below or after.first_id < before.first_id:
        yield "a mark of the ledgers in pages fell"


def _list_change(
    before: LogMetadata,
    listed_before: Sequence[ListedLedger],
    after: LogMetadata,
    listed_after: Sequence[ListedLedger],
) -> Iterator[str]:
    """What enters and leaves the list, in pages or not (docs/log-semantics.md#i1, #i4, #i10)."""
    was = {each.ledger_id: each for each in listed_before}
    now = {each.ledger_id: each for each in listed_after}
    for ledger_id, listed in was.items():
        if ledger_id in now and listed.seal is not None and now[ledger_id].seal != listed.seal:
            yield f"I10: the seal of ledger {ledger_id} changed from {listed.seal} to {now[ledger_id].seal}"
        if ledger_id not in now and listed.seal is not None and not listed.known_empty:
            successor = next((each for each in listed_after if each.ledger_id > ledger_id), None)
            # After a lost page the trim position need not be in a listed ledger.
            end = ledger_id + 1 if successor is None else min(ledger_id + 1, successor.ledger_id)
            trimmed = MessageId(end, 0, 0) <= after.trim_before
            if not trimmed and after.state is not LogState.DELETING:
                yield f"I4: ledger {ledger_id} left the list, which is trimmed to {after.trim_before}"
    for ledger_id in now.keys() - was.keys():
        if ledger_id <= before.last_ledger_id:
            yield f"I1: ledger {ledger_id} entered the list below last_ledger_id {before.last_ledger_id}"
