"""Jobs on versioned values under a key (key_value.py has the law for jobs): records, and cookies alike."""

from __future__ import annotations

from ledger.errors import AlreadyExistsError
from ledger.metadata.refusals import record_moved_on, record_not_found
from ledger.metadata.transactions.key_value import Node, Transaction

PREFIX = "records"
"""Stands before a record's key, which begins with a slash."""


def create(tx: Transaction, prefix: str, key: str, value: bytes) -> int:
    if not tx.create(prefix + key, value):
        raise AlreadyExistsError(f"{key} exists already", key=key)
    return 0


def read(tx: Transaction, prefix: str, key: str) -> Node:
    node = tx.get(prefix + key)
    if node is None:
        raise record_not_found(key)
    return node


def write(tx: Transaction, prefix: str, key: str, value: bytes, version: int) -> int:
    if not tx.update(prefix + key, value, version):
        raise _refused(tx, prefix, key, version)
    return version + 1


def remove(tx: Transaction, prefix: str, key: str, version: int) -> None:
    if not tx.remove(prefix + key, version):
        raise _refused(tx, prefix, key, version)


def children(tx: Transaction, parent: str) -> list[str]:
    """Distinct next parts of the keys below `parent`, found by leaping, however deep the trees are."""
    base = f"{PREFIX}{parent.rstrip('/')}/"
    found: set[str] = set()
    start = base
    while keys := tx.keys(base, start=start, limit=1):
        name, slash, _ = keys[0].removeprefix(base).partition("/")
        found.add(name)
        # "0" comes right after "/": leap over everything below the child. Siblings like "a-" sort between
        # "a" and "a/", so the leap starts only when the first key below the child has been met.
        start = f"{base}{name}0" if slash else f"{keys[0]}\x01"
    return sorted(found)


def _refused(tx: Transaction, prefix: str, key: str, version: int) -> Exception:
    found = tx.get(prefix + key)
    return record_not_found(key) if found is None else record_moved_on(key, found.version, version)
