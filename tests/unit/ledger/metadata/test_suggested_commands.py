"""A command that a message suggests can be pasted into a shell: the servers of ZooKeeper are separated by `;`."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bookie_server.config import BookieConfig
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.errors import ClusterMissingError
from bookie_server.server import BookieServer
from bookie_server.storage.config import StorageConfig
from dlog.demo.place import Place
from dlog.demo.run import closing
from dlog.local.embedded import Standalone
from ledger.environment import SystemEnvironment
from ledger.metadata.drivers import open_store
from ledger.metadata.refusals import no_cluster

URI = "zk+hierarchical://h1:2181;h2:2181/ledgers?auth_file=/x&root=/y"


def pasted(text: str) -> list[list[str]]:
    """The words of each command in `text`, as a shell takes them."""
    commands = re.findall(r"`((?:bookie|dlog) [^`]*)`", text)
    found = []
    for command in commands:
        script = 'bookie() { printf "%s\\n" bookie "$@"; }; dlog() { printf "%s\\n" dlog "$@"; }; ' + command
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, timeout=30)
        assert not done.stderr
        found.append(done.stdout.splitlines())
    return found


def test_the_commands_that_make_a_cluster_have_the_whole_address() -> None:
    init, standalone = pasted(str(no_cluster(URI)))
    assert init == ["bookie", "init-cluster", "--metadata", URI]
    assert standalone == ["dlog", "standalone", "--data", "DIR", "--metadata", URI]


async def test_a_bookie_without_a_cluster_names_the_command_with_the_whole_address(tmp_path: Path) -> None:
    class Elsewhere:
        """An empty store under an address of ZooKeeper."""

        uri = URI

        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

    store = await open_store("memory:suggested")
    directories = StorageConfig(journal_directory=tmp_path / "journal", ledger_directory=tmp_path / "ledgers")
    config = BookieConfig(metadata=URI, storage=directories)
    with pytest.raises(ClusterMissingError) as missing:
        elsewhere: Any = Elsewhere()
        await BookieServer(config, elsewhere, SystemDisk(), SystemEnvironment()).start()
    assert pasted(str(missing.value))[0] == ["bookie", "init-cluster", "--metadata", URI]
    await store.close()


@pytest.mark.parametrize("metadata", [None, URI])
def test_the_demo_names_the_command_with_the_whole_path(tmp_path: Path, metadata: str | None) -> None:
    directory = tmp_path / "my demo; kept"
    place = Place(URI, "flights", (), own=Standalone(directory, restart=False))
    [command] = pasted(closing(place, metadata, directory))
    there = [] if metadata is None else ["--metadata", URI]
    assert command == ["dlog", "standalone", "--data", str(directory / "cluster"), *there]
