"""What a running bookie says of itself and of the repair worker in its process, over its control socket."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bookie_server.control.messages import Command, Request
from bookie_server.cookie import read_cookie
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.config import StorageConfig
from bookie_server.tools.inspection import space_of
from bookie_server.tools.running_bookie import ask_running
from ledger.errors import BookieUnavailableError
from ledger.printing import Row, print_facts, print_table, with_times

LEDGER_COLUMNS = ("ledger", "began", "entries_copied", "entries_to_copy", "bytes_copied")
WORKER_COLUMNS = LEDGER_COLUMNS[1:]
"""What is known of a ledger that a worker repairs now."""


def running_facts(config: StorageConfig) -> Row | None:
    """Identity, state and disk of the bookie that runs on these directories, and `repair`: what its worker does, None
    without one. None if no bookie runs.

    Raises:
        BookieUnavailableError: it does not respond.
    """
    status = ask_running(config, Request(Command.STATUS))
    if status is None:
        return None
    disk = SystemDisk()
    cookie = read_cookie(disk, config.ledger_directory)
    working, failed = status["ledger_dirs"], status["failed_ledger_dirs"]
    # The bookie may not have noticed yet that one is missing.
    total, free = space_of(disk, [path for path in map(Path, working) if path.exists()])
    return {
        "bookie": None if cookie is None else cookie.bookie_id,
        "cluster": None if cookie is None else cookie.instance_id,
        "journal_dir": str(config.journal_directory),
        "ledger_dir": ", ".join(working),
        "failed_ledger_dir": ", ".join(failed) or None,
        "state": "read-only" if status["read_only"] else "writable",
        "in_limbo": status["in_limbo"],
        "total_bytes": total,
        "free_bytes": free,
        "repair": status["repair"],
    }


def print_running(facts: Row) -> None:
    """As text: the facts, and a table of the ledgers that the worker repairs now."""
    shown = dict(facts)
    worker: Any = shown.pop("repair")
    if worker is None:
        print_facts({**shown, "worker": None})
        return
    ledgers = worker["ledgers"]
    print_facts({**shown, **{name: value for name, value in worker.items() if name != "ledgers"}})
    if ledgers:
        print()
        rows = [{**each, "ledger": str(each["ledger"])} for each in ledgers]
        print_table(LEDGER_COLUMNS, [list(with_times(row).values()) for row in rows])


def repaired_now(config: StorageConfig) -> Mapping[int, Row]:
    """By ledger: what the worker of the bookie on these directories has copied of it, without its id.

    Raises:
        BookieUnavailableError: no bookie runs there, or it does not respond.
    """
    status = ask_running(config, Request(Command.STATUS))
    if status is None:
        raise BookieUnavailableError(
            f"no bookie runs on {config.ledger_directory}: give the directories of one that runs with --autorecovery, "
            "or leave them out"
        )
    worker = status["repair"] or {"ledgers": []}
    return {
        each["ledger"]: {name: value for name, value in each.items() if name != "ledger"}
        for each in worker["ledgers"]
    }
