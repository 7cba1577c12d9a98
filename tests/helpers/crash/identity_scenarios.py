"""A bookie's first start, a change of its ledger directories, a format: what disks and store know at each moment.

The store is a machine of its own: what it has answered it keeps, whatever becomes of the bookie's disk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from bookie_server.cookie import Verdict, own_cookie, prove_identity
from bookie_server.disk.directory_lock import lock_directories
from bookie_server.disk.disk import Disk
from bookie_server.errors import CookieMismatchError
from bookie_server.net.port import keep_port, kept_port
from bookie_server.storage.config import StorageConfig
from bookie_server.storage.ledger_storage import LedgerStorage
from bookie_server.tools.formatting import give_up, identity_of, require_identified
from dlog.testing.disk.image import DiskImage
from ledger.environment import SystemEnvironment
from ledger.metadata.memory import MemoryBackend, MemoryCluster
from ledger.metadata.transactions.store import KeyValueStore
from ledger.model import BookieId
from tests.helpers.bookie.storage import small_config
from tests.helpers.crash.recorded_storage import Ledgers, RecordedStorage, check, copy_of
from tests.helpers.crash.scenarios import HOME, SETTINGS
from tests.helpers.simulation.disk import new_disk

PORT = 3181
CONFIG = small_config(HOME, **SETTINGS)
BOOKIE = BookieId("10.0.0.1:3181")
WITH_MORE = replace(CONFIG, more_ledger_directories=(HOME / "more",))
WITHOUT_MORE = replace(CONFIG, lost_ledger_directories=(HOME / "more",))


@dataclass(slots=True)
class Known:
    """What is known of the bookie outside of its disk."""

    cluster: MemoryCluster
    ledgers: Ledgers
    formatting: bool = False
    """Somebody has begun to format it."""
    config: StorageConfig = CONFIG
    """With which it is started now."""

    @classmethod
    def empty(cls) -> Known:
        return cls(MemoryCluster(), {})

    def copy(self) -> Known:
        cluster = MemoryCluster()
        cluster.nodes, cluster.sorted_keys = dict(self.cluster.nodes), list(self.cluster.sorted_keys)
        return Known(cluster, copy_of(self.ledgers), self.formatting, self.config)

    def describe(self) -> str:
        return repr((self.cluster.nodes, self.ledgers, self.formatting))

    def store(self) -> KeyValueStore:
        environment = SystemEnvironment()
        return KeyValueStore(MemoryBackend("memory:crash", self.cluster, environment), environment)


async def new_known() -> Known:
    known = Known.empty()
    await known.store().init_cluster()
    return known


async def start(
    disk: Disk, known: Known, config: StorageConfig | None = None
) -> tuple[Verdict, RecordedStorage]:
    """The steps of a bookie's start in their order, without those on the network."""
    config = config or known.config
    journal, ledgers = config.journal_directory, config.ledger_directory
    locks = lock_directories(disk, config)
    try:
        if kept_port(disk, ledgers) is None:
            keep_port(disk, ledgers, PORT)
        ours = own_cookie(BOOKIE, journal, ledgers, "instance", config.more_ledger_directories)
        verdict = await prove_identity(known.store(), disk, ours, config, SystemEnvironment())
        storage = await LedgerStorage.open(config, disk, SystemEnvironment())
        return verdict, RecordedStorage(storage, known.ledgers)
    finally:
        for each in locks:
            each.release()


async def first_start(disk: Disk, known: Known) -> None:
    """Directories, port, cookies, the storage, and the first add."""
    _, bookie = await start(disk, known)
    await bookie.add(1, range(3))
    await bookie.storage.close()


async def format_it(disk: Disk, known: Known) -> None:
    """The same, and then the bookie is given up."""
    await first_start(disk, known)
    known.formatting = True
    await give_up(known.store(), disk, CONFIG, BOOKIE)


async def one_directory_more(disk: Disk, known: Known) -> None:
    """And then it is lost, without an entry log in it."""
    await first_start(disk, known)
    for known.config in (WITH_MORE, WITHOUT_MORE):
        _, bookie = await start(disk, known)
        await bookie.add(1, range(3, 5))
        await bookie.storage.close()


IDENTITY_SCENARIOS: tuple[Callable[[Disk, Known], Awaitable[None]], ...] = (
    first_start,
    format_it,
    one_directory_more,
)


async def boot_identity(image: DiskImage, known: Known) -> None:
    """It starts as what it was; or, in the middle of a format, it refuses and can be formatted again."""
    disk, known = new_disk(image=image), known.copy()
    try:
        verdict, bookie = await start(disk, known)
    except CookieMismatchError:
        assert known.formatting, "a bookie that nobody formats must start"
        assert (found := identity_of(disk, CONFIG)) is None or found.bookie_id == BOOKIE
        require_identified(disk, CONFIG)
        await give_up(known.store(), disk, CONFIG, BOOKIE)
        known.ledgers.clear()
        verdict, bookie = await start(disk, known)
        assert verdict is Verdict.NEW
    if known.formatting and verdict is Verdict.NEW:
        known.ledgers.clear()
    await check(bookie.storage, known.ledgers)
    await bookie.add(9, range(2))
    await bookie.storage.close()
    verdict, bookie = await start(disk, known)
    assert verdict is Verdict.KNOWN
    assert kept_port(disk, CONFIG.ledger_directory) == PORT
    await check(bookie.storage, known.ledgers)
    await bookie.storage.close()
