"""Jobs on registrations (key_value.py has the law for jobs).

A bookie is registered while a node under `bookies/writable/` or `bookies/readonly/` names a living session.
"""

from __future__ import annotations

import logging

from ledger.errors import AlreadyExistsError, MetadataFormatError
from ledger.metadata.format.service_info import bookie_info
from ledger.metadata.transactions.key_value import Node, Transaction
from ledger.model import BookieId, BookieInfo, BookieSet

PREFIX = "bookies/"
_WRITABLE = "bookies/writable/"
_READ_ONLY = "bookies/readonly/"

_log = logging.getLogger(__name__)


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
    found = [_info(key, node) for key, node in tx.nodes(PREFIX) if _is_alive(tx, node)]
    return BookieSet(
        writable=tuple(info for info in found if info and not info.read_only),
        read_only=tuple(info for info in found if info and info.read_only),
    )


def _info(key: str, node: Node) -> BookieInfo | None:
    read_only = key.startswith(_READ_ONLY)
    bookie_id = BookieId(key.removeprefix(_READ_ONLY if read_only else _WRITABLE))
    try:
        return bookie_info(bookie_id, node.value, read_only=read_only)
    except MetadataFormatError as error:
        # One bookie that publishes nonsense cannot be reached; it must not hide the others.
        _log.warning("bookie %r is left out of the list: %s", bookie_id, error)
        return None


def _keys(bookie_id: BookieId) -> tuple[str, str]:
    return _WRITABLE + bookie_id, _READ_ONLY + bookie_id


def _is_alive(tx: Transaction, node: Node) -> bool:
    return node.session is not None and tx.is_alive(node.session)
