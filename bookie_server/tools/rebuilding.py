"""`bookie rebuild-index`: a new index for a stopped bookie, with what is said while it is made."""

from __future__ import annotations

from collections.abc import Callable

from bookie_server.disk.directory_lock import exclusively
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.start.rebuild import Progress, rebuild_index
from ledger.printing import Row, counted


def rebuilt_facts(config: StorageConfig, say: Callable[[str], None]) -> Row:
    """Rebuild it, with a line for `say` after each entry log; what the new index holds."""

    def report(progress: Progress) -> None:
        say(
            f"{progress.doing} entry log {progress.log_id:x}, {progress.done} of {progress.count}: "
            f"{counted(progress.entries, 'entry', 'entries')} so far"
        )

    disk = SystemDisk()
    with exclusively(disk, config):
        rebuilt = rebuild_index(disk, config, report)
    for each in rebuilt.lost:
        say(f"lost: {each}")
    if rebuilt.lost:
        say(
            "the bookie is in limbo: it answers unknown for what it cannot find and accepts no new entries; keep it "
            "until no ledger names it, then format it (docs/operations.md)"
        )
    return {
        "index": str(config.ledger_directory / "index"),
        "ledgers": rebuilt.ledgers,
        "fenced": rebuilt.fenced,
        "deleted": rebuilt.deleted,
        "entries": rebuilt.entries,
        "entry_logs": rebuilt.entry_logs,
        "in_limbo": bool(rebuilt.lost),
    }
