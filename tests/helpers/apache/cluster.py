"""A cluster of both kinds on one ZooKeeper: Apache's bookies and ours, initialised by Apache's own shell.

Starting a JVM costs seconds, so the cluster of a test session is started once and every test that uses it says
on which bookies its ledgers are to lie.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from tests.helpers.apache.bookie import SESSION_TIMEOUT_MS, SMALL_JVM, START_S, ApacheBookie, run_shell
from tests.helpers.processes.bookie import BookieProcess
from tests.helpers.processes.zookeeper import ZooKeeperProcess

ROOT = "/ledgers"


class OwnBookie(BookieProcess):
    """One of our bookies with the methods that Apache's has here; it keeps its port and so its id."""

    @property
    def bookie_id(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def end_of_log(self) -> str:
        """For the message of a failed test; while it runs its log is in a pipe."""
        return f"bookie {self.bookie_id} {'runs' if self.running else 'has ended'}\n{self.errors[-4000:]}"


Bookie = ApacheBookie | OwnBookie


class MixedCluster:
    """`apache` and `ours` share one ledgers' root; all of them run from `start` to `stop`."""

    def __init__(
        self,
        directory: Path,
        *,
        apache: int = 0,
        ours: int = 0,
        root: str = ROOT,
        jvm: Sequence[str] = SMALL_JVM,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        """`jvm` and `settings` are those of Apache's bookies, where they are not to be small."""
        self.directory = directory
        (directory / "zookeeper").mkdir(parents=True)
        self.zookeeper = ZooKeeperProcess(directory / "zookeeper")
        self.root = root
        self.uri = f"zk+hierarchical://{self.zookeeper.address}{root}"
        """Understood by both; sessions of ours last as long as their driver's default."""
        self.apache = [
            ApacheBookie(self.uri, directory / f"apache-{n}", jvm=jvm, settings=settings)
            for n in range(apache)
        ]
        uri = f"{self.uri}?session_timeout_ms={SESSION_TIMEOUT_MS}"
        self.ours = [
            OwnBookie(uri, directory / f"ours-{n}", network_location=f"/rack-{n % 2}") for n in range(ours)
        ]
        """Each publishes a location, which no Apache bookie does: what Apache's programs must not trip over."""
        self.conf = directory / "shell.conf"
        """What Apache's shell needs to know of this cluster."""
        self.conf.write_text(f"metadataServiceUri={self.uri}\nallowLoopback=true\n")

    def __enter__(self) -> MixedCluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bookies(self) -> list[Bookie]:
        return [*self.ours, *self.apache]

    def start(self) -> None:
        self.zookeeper.start()
        with self._kazoo() as kazoo:
            kazoo.ensure_path(str(Path(self.root).parent))
        shell = run_shell(self.conf, "initnewcluster")
        assert shell.returncode == 0, shell.stdout + shell.stderr
        for bookie in self.apache:
            bookie.launch()
        for own in self.ours:
            own.start()
        for bookie in self.apache:
            bookie.wait_until_ready()
        self.wait_until_registered(self.bookies)

    def stop(self) -> None:
        for bookie in self.bookies:
            bookie.stop()
        self.zookeeper.kill()

    def start_all(self) -> None:
        """Whatever a test has killed runs and is registered again."""
        if not self.zookeeper.running:
            self.zookeeper.start()
        for bookie in self.bookies:
            if not bookie.running:
                # Apache's accepts connections before it has replayed its journal, and registers after that; until
                # then the name of its last life would pass for it.
                self.end_session(bookie)
                bookie.start()
        self.wait_until_registered(self.bookies)

    def wait_until_registered(self, bookies: Sequence[Bookie]) -> None:
        """Return once all of these are listed as writable."""
        give_up_at = time.monotonic() + START_S
        missing = list(bookies)
        with self._kazoo() as kazoo:
            while missing:
                listed = set(kazoo.get_children(f"{self.root}/available"))
                missing = [bookie for bookie in missing if bookie.bookie_id not in listed]
                for bookie in missing:
                    waiting = bookie.running and time.monotonic() < give_up_at
                    assert waiting, f"it did not register: {bookie.end_of_log()}"
                time.sleep(0.05)

    def end_session(self, bookie: Bookie) -> None:
        """Do for a killed bookie what ZooKeeper does once its session has expired."""
        with self._kazoo() as kazoo, contextlib.suppress(NoNodeError):
            kazoo.delete(f"{self.root}/available/{bookie.bookie_id}")

    @contextmanager
    def _kazoo(self) -> Iterator[KazooClient]:
        client = KazooClient(self.zookeeper.address)
        client.start(timeout=START_S)
        try:
            yield client
        finally:
            client.stop()
            client.close()
