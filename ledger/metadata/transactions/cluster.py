"""Jobs on the cluster as a whole (key_value.py has the law for jobs): init, format, nuke, identity."""

from __future__ import annotations

from ledger.errors import (
    AlreadyExistsError,
    MetadataFormatError,
    RecordNotFoundError,
)
from ledger.metadata.format.layout import Layout, encode_layout
from ledger.metadata.refusals import cluster_in_use, no_cluster, not_this_cluster
from ledger.metadata.transactions import bookies, ledgers, records, repair
from ledger.metadata.transactions.key_value import Transaction

COOKIE_PREFIX = "cookies/"
_INSTANCE_ID = "cluster/INSTANCEID"
_LAYOUT = "cluster/LAYOUT"


def init(tx: Transaction, instance_id: str) -> None:
    if tx.get(_INSTANCE_ID) is not None:
        raise AlreadyExistsError(
            "the metadata store holds a cluster already: use it as it is, or give another address",
            key="INSTANCEID",
        )
    tx.create(_INSTANCE_ID, instance_id.encode())
    tx.create(_LAYOUT, encode_layout(Layout()))


def format_cluster(tx: Transaction, instance_id: str) -> None:
    tx.remove_range(ledgers.PREFIX)
    tx.remove_range(records.PREFIX)
    tx.remove_range(COOKIE_PREFIX)
    tx.remove_range(repair.PREFIX)
    tx.remove(_INSTANCE_ID)
    tx.create(_INSTANCE_ID, instance_id.encode())


def nuke(tx: Transaction, instance_id: str | None) -> None:
    """Remove everything but the id counter: ledger ids stay unique in this store for ever."""
    found = None if instance_id is None and tx.get(_INSTANCE_ID) is None else read_instance_id(tx)
    if found is None:
        read_layout(tx)
    if found != instance_id:
        raise not_this_cluster(found, instance_id)
    registered = bookies.bookies(tx).registered()
    if registered:
        raise cluster_in_use(registered)
    for prefix in (
        ledgers.PREFIX,
        records.PREFIX,
        COOKIE_PREFIX,
        bookies.PREFIX,
        repair.PREFIX,
        _INSTANCE_ID,
        _LAYOUT,
    ):
        tx.remove_range(prefix)


def require_cluster(tx: Transaction, uri: str) -> None:
    if tx.get(_INSTANCE_ID) is None:
        raise no_cluster(uri)


def read_instance_id(tx: Transaction) -> str:
    node = tx.get(_INSTANCE_ID)
    if node is None:
        raise RecordNotFoundError("no cluster is initialised here", key="INSTANCEID")
    try:
        return node.value.decode("ascii")
    except UnicodeDecodeError as error:
        raise MetadataFormatError(f"INSTANCEID is {node.value[:40]!r}, not text", key="INSTANCEID") from error


def read_layout(tx: Transaction) -> bytes:
    node = tx.get(_LAYOUT)
    if node is None:
        raise RecordNotFoundError("no cluster is initialised here", key="LAYOUT")
    return node.value
