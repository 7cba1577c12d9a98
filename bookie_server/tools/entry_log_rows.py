"""`bookie read-log`: the entry logs of a stopped bookie as rows to print, found without the index. Blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bookie_server.disk.numbered_files import numbers_of
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.entry_logs.format import SUFFIX, file_name
from bookie_server.storage.entry_logs.scan import Damage, FoundBlock, scan
from bookie_server.storage.storage_paths import StoragePaths
from bookie_server.tools.stopped_bookie import exclusively
from ledger.errors import ConfigurationError, RecordNotFoundError
from ledger.printing import Row

_NAME = re.compile(rf"([0-9a-f]{{1,16}})({re.escape(SUFFIX)})?", re.IGNORECASE)


def entry_log_rows(
    config: StorageConfig, log: str | None, ledger_id: int | None, entry_id: int | None
) -> Iterator[Row]:
    """One row for each entry in one entry log, or in all, as they lie there; and one for each damaged part.

    Entries of deleted ledgers, and copies that the index does not name any more, are among them.

    Raises:
        ConfigurationError: `log` is neither the name of an entry log nor its number.
        RecordNotFoundError: there is no such entry log.
    """
    disk = SystemDisk()
    wanted = None if log is None else _log_id(log)
    with exclusively(disk, config):
        directory = StoragePaths.of(config).entry_logs
        log_ids = numbers_of(disk, directory, SUFFIX)
        if wanted is not None and wanted not in log_ids:
            raise RecordNotFoundError(
                f"there is no entry log {directory / file_name(wanted)}", key=file_name(wanted)
            )
        for log_id in log_ids if wanted is None else [wanted]:
            for found in scan(disk, directory, log_id, None):
                yield from _rows(found, log_id, ledger_id, entry_id)


def _log_id(text: str) -> int:
    matched = _NAME.fullmatch(text)
    if matched is None:
        raise ConfigurationError(
            f"entry log {text!r} must be the name of a file in entry-logs, or its hexadecimal number"
        )
    return int(matched[1], 16)


def _rows(
    found: FoundBlock | Damage, log_id: int, ledger_id: int | None, entry_id: int | None
) -> Iterator[Row]:
    name = file_name(log_id)
    if isinstance(found, Damage):
        yield {"log": name, "offset": found.start, "damaged_bytes": found.end - found.start}
        return
    block = found.block
    if ledger_id not in (None, block.ledger_id):
        return
    for each in block.ids:
        if entry_id in (None, each):
            entry = block.entry(each)
            assert entry is not None, "a block holds what it lists"
            yield {
                "log": name,
                "offset": found.offset,
                "ledger": block.ledger_id,
                "entry": each,
                "bytes": len(entry),
            }
