"""What changed in the metadata store, in words, for the timeline."""

from __future__ import annotations

from collections.abc import Callable

from dlog.errors import RecordFormatError
from dlog.format.log_metadata import decode_record
from dlog.model import ListedLedger, LogMetadata
from ledger.errors import MetadataFormatError
from ledger.metadata.format.ledger import decode_ledger_metadata
from ledger.metadata.transactions import bookies, ledgers
from ledger.metadata.transactions.key_value import Node
from ledger.model import LedgerMetadata

_LISTED_MAX = 6


def describe_change(key: str, node: Node | None, name_of: Callable[[str], str]) -> str:
    """`name_of` says which node has an address; `node` is what the key holds now."""
    if key.startswith(ledgers.PREFIX):
        ledger = f"ledger {key.removeprefix(ledgers.PREFIX).lstrip('0')}"
        return f"{ledger} " + ("removed" if node is None else _ledger(node.value, name_of))
    if key.startswith(bookies.PREFIX):
        list_name, _, address = key.removeprefix(bookies.PREFIX).partition("/")
        return (
            f"{name_of(address)} " + ("withdrawn from" if node is None else "registered as") + f" {list_name}"
        )
    name = _name(key)
    return f"{name} removed" if node is None else f"{name} {_value(node.value)}, version {node.version}"


def _name(key: str) -> str:
    """A log by its name and the first digits of its uuid; another record by its key."""
    *_, name, uuid, last = ["", "", *key.split("/")]
    return f"log {name} ({uuid.partition('-')[0]})" if last == "record" else key.removeprefix("records")


def _ledger(value: bytes, name_of: Callable[[str], str]) -> str:
    try:
        return _metadata(decode_ledger_metadata(value), name_of)
    except MetadataFormatError as error:
        return f"unreadable: {error}"


def _metadata(metadata: LedgerMetadata, name_of: Callable[[str], str]) -> str:
    fragments = (
        f"{fragment.first_entry}.. on {' '.join(name_of(each) for each in fragment.ensemble)}"
        for fragment in metadata.fragments
    )
    end = f" at {metadata.last_entry}" if metadata.closed else ""
    return f"{metadata.state.name}{end}, entries {', '.join(fragments)}"


def _value(value: bytes) -> str:
    try:
        return _log(decode_record(value))
    except RecordFormatError:
        return f"{len(value)} bytes"  # a name, for example


def _log(record: LogMetadata) -> str:
    owner = "nobody" if record.owner is None else record.owner.host or record.owner.instance
    listed = [_listed(each) for each in record.ledgers]
    if len(listed) > _LISTED_MAX:
        listed = [f"({len(listed) - _LISTED_MAX} more)", *listed[-_LISTED_MAX:]]
    return f"{record.state} epoch {record.epoch} of {owner}, ledgers {' '.join(listed) or 'none'}"


def _listed(ledger: ListedLedger) -> str:
    return f"{ledger.ledger_id}" if ledger.seal is None else f"{ledger.ledger_id}[..{ledger.seal.last_entry}]"
