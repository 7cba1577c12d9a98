"""Jobs of repair (key_value.py has the law for jobs): marks, locks, switches, votes.

Locks and votes name a session, and count while it lives. The vote with the lowest number is the auditor's; numbers are
never given out twice, so who stands again stands last.
"""

from __future__ import annotations

from collections.abc import Collection

from ledger.errors import MetadataVersionError
from ledger.metadata.errors import LockLostError
from ledger.metadata.format.repair import merged_mark
from ledger.metadata.refusals import record_not_found
from ledger.metadata.transactions.key_value import Node, Transaction
from ledger.metadata.transactions.ledger_keys import ledger_id_in
from ledger.model import BookieId, LedgerId

PREFIX = "repair/"
MARKED = "repair/marked"
"""Has a new version after each mark: to be watched in place of many keys."""
DISABLED = "repair/disable"
DELAY = "repair/lost-bookie-delay"
CHECKED = "repair/all-checked"
PLACEMENT_CHECKED = "repair/placement-checked"
LOCKS = "repair/locks/"
VOTES = "repair/votes/"
_MARKS = "repair/marks/"
_VOTE_COUNTER = "repair/last-vote"


def mark(tx: Transaction, ledger_id: LedgerId, missing: Collection[BookieId], now_ms: int) -> None:
    key = _mark_key(ledger_id)
    node = tx.get(key)
    put(tx, key, merged_mark(ledger_id, None if node is None else node.value, missing, now_ms))
    put(tx, MARKED, b"")


def read_mark(tx: Transaction, ledger_id: LedgerId) -> Node:
    node = tx.get(_mark_key(ledger_id))
    if node is None:
        raise record_not_found(f"the under-replication mark of ledger {ledger_id}")
    return node


def page_of_marks(tx: Transaction, first: int, limit: int) -> list[tuple[LedgerId, bytes]]:
    """Up to `limit` marks of ledgers from `first` on, ascending."""
    found = []
    for key in tx.keys(_MARKS, start=_mark_key(first), limit=limit):
        node = tx.get(key)
        if node is not None:
            found.append((ledger_id_in(key, _MARKS, _mark_key, "an under-replication mark"), node.value))
    return found


def clear_mark(tx: Transaction, ledger_id: LedgerId, version: int, session: str) -> None:
    if not holds_lock(tx, ledger_id, session):
        raise LockLostError(
            f"the lock of ledger {ledger_id} was lost before its mark was cleared", ledger_id=ledger_id
        )
    node = tx.get(_mark_key(ledger_id))
    if node is not None and not tx.remove(_mark_key(ledger_id), version):
        raise marked_again(ledger_id, version)


def marked_again(ledger_id: LedgerId, version: int) -> MetadataVersionError:
    return MetadataVersionError(
        f"ledger {ledger_id} was marked again while it was repaired: it keeps its mark",
        key=ledger_id,
        expected=version,
    )


# ---- locks


def lock(tx: Transaction, ledger_id: LedgerId, data: bytes, session: str) -> bool:
    key = _lock_key(ledger_id)
    node = tx.get(key)
    if node is not None:
        if node.session is not None and tx.is_alive(node.session) and node.session != session:
            return False
        tx.remove(key)  # left by a dead process, or by an attempt of ours whose answer was lost
    return tx.create(key, data, session)


def release(tx: Transaction, ledger_id: LedgerId, session: str) -> None:
    if holds_lock(tx, ledger_id, session):
        tx.remove(_lock_key(ledger_id))


def holds_lock(tx: Transaction, ledger_id: LedgerId, session: str) -> bool:
    node = tx.get(_lock_key(ledger_id))
    return node is not None and node.session == session and tx.is_alive(session)


def lock_holder(tx: Transaction, ledger_id: LedgerId) -> bytes | None:
    node = tx.get(_lock_key(ledger_id))
    return node.value if node is not None and node.session and tx.is_alive(node.session) else None


# ---- switches


def put(tx: Transaction, key: str, value: bytes) -> None:
    """Set a value, whether or not there is one. The version rises either way."""
    node = tx.get(key)
    if node is None:
        tx.create(key, value)
    else:
        tx.update(key, value, node.version)


# ---- the auditor


def stand(tx: Transaction, data: bytes, session: str) -> bool:
    """Vote for this session if it has no vote, and say whether it is elected. Votes of the dead are swept."""
    votes = []
    for key, node in tx.nodes(VOTES):
        if node.session is not None and tx.is_alive(node.session):
            votes.append((key, node.session))
        else:
            tx.remove(key)
    if not any(owner == session for _, owner in votes):
        counter = tx.get(_VOTE_COUNTER)
        number = 0 if counter is None else counter.version + 1
        put(tx, _VOTE_COUNTER, b"")
        key = f"{VOTES}{number:020d}"
        tx.create(key, data, session)
        votes.append((key, session))
    return min(votes)[1] == session


def withdraw(tx: Transaction, session: str) -> None:
    for key, node in tx.nodes(VOTES):
        if node.session == session:
            tx.remove(key)


def auditor(tx: Transaction) -> bytes | None:
    for _, node in tx.nodes(VOTES):
        if node.session is not None and tx.is_alive(node.session):
            return node.value
    return None


def _mark_key(ledger_id: int) -> str:
    return f"{_MARKS}{ledger_id:020d}"


def _lock_key(ledger_id: int) -> str:
    return f"{LOCKS}{ledger_id:020d}"
