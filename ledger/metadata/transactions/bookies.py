"""Jobs on registrations (key_value.py has the law for jobs).

A bookie is registered while a node under `bookies/writable/` or `bookies/readonly/` names a living session.
"""

from __future__ import annotations

from ledger.errors import AlreadyExistsError, MetadataFormatError
from ledger.metadata.bookie_set import bookie_set
from ledger.metadata.format.service_info import bookie_info
from ledger.metadata.transactions.key_value import Node, Transaction
from ledger.model import BookieId, BookieInfo, BookieSet, DamagedRegistration

PREFIX = "bookies/"
_WRITABLE = "bookies/writable/"
_READ_ONLY = "bookies/readonly/"


def register(tx: Transaction, bookie_id: BookieId, data: bytes, session: str, read_only: bool) -> None:
    """Be in one list only, at once. What dead processes left behind is swept on the way."""
    for key in _keys(bookie_id):
        node = tx.get(key)
        if node is not None and node.session != session and _is_alive(tx, node):
            raise AlreadyExistsError(
                f"bookie {bookie_id} is registered by another live process: stop that one first",
                key=bookie_id,
            )
    for key, node in tx.nodes(PREFIX):
        if key in _keys(bookie_id) or not _is_alive(tx, node):
            tx.remove(key)
    tx.create((_READ_ONLY if read_only else _WRITABLE) + bookie_id, data, session)


def withdraw(tx: Transaction, bookie_id: BookieId, session: str) -> None:
    for key in _keys(bookie_id):
        node = tx.get(key)
        if node is not None and node.session == session:
            tx.remove(key)


def bookies(tx: Transaction) -> BookieSet:
    return bookie_set(_info(key, node) for key, node in tx.nodes(PREFIX) if _is_alive(tx, node))


def _info(key: str, node: Node) -> BookieInfo | DamagedRegistration:
    read_only = key.startswith(_READ_ONLY)
    bookie_id = BookieId(key.removeprefix(_READ_ONLY if read_only else _WRITABLE))
    try:
        return bookie_info(bookie_id, node.value, read_only=read_only)
    except MetadataFormatError as error:
        return DamagedRegistration(bookie_id, str(error))


def _keys(bookie_id: BookieId) -> tuple[str, str]:
    return _WRITABLE + bookie_id, _READ_ONLY + bookie_id


def _is_alive(tx: Transaction, node: Node) -> bool:
    return node.session is not None and tx.is_alive(node.session)
