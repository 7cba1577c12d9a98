"""What bookies do in the crash images: short, so that all of it can be cut off at each of its effects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from bookie_server.disk.disk import Disk
from tests.helpers.bookie.storage import COMPACTED_BELOW, open_storage
from tests.helpers.crash.recorded_storage import LARGE_FROM, Ledgers, RecordedStorage

HOME = Path("/bookie")
KIB = 1024
SETTINGS: dict[str, int] = {
    "journal_segment_bytes": 64 * KIB,
    "entry_log_bytes_max": 64 * KIB,
    "write_cache_bytes_max": 1024 * KIB,
    "reserve_bytes": 0,
}
Scenario = Callable[[RecordedStorage], Awaitable[None]]


async def opened(disk: Disk, ledgers: Ledgers) -> RecordedStorage:
    return RecordedStorage(await open_storage(HOME, disk, **SETTINGS), ledgers)


async def first_adds(bookie: RecordedStorage) -> None:
    """A first start and the first entries of two ledgers, some out of order, some twice."""
    await bookie.add(1, range(4))
    await bookie.add(2, [0, 2])
    await bookie.add(2, [1, 2, 3])


async def journal_roll(bookie: RecordedStorage) -> None:
    """Three journal files are filled."""
    for step in range(24):
        await bookie.add(LARGE_FROM, [step])
        await bookie.add(1, [step])


async def checkpoints(bookie: RecordedStorage) -> None:
    """Three checkpoints with entries, a LAC and a fence between them; the last one has nothing to store."""
    await bookie.add(1, range(20))
    await bookie.set_lac(1, 15)
    await bookie.storage.checkpoint()
    await bookie.add(1, range(20, 40))
    await bookie.fence(1)
    await bookie.set_lac(1, 30)
    await bookie.storage.checkpoint()
    await bookie.storage.checkpoint()


async def entry_log_roll(bookie: RecordedStorage) -> None:
    """Two entry logs are filled, checkpoint by checkpoint."""
    for step in range(5):
        await bookie.add(LARGE_FROM, range(4 * step, 4 * step + 4))
        await bookie.storage.checkpoint()


async def late_adds(bookie: RecordedStorage) -> None:
    """Gaps of a ledger are filled when its first entries are in a full entry log: these go into the next one."""
    await bookie.add(1, [0, 2, 4])
    await bookie.add(LARGE_FROM, range(8))
    await bookie.storage.checkpoint()
    await bookie.add(1, [1])
    await bookie.storage.checkpoint()
    await bookie.add(1, [3])
    await bookie.storage.checkpoint()


async def fences(bookie: RecordedStorage) -> None:
    """Fences of ledgers known, unknown and fenced already; recovery's adds after them."""
    await bookie.add(1, range(3))
    await bookie.fence(1)
    await bookie.add(1, [3, 4])
    await bookie.fence(2)
    await bookie.storage.checkpoint()
    await bookie.fence(1)
    await bookie.add(2, [0])
    await bookie.fence(3)


async def limits(bookie: RecordedStorage) -> None:
    """Explicit LACs that rise, and one that comes late."""
    await bookie.add(1, range(10))
    for lac in (3, 7, 5, 9):
        await bookie.set_lac(1, lac)
    await bookie.storage.checkpoint()
    await bookie.set_lac(1, 12)
    await bookie.set_lac(2, 4)


async def garbage(bookie: RecordedStorage) -> None:
    """Ledgers are deleted before and after a checkpoint, and their entry logs with them."""
    for ledger_id in (LARGE_FROM, LARGE_FROM + 1, 1):
        await bookie.add(ledger_id, range(9))
    await bookie.storage.checkpoint()
    await bookie.delete(LARGE_FROM)
    await bookie.storage.checkpoint()
    await bookie.storage.remove_dead_logs()
    await bookie.add(LARGE_FROM + 2, range(9))
    await bookie.delete(LARGE_FROM + 2)
    await bookie.delete(1)
    await bookie.delete(77)
    await bookie.storage.checkpoint()
    await bookie.storage.remove_dead_logs()


async def compaction(bookie: RecordedStorage) -> None:
    """What lives in two entry logs, or journal files, and in the current one comes into a new one; twice."""
    for step in range(3):
        await bookie.add(1, range(20 * step, 20 * step + 20))
        await bookie.add(LARGE_FROM, range(4 * step, 4 * step + 4))
        await bookie.add(2, [2 * step, 2 * step + 1])
        await bookie.storage.checkpoint()
    await bookie.delete(LARGE_FROM)
    await bookie.storage.checkpoint()
    await bookie.storage.compact(COMPACTED_BELOW)
    await bookie.add(1, [60])
    await bookie.delete(2)
    await bookie.storage.checkpoint()
    await bookie.storage.compact(COMPACTED_BELOW)


async def everything(bookie: RecordedStorage) -> None:
    """All of it mixed, and a stop in good order."""
    for step in range(6):
        await bookie.add(1, range(step * 30, step * 30 + 30))
        await bookie.add(2, [step])
        await bookie.add(LARGE_FROM, [2 * step, 2 * step + 1])
        match step:
            case 1 | 4:
                await bookie.storage.checkpoint()
            case 2:
                await bookie.fence(2)
                await bookie.add(3, range(5))
            case 5:
                await bookie.delete(3)
            case 3:
                await bookie.set_lac(1, 50)
                await bookie.storage.remove_dead_logs()
    await bookie.storage.close()


SCENARIOS: tuple[Scenario, ...] = (
    first_adds,
    journal_roll,
    checkpoints,
    entry_log_roll,
    late_adds,
    fences,
    limits,
    garbage,
    compaction,
    everything,
)
