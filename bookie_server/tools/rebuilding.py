"""`bookie rebuild-index`: a new index for a bookie, with what is said while it is made.

A running bookie is asked to make it; of a stopped one the files are read.
"""

from __future__ import annotations

from collections.abc import Callable

from bookie_server.control.messages import Command, Request
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import StorageError
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.rebuild.new_index import Progress, Rebuilt
from bookie_server.storage.rebuild.stopped import rebuild_index
from bookie_server.storage.segments.places import name_of
from bookie_server.tools.running_bookie import ask_running
from bookie_server.tools.stopped_bookie import exclusively
from ledger.printing import Row, counted


def rebuilt_facts(config: StorageConfig, say: Callable[[str], None]) -> Row:
    """Rebuild it; what the new index holds.

    With a line for `say` after each file of a stopped bookie. A running one does it at the rate of its settings,
    serves on, and keeps its old index if anything is lost: UnavailableError.
    """
    result = ask_running(config, Request(Command.REBUILD_INDEX))
    rebuilt = _of_stopped(config, say) if result is None else Rebuilt(**result)
    return {
        "index": str(config.ledger_directory / "index"),
        "ledgers": rebuilt.ledgers,
        "fenced": rebuilt.fenced,
        "deleted": rebuilt.deleted,
        "entries": rebuilt.entries,
        "entry_logs": rebuilt.entry_logs,
        "in_limbo": bool(rebuilt.lost),
    }


def _of_stopped(config: StorageConfig, say: Callable[[str], None]) -> Rebuilt:
    def report(progress: Progress) -> None:
        say(
            f"{progress.doing} {name_of(progress.log_id)}, {progress.done} of {progress.count}: "
            f"{counted(progress.entries, 'entry', 'entries')} so far"
        )

    disk = SystemDisk()
    with exclusively(disk, config, to_change=True):
        rebuilt = rebuild_index(disk, config, report)
    for each in rebuilt.lost:
        say(f"lost: {each}")
    return rebuilt


def require_nothing_lost(facts: Row) -> None:
    """StorageError if the new index lacks what the files do not have any more."""
    if facts["in_limbo"]:
        raise StorageError(
            "the index is new, and lacks what is lost: the bookie is in limbo, answers unknown for what it cannot find "
            "and takes no new entries; start it and keep it running: limbo ends by itself once the workers of "
            "autorecovery have repaired what it lacks (docs/operations.md#limbo)"
        )
