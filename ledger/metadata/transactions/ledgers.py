"""Jobs on ledgers (key_value.py has the law for jobs): bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.digits import whole_number
from ledger.errors import AlreadyExistsError, MetadataFormatError
from ledger.metadata.refusals import AHEAD_MAX, is_own_create, ledger_moved_on, ledger_not_found
from ledger.metadata.transactions.key_value import Node, Transaction
from ledger.metadata.transactions.ledger_keys import ledger_id_in
from ledger.model import LEDGER_ID_MAX, LedgerId

PREFIX = "ledgers/"
LAST_ID_KEY = "cluster/last-ledger-id"
"""Holds the id given out last, as decimal text. It survives format and nuke: no id is given out twice."""


def new_id(tx: Transaction) -> int:
    node = tx.get(LAST_ID_KEY)
    if node is None:
        tx.create(LAST_ID_KEY, b"1")
        return 1
    last = whole_number(node.value, LEDGER_ID_MAX - 1)
    if last is None:
        raise MetadataFormatError(
            f"the last ledger id is {node.value[:40]!r}, not a number below {LEDGER_ID_MAX}", key=LAST_ID_KEY
        )
    ledger_id = last + 1
    tx.update(LAST_ID_KEY, b"%d" % ledger_id, node.version)
    return ledger_id


def reach(tx: Transaction) -> int:
    """The highest id that may have been given out, also if this store is an older backup. Never raises."""
    node = tx.get(LAST_ID_KEY)
    last = 0 if node is None else whole_number(node.value, LEDGER_ID_MAX - 1)
    return LEDGER_ID_MAX if last is None else min(last + AHEAD_MAX, LEDGER_ID_MAX - 1)


def pass_by(tx: Transaction, ledger_id: int) -> bool:
    """Give out only ids above this one, which is within `reach`, from now on; whether that changes anything.

    Never raises.
    """
    node = tx.get(LAST_ID_KEY)
    if node is None:
        return tx.create(LAST_ID_KEY, b"%d" % ledger_id)
    last = whole_number(node.value, LEDGER_ID_MAX - 1)
    if last is None or ledger_id <= last:
        return False
    return tx.update(LAST_ID_KEY, b"%d" % ledger_id, node.version)


def create_new(tx: Transaction, data: bytes) -> int:
    """An id and its ledger in one transaction: half the commits of taking them one after the other."""
    while True:
        ledger_id = new_id(tx)
        if tx.create(_key(ledger_id), data):
            return ledger_id


def create(tx: Transaction, ledger_id: int, data: bytes, c_token: int | None) -> int:
    if tx.create(_key(ledger_id), data):
        return 0
    found = tx.get(_key(ledger_id))
    if found is not None and is_own_create(found.value, c_token):
        return found.version
    raise AlreadyExistsError(f"ledger {ledger_id} exists already", key=ledger_id)


def read(tx: Transaction, ledger_id: int) -> Node:
    node = tx.get(_key(ledger_id))
    if node is None:
        raise ledger_not_found(ledger_id)
    return node


def read_many(tx: Transaction, ledger_ids: Sequence[LedgerId]) -> dict[LedgerId, Node]:
    """Those of them that exist."""
    found = ((ledger_id, tx.get(_key(ledger_id))) for ledger_id in ledger_ids)
    return {ledger_id: node for ledger_id, node in found if node is not None}


def write(tx: Transaction, ledger_id: int, data: bytes, version: int) -> int:
    if not tx.update(_key(ledger_id), data, version):
        raise _refused(tx, ledger_id, version)
    return version + 1


def remove(tx: Transaction, ledger_id: int, version: int | None) -> None:
    if not tx.remove(_key(ledger_id), version):
        raise _refused(tx, ledger_id, version)


def page(tx: Transaction, first: int, limit: int) -> list[LedgerId]:
    """Ids from `first` on, ascending, at most `limit`."""
    keys = tx.keys(PREFIX, start=_key(first), limit=limit)
    return [ledger_id_in(key, PREFIX, _key, "a ledger") for key in keys]


def watch_key(ledger_id: int) -> str:
    return _key(ledger_id)


def _key(ledger_id: int) -> str:
    return f"{PREFIX}{ledger_id:019d}"


def _refused(tx: Transaction, ledger_id: int, version: int | None) -> Exception:
    found = tx.get(_key(ledger_id))
    if found is None or version is None:
        return ledger_not_found(ledger_id)
    return ledger_moved_on(ledger_id, found.version, version)
