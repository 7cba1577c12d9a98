"""`bookie format`: no bookie begins on directories of which a part is still to be deleted."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from bookie_server.cookie import own_cookie, prove_identity
from bookie_server.disk.directory_lock import lock_directories
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import BookieInUseError, DirectoryInUseError
from bookie_server.storage.config import StorageConfig
from bookie_server.tools.formatting import give_up, require_unused
from bookie_server.tools.stopped_bookie import exclusively
from ledger.environment import SystemEnvironment
from ledger.metadata.drivers import open_store
from ledger.model import BookieId, BookieInfo
from tests.helpers.bookie.storage import small_config

BOOKIE = BookieId("127.0.0.1:3181")


class Started(SystemDisk):
    """Before each name goes, another process is started on the directories."""

    def __init__(self, config: StorageConfig) -> None:
        super().__init__()
        self._config = config
        self.removed_under_it: list[Path] = []

    def remove(self, path: Path) -> None:
        if path.exists():
            with suppress(DirectoryInUseError):
                locks = lock_directories(SystemDisk(), self._config)
                self.removed_under_it.append(path)
                for each in locks:
                    each.release()
        super().remove(path)


async def test_a_format_keeps_the_directories_locked_until_nothing_is_left_to_delete(tmp_path: Path) -> None:
    config = small_config(tmp_path, more_ledger_directories=(tmp_path / "more",))
    store = await open_store("memory:formatting")
    await store.init_cluster()
    cookie = own_cookie(
        BOOKIE,
        config.journal_directory,
        config.ledger_directory,
        await store.instance_id(),
        config.more_ledger_directories,
    )
    await prove_identity(store, SystemDisk(), cookie, config, SystemEnvironment())
    disk = Started(config)
    with exclusively(disk, config):
        await give_up(store, disk, config, BOOKIE)
    assert not disk.removed_under_it
    for directory in (config.journal_directory, *config.ledger_directories):
        assert set(disk.list(directory)) <= {"lock"}
    await store.close()


async def test_a_bookie_with_a_damaged_registration_is_running(tmp_path: Path) -> None:
    store = await open_store(f"sqlite:///{tmp_path}/meta.db")
    await store.init_cluster()
    await store.register_bookie(BookieInfo(bookie_id=BOOKIE, host="127.0.0.1", port=70000))
    for force in (False, True):
        with pytest.raises(BookieInUseError, match="is registered"):
            await require_unused(store, BOOKIE, force=force)
    await store.close()


async def test_a_format_after_kill_9_names_the_session_that_must_expire_first() -> None:
    store = await open_store("memory:format-after-kill")
    await store.init_cluster()
    registration = await store.register_bookie(BookieInfo(bookie_id=BOOKIE, host="127.0.0.1", port=3181))
    for force in (False, True):
        with pytest.raises(BookieInUseError, match="one that was killed stays registered until its session"):
            await require_unused(store, BOOKIE, force=force)
    await registration.close()
    await require_unused(store, BOOKIE, force=False)
    await store.close()
