"""Clusters, bookies and credentials that are not what they must be: one sentence each, exit code 1 or 2."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from dlog.client import connect
from dlog.config import LogConfig
from dlog.errors import AppendAbortedError, AppendIndeterminateError
from dlog.local.embedded import Standalone
from dlog.read.config import ReaderConfig
from ledger.config import LedgerClientConfig
from ledger.errors import ReadError
from ledger.metadata.format.ledger import decode_ledger_metadata, encode_ledger_metadata
from ledger.metadata.format.service_info import published
from ledger.model import BookieId, BookieInfo, DigestType, LedgerId
from tests.helpers.apache.bookie import SMALL_JVM
from tests.helpers.apache.cluster import MixedCluster
from tests.helpers.processes.command import Command, bookie
from tests.helpers.processes.zookeeper import ZooKeeperProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]  # some tests start JVMs first


class Place:
    """A cluster of three of our bookies with a log, and its nodes as kazoo shows them."""

    def __init__(self, server: ZooKeeperProcess, raw: KazooClient) -> None:
        self.root = server.new_root()
        self.raw = raw
        self.address = server.address
        self.uri = self.by("zk+hierarchical")
        self.command = Command(self.uri)

    def by(self, scheme: str, options: str = "") -> str:
        return f"{scheme}://{self.address}{self.root}{options}"

    def value(self, path: str) -> bytes:
        return bytes(self.raw.get(self.root + path)[0])

    @contextmanager
    def with_value(self, path: str, value: bytes) -> Iterator[None]:
        """The node holds this for a while."""
        before = self.value(path)
        self.raw.set(self.root + path, value)
        try:
            yield
        finally:
            self.raw.set(self.root + path, before)

    def ledger(self, log: str) -> LedgerId:
        rows = self.command.here("ledgers", log, "-o", "json").must_succeed()
        return LedgerId(int(rows.partition('"ledger": ')[2].partition(",")[0]))


@pytest.fixture(scope="module")
def place(
    zookeeper: ZooKeeperProcess, raw: KazooClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    found = Place(zookeeper, raw)
    with Standalone(tmp_path_factory.mktemp("cluster"), metadata=found.uri):
        found.command("append", "orders", "--create", stdin=b"one\ntwo\n").must_succeed()
        yield found


# ---- the address


def test_zookeeper_out_of_reach() -> None:
    uri = "zk+hierarchical://127.0.0.1:1;127.0.0.1:2/ledgers?request_timeout_ms=300"
    parts = ("no ZooKeeper answered at 127.0.0.1:1, 127.0.0.1:2 within 0.3 s", "start it, or correct")
    Command(uri).here("ls").must_fail(1, *parts)
    bookie("ls", "--metadata", uri).must_fail(1, *parts)


def test_something_else_listens_there(place: Place) -> None:
    """A bookie's address in place of ZooKeeper's."""
    listed = bookie("ls", "--metadata", place.uri).must_succeed().splitlines()[1].split()[0]
    uri = f"zk+hierarchical://{listed}/ledgers?request_timeout_ms=1000"
    Command(uri).here("ls").must_fail(1, f"no ZooKeeper answered at {listed}", "correct the metadata address")


def test_a_path_without_a_cluster(place: Place) -> None:
    uri = place.uri + "/elsewhere"
    Command(uri).here("ls").must_fail(
        1,
        f"{uri} holds no cluster yet",
        "bookie init-cluster",
        f"dlog standalone --data DIR --metadata {uri}",
    )
    bookie("start", "--metadata", uri, "--data", "/nowhere", "--port", "0").must_fail(2, "has no cluster")
    assert place.raw.exists(f"{place.root}/elsewhere") is None


@pytest.mark.parametrize("layout", ["flat", "longhierarchical", "legacyhierarchical"])
def test_another_layout(place: Place, layout: str) -> None:
    command = Command(place.by(f"zk+{layout}"))
    command.here("read", "orders").must_fail(
        2, "laid out as hierarchical", f"the address asks for {layout}", "use hierarchical"
    )


def test_an_unknown_layout_is_refused(place: Place) -> None:
    with place.with_value("/LAYOUT", b"2\norg.example.Other:1"):
        place.command.here("read", "orders").must_fail(
            1, "LAYOUT names", "org.example.Other", "not known here"
        )


def test_another_instance_id(place: Place, tmp_path: Path) -> None:
    """Apache's metaformat leaves the records of logs, whose ledgers are gone and whose ids may come again."""
    before = place.value("/INSTANCEID").decode()
    with place.with_value("/INSTANCEID", b"11111111-2222-3333-4444-555555555555"):
        for arguments in (("read", "orders"), ("append", "orders"), ("info", "orders")):
            place.command(*arguments, stdin=b"x\n").must_fail(
                2, before, "11111111-2222-3333-4444-555555555555", "orders"
            )
    assert place.command.here("read", "orders", "-o", "raw").must_succeed() == "one\ntwo\n"


# ---- credentials


@pytest.mark.parametrize("content", ["owner:s3cret", "other:t0psecret"])
def test_a_wrong_digest(zookeeper: ZooKeeperProcess, tmp_path: Path, content: str) -> None:
    uri = f"zk+hierarchical://{zookeeper.address}{zookeeper.new_root()}"
    (tmp_path / "owner").write_text("owner:t0psecret")
    (tmp_path / "other").write_text(content)
    bookie("init-cluster", "--metadata", f"{uri}?auth_file={tmp_path}/owner").must_succeed()
    other = f"{tmp_path}/other"
    for address, way_out in ((uri, "auth_file=FILE"), (f"{uri}?auth_file={other}", f"in {other} is not")):
        said = Command(address).here("ls").must_fail(2, "denies access below", "NoAuth", way_out)
        assert "s3cret" not in said and "t0psecret" not in said
        bookie("ls", "--metadata", address).must_fail(2, "NoAuth")
    Command(f"{uri}?auth_file={tmp_path}/owner").here("ls").must_succeed()


def test_a_credential_that_cannot_be_read(zookeeper: ZooKeeperProcess, tmp_path: Path) -> None:
    uri = f"zk+hierarchical://{zookeeper.address}/ledgers?auth_file={tmp_path}/missing"
    Command(uri).here("ls").must_fail(2, f"{tmp_path}/missing", "one line, user:password")


# ---- what metadata says of a ledger


def changed_ledger(place: Place, change: Callable[[bytes], bytes]) -> tuple[str, bytes]:
    path = f"/00/0000/L{place.ledger('orders'):04d}"
    return path, change(place.value(path))


def rewritten(**fields: object) -> Callable[[bytes], bytes]:
    return lambda data: encode_ledger_metadata(replace(decode_ledger_metadata(data), **fields))  # type: ignore[arg-type]


def test_another_password(place: Place) -> None:
    with place.with_value(*changed_ledger(place, rewritten(password=b"another"))):
        place.command.here("read", "orders").must_fail(
            2, f"which ledger {place.ledger('orders')} needs", "DLOG_PASSWORD_FILE"
        )


@pytest.mark.parametrize("digest", [DigestType.CRC32, DigestType.HMAC])
def test_another_digest_type(place: Place, digest: DigestType) -> None:
    """No copy of any entry is right by it."""
    with place.with_value(*changed_ledger(place, rewritten(digest_type=digest))):
        place.command.here("read", "orders").must_fail(1, "digest", f"{place.ledger('orders')}:0")
        read = bookie("read-ledger", str(place.ledger("orders")), "--metadata", place.uri)
        assert "does not match its digest" in read.must_fail(1, f"entry 0 of ledger {place.ledger('orders')}")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"BookieMetadataFormatVersion\t9\nfuture", "cannot be used"),
        (b"", "is damaged"),
        (b"\xff\x00", "is damaged"),
        (b"BookieMetadataFormatVersion\t3\n\xff", "is damaged"),
    ],
)
def test_metadata_of_an_unknown_format(place: Place, data: bytes, what: str) -> None:
    ledger_id = place.ledger("orders")
    with place.with_value(*changed_ledger(place, lambda _: data)):
        place.command.here("read", "orders").must_fail(1, f"the metadata of ledger {ledger_id} {what}")
        bookie("read-ledger", str(ledger_id), "--metadata", place.uri).must_fail(
            1, f"the metadata of ledger {ledger_id} cannot be used"
        )


# ---- bookies that are none


class FakeBookies:
    """Listen on ports that are registered as bookies; whatever comes, they say the same."""

    def __init__(self, place: Place, count: int, answer: bytes) -> None:
        self._place = place
        self._answer = answer
        self.ids: list[str] = []
        self._servers: list[asyncio.Server] = []
        self._sayings: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        for _ in range(count):
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._say, "127.0.0.1", 0)
        self._servers.append(server)
        port = server.sockets[0].getsockname()[1]
        name = f"127.0.0.1:{port}"
        info = BookieInfo(bookie_id=BookieId(name), host="127.0.0.1", port=port)
        self._place.raw.create(f"{self._place.root}/available/{name}", published(info), ephemeral=True)
        self.ids.append(name)

    async def _say(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        saying = asyncio.current_task()
        assert saying is not None
        self._sayings[saying] = writer
        with suppress(OSError):
            while await reader.read(1 << 16):
                if not self._answer:
                    break
                writer.write(self._answer)
        writer.close()
        del self._sayings[saying]

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for writer in self._sayings.values():
            writer.transport.abort()
        await asyncio.gather(*self._sayings)

    def stop(self) -> None:
        for name in self.ids:
            self._place.raw.delete(f"{self._place.root}/available/{name}")
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


TLS_ALERT = bytes.fromhex("15030300020250")
ANSWERS = {
    "tls": TLS_ALERT,
    "http": b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
    "zeros": bytes(64),
    "nothing": b"",
}


IMPATIENT = LogConfig(
    hold_limit_s=3.0, ledger=LedgerClientConfig(quorum_timeout_s=1.0, add_timeout_s=1.0, read_timeout_s=1.0)
)
"""A user waits half a minute for bookies to come back, and two minutes for a ledger; a test does not."""


PATIENT = LogConfig(
    hold_limit_s=600.0,
    ledger=LedgerClientConfig(quorum_timeout_s=600.0, add_timeout_s=600.0, read_timeout_s=600.0),
)
"""Waits for none of these in a test: the guard below comes first."""


async def append_in_vain(uri: str, config: LogConfig) -> str:
    """Why the first append to a new log failed, in the words of the error."""
    async with connect(uri, config=config) as client:
        writer = await client.open_writer("orders", create=True)
        with pytest.raises((AppendAbortedError, AppendIndeterminateError)) as caught:
            async with asyncio.timeout(30):
                await writer.append(b"x")
    return str(caught.value)


async def read_in_vain(uri: str) -> str:
    """Why the log cannot be read, in the words of the first error."""
    async with connect(uri) as client:
        reader = client.reader("orders", until="latest", config=ReaderConfig(unavailable_timeout_s=0))
        with pytest.raises(ReadError) as caught:
            await reader.open()
        await reader.close()
    return str(caught.value)


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_cluster_of_bookies_that_are_none(
    zookeeper: ZooKeeperProcess, raw: KazooClient, answer: str
) -> None:
    """Who they are and what is wrong with them, from the log and from `bookie info`."""
    lone = Place(zookeeper, raw)
    bookie("init-cluster", "--metadata", lone.uri).must_succeed()
    fakes = FakeBookies(lone, 3, ANSWERS[answer])
    try:
        why = asyncio.run(append_in_vain(lone.uri, IMPATIENT))
        assert all(name in why for name in fakes.ids) and "was not acknowledged within 3 s" in why
        said = bookie("info", fakes.ids[0]).must_fail(1, fakes.ids[0])
        if answer in ("tls", "http"):
            assert "speaks it in TLS only" in why
            assert "is not a bookie, or requires TLS" in said
    finally:
        fakes.stop()


async def test_one_bookie_that_is_none_among_others(place: Place) -> None:
    """It is passed over: three good ones are enough."""
    fakes = FakeBookies(place, 1, ANSWERS["zeros"])
    try:
        async with connect(place.uri) as client:
            for number in range(5):
                async with client.open_writer("beside", create=True) as writer:
                    await writer.append(b"%d" % number)
            async with client.reader("beside", until="latest") as reader:
                assert [one.payload async for one in reader] == [b"%d" % number for number in range(5)]
    finally:
        fakes.stop()


JAAS = """Bookie {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_writer="s3cret";
};
"""


def sasl_only(directory: Path) -> tuple[Sequence[str], Mapping[str, object]]:
    (directory / "jaas.conf").write_text(JAAS)
    settings = {"bookieAuthProviderFactoryClass": "org.apache.bookkeeper.sasl.SASLBookieAuthProviderFactory"}
    return (f"-Djava.security.auth.login.config={directory}/jaas.conf",), settings


def tls_only(directory: Path) -> tuple[Sequence[str], Mapping[str, object]]:
    """START_TLS with a certificate of the client's, whose role must be that of a writer."""
    (directory / "password").write_text("t0psecret")
    store = directory / "keys.p12"
    keytool = [
        "keytool",
        "-genkeypair",
        "-alias",
        "bookie",
        "-keyalg",
        "RSA",
        "-dname",
        "CN=bookie,OU=0:bookie",
    ]
    secrets = ["-storepass", "t0psecret", "-keypass", "t0psecret"]
    subprocess.run(
        [*keytool, "-storetype", "PKCS12", "-keystore", str(store), *secrets], check=True, capture_output=True
    )
    return (), {
        "tlsProvider": "JDK",
        "tlsProviderFactoryClass": "org.apache.bookkeeper.tls.TLSContextFactory",
        "tlsClientAuthentication": True,
        **{f"tls{kind}StoreType": "PKCS12" for kind in ("Key", "Trust")},
        **{f"tls{kind}Store": store for kind in ("Key", "Trust")},
        **{f"tls{kind}StorePasswordPath": directory / "password" for kind in ("Key", "Trust")},
        "bookieAuthProviderFactoryClass": "org.apache.bookkeeper.tls.BookieAuthZFactory",
        "authorizedRoles": "writer",
    }


@pytest.fixture(scope="module", params=[sasl_only, tls_only])
def guarded(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    """Apache's bookies that take only clients that authenticate themselves, by SASL or by a certificate."""
    directory = tmp_path_factory.mktemp("guarded")
    options, settings = request.param(directory)
    with MixedCluster(
        directory / "cluster", apache=3, jvm=(*SMALL_JVM, *options), settings=settings
    ) as cluster:
        yield cluster


def test_bookies_that_want_authentication(guarded: MixedCluster) -> None:
    """Waiting does not help, so the writer does not, whatever its limits."""
    why = asyncio.run(append_in_vain(guarded.uri, PATIENT))
    assert "refuses this client (EUA)" in why and "authenticate themselves or use TLS" in why
    first = guarded.apache[0].bookie_id
    bookie("info", first).must_fail(1, first, "refuses this client (EUA)", "requires authentication or TLS")
    bookie("read-ledger", "0", "--metadata", guarded.uri).must_fail(1, "refuses this client (EUA)")
    # Its metadata says that the ledger is open, so its LAC is asked for, which they refuse as well.
    assert "refuses this client (EUA)" in asyncio.run(read_in_vain(guarded.uri))
