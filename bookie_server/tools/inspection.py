"""Offline commands of `bookie`: the files of a stopped bookie as rows to print."""

from __future__ import annotations

from collections.abc import Iterator

from bookie_server.cookie import read_cookie
from bookie_server.disk.directory_lock import exclusively
from bookie_server.disk.disk import Disk
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.journal.record import RecordType, decode_adds, decode_explicit_lac, ledger_of
from bookie_server.net.port import kept_port
from bookie_server.storage.config import StorageConfig
from bookie_server.tools.offline import FoundRecord, journal_records, ledger_entries, ledger_ids
from ledger.printing import Row
from ledger.wire.entry import ENTRY_HEADER_BYTES, ENTRY_IDS, decode_header


def journal_rows(config: StorageConfig) -> Iterator[Row]:
    """One row for each record of the journal."""
    disk = SystemDisk()
    with exclusively(disk, config):
        for found in journal_records(disk, config.journal_directory):
            yield {
                "file": found.path.name,
                "offset": found.offset,
                "sequence": found.record.sequence,
                "type": found.record.type.name.lower(),
                "detail": _detail(found),
            }


def ledger_rows(config: StorageConfig, ledger_id: int, first: int, last: int) -> Iterator[Row]:
    """One row for each entry of the ledger. LedgerNotFoundError if the bookie has no such ledger."""
    disk = SystemDisk()
    with exclusively(disk, config):
        for entry_id, entry in ledger_entries(disk, config, ledger_id, first, last):
            lac, length, rest = _parts(entry)
            yield {
                "ledger": ledger_id,
                "entry": entry_id,
                "lac": lac,
                "length": length,
                "bytes": len(entry),
                "after_header": rest.hex(),
            }


def _parts(entry: bytes) -> tuple[int, int | None, bytes]:
    """LAC, length and what follows. An entry that ends before its length field has none (wire/entry.py)."""
    if len(entry) < ENTRY_HEADER_BYTES:
        return ENTRY_IDS.unpack_from(entry)[2], None, entry[ENTRY_IDS.size :]
    header = decode_header(entry)
    return header.lac, header.length, entry[ENTRY_HEADER_BYTES:]


def directory_facts(config: StorageConfig) -> Row:
    """Whose directories these are, and what they hold."""
    disk = SystemDisk()
    with exclusively(disk, config):
        return _facts(disk, config)


def _facts(disk: Disk, config: StorageConfig) -> Row:
    cookie = read_cookie(disk, config.ledger_directory)
    total, free = disk.free_space(config.ledger_directory)
    ids = ledger_ids(disk, config)
    return {
        "bookie": None if cookie is None else cookie.bookie_id,
        "cluster": None if cookie is None else cookie.instance_id,
        "journal_dir": str(config.journal_directory),
        "ledger_dir": str(config.ledger_directory),
        "kept_port": kept_port(disk, config.ledger_directory),
        "total_bytes": total,
        "free_bytes": free,
        "ledger_count": len(ids),
        "ledgers": ids,
    }


def _detail(found: FoundRecord) -> str:
    body = found.record.body
    match found.record.type:
        case RecordType.ADDS:
            return _adds_detail(found)
        case RecordType.EXPLICIT_LAC:
            ledger_id, lac, _ = decode_explicit_lac(body)
            return f"ledger {ledger_id} lac {lac}"
        case RecordType.NEXT_FILE:
            return f"goes on in file {ledger_of(body)}"
        case RecordType.LEDGER_KEY | RecordType.FENCE | RecordType.TOMBSTONE:
            return f"ledger {ledger_of(body)}"


def _adds_detail(found: FoundRecord) -> str:
    """Ranges of entries, ledger by ledger, as they were sent."""
    parts: list[str] = []
    run: tuple[int, int, int] | None = None
    for ledger_id, entry_id, _, _ in decode_adds(found.record.body):
        if run is not None and (ledger_id, entry_id) == (run[0], run[2] + 1):
            run = (run[0], run[1], entry_id)
            continue
        if run is not None:
            parts.append(_range(run))
        run = (ledger_id, entry_id, entry_id)
    if run is not None:
        parts.append(_range(run))
    return ", ".join(parts)


def _range(run: tuple[int, int, int]) -> str:
    ledger_id, first, last = run
    return (
        f"ledger {ledger_id} entry {first}" if first == last else f"ledger {ledger_id} entries {first}-{last}"
    )
