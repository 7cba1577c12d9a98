"""`bookie scrub`: check what a bookie has stored, or show what the scrubber of a running one has done.

A running bookie is asked for a pass of its scrubber; the files of a stopped one are read.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from bookie_server.control.messages import Command, Request
from bookie_server.disk.directory_lock import exclusively
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import StorageError
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.scrub.record import (
    ScrubPass,
    ScrubRecord,
    decode_scrub_pass,
    decode_scrub_record,
)
from bookie_server.storage.scrub.scrubber import STEP_BYTES
from bookie_server.storage.scrub.walk import BEGINNING, BlockWalk, Position
from bookie_server.storage.start.index_directories import open_index
from bookie_server.storage.storage_paths import StoragePaths
from bookie_server.tools.running_bookie import ask_running
from ledger.environment import SystemEnvironment
from ledger.printing import Row, counted

SCRUB_COLUMNS = ("pass", "began", "ended", "blocks", "bytes", "damaged blocks", "damaged ledgers")


def scrubbed_facts(config: StorageConfig, say: Callable[[str], None]) -> Row:
    """Check everything.

    Of a stopped bookie at full speed, with a line for `say` for each damaged block; a running one logs them.
    """
    result = ask_running(config, Request(Command.SCRUB))
    if result is not None:
        return _facts(decode_scrub_pass(result))
    disk, paths = SystemDisk(), StoragePaths.of(config)
    with exclusively(disk, config):
        index = open_index(disk, paths)
        try:
            found = _whole_pass(BlockWalk(disk, index, paths), say)
        finally:
            index.close()
    return _facts(found)


def _whole_pass(walk: BlockWalk, say: Callable[[str], None]) -> ScrubPass:
    found = ScrubPass(began_ms=_now_ms())
    position: Position | None = BEGINNING
    while position is not None:
        step = walk.step(position, STEP_BYTES)
        for each in step.damage:
            say(each.reason)
        found, position = found.after(step), step.next
    return found


def require_intact(facts: Row) -> None:
    """StorageError if the check has found damage."""
    blocks = int(str(facts["damaged_blocks"]))
    if blocks:
        raise StorageError(
            f"{counted(blocks, 'block is', 'blocks are')} damaged: the scrubber of a running bookie has the copies "
            "brought back from other bookies"
        )


def scrub_status(config: StorageConfig) -> list[Row]:
    """The pass under way and the last complete one, as far as the scrubber has noted; the bookie may be running."""
    record = _noted(config)
    return [
        {"pass": name, "began": _time(each.began_ms), "ended": _time(each.ended_ms), **_facts(each)}
        for name, each in (("under way", record.current), ("complete", record.last))
        if each is not None
    ]


def _noted(config: StorageConfig) -> ScrubRecord:
    disk, path = SystemDisk(), StoragePaths.of(config).scrub_record
    return decode_scrub_record(disk.read_file(path)) if disk.exists(path) else ScrubRecord()


def _facts(found: ScrubPass) -> Row:
    return {
        "blocks": found.blocks,
        "bytes": found.block_bytes,
        "damaged_blocks": found.damaged_blocks,
        "damaged_ledgers": list(found.damaged_ledgers),
    }


def _time(ms: int | None) -> str | None:
    return None if ms is None else f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _now_ms() -> int:
    return SystemEnvironment().wall_us() // 1000
