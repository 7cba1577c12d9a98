"""Apache's `bookkeeper shell` on a cluster of our bookies, and our commands on one of Apache's.

Each is a process of its own that knows the cluster by its address alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

import dlog
from ledger.client import LedgerClient
from ledger.metadata.format.cookie import decode_cookie
from ledger.model import LedgerId, QuorumSizes
from tests.helpers.apache.bookie import run_shell
from tests.helpers.apache.cluster import MixedCluster
from tests.helpers.ledger.appender import client_of, payload_of, read_all
from tests.helpers.processes.command import Command, bookie
from tests.helpers.processes.zookeeper import ZooKeeperProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]  # some tests start JVMs first

ENTRIES = 12
LOGGED = re.compile(r"[\d-]+T[\d:,]+ - \w+ +- \[.*:([\w$]+)@\d+\] - (.*)")
TELLING = re.compile(r"\w+Command|BookKeeperAdmin")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Four of our bookies in a cluster that Apache's initnewcluster made."""
    with MixedCluster(tmp_path_factory.mktemp("own"), ours=4) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Three of Apache's."""
    with MixedCluster(tmp_path_factory.mktemp("theirs"), apache=3) as cluster:
        yield cluster


def shell(conf: Path, *arguments: str) -> str:
    """What the verb said, without what its client tells of itself; it must succeed."""
    done = run_shell(conf, *arguments)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output[-4000:]
    said = "\n".join(_said(output))
    print(f"\n$ bookkeeper shell {' '.join(arguments)}\n{said}")
    return said


def _said(output: str) -> Iterator[str]:
    for line in output.splitlines():
        logged = LOGGED.match(line)
        if logged is None:
            yield line
        elif TELLING.fullmatch(logged[1]):
            yield logged[2]


async def closed_ledger(client: LedgerClient, quorum: QuorumSizes | None = None) -> LedgerId:
    handle = await client.create(quorum or QuorumSizes(), custom=(("application", b"orders"),))
    for number in range(ENTRIES):
        await handle.add(payload_of(number))
    await handle.close()
    return handle.ledger_id


def node(cluster: MixedCluster, path: str) -> bytes:
    client = KazooClient(cluster.zookeeper.address)
    client.start()
    try:
        return bytes(client.get(cluster.root + path)[0])
    finally:
        client.stop()
        client.close()


# ---- Apache's verbs, our bookies


def test_listbookies(own: MixedCluster) -> None:
    for kind in ("-a", "-rw"):
        said = shell(own.conf, "listbookies", kind)
        for one in own.ours:
            assert f"BookieID:{one.bookie_id}, IP:127.0.0.1, Port:{one.port}" in said


def test_bookieinfo(own: MixedCluster) -> None:
    said = shell(own.conf, "bookieinfo")
    assert all(re.search(rf"BookieID:{one.bookie_id}, .*free=\d{{6,}}", said) for one in own.ours)
    assert re.search(r"Total disk capacity in the cluster \{total=\d{6,}", said)


def test_endpointinfo(own: MixedCluster) -> None:
    said = shell(own.conf, "endpointinfo", "-b", own.ours[0].bookie_id)
    assert own.ours[0].bookie_id in said and "deletions" in said
    assert "networkLocation" in said and "/rack-0" in said


def test_whatisinstanceid(own: MixedCluster) -> None:
    assert node(own, "/INSTANCEID").decode() in shell(own.conf, "whatisinstanceid")


async def test_the_verbs_that_show_ledgers(own: MixedCluster) -> None:
    async with client_of(own.uri) as client:
        ledger_id = await closed_ledger(client)
        listed = shell(own.conf, "listledgers", "-m")
        assert f"ledgerId={ledger_id}, metadata=LedgerMetadata{{formatVersion=3, ensembleSize=3" in listed
        metadata = (await client.store.read_ledger(ledger_id)).value
        shown = shell(own.conf, "ledgermetadata", "-l", str(ledger_id))
        assert (
            f"state=CLOSED, length={metadata.length}, lastEntryId={ENTRIES - 1}, digestType=CRC32C" in shown
        )
        assert f"ensembles={{0=[{', '.join(metadata.last_fragment.ensemble)}]}}" in shown
        assert "application=base64:b3JkZXJz" in shown
        there = shell(own.conf, "listledgers", "-bookieid", metadata.last_fragment.ensemble[0])
        assert f"ledgerId={ledger_id}" in there


async def test_readledger(own: MixedCluster, tmp_path: Path) -> None:
    """All of it, from one bookie only, and an open ledger that is recovered for it."""
    async with client_of(own.uri) as client:
        ledger_id = await closed_ledger(client)
        said = shell(own.conf, "readledger", "-l", str(ledger_id), "-fe", "0", "-le", str(ENTRIES - 1))
        assert [int(one) for one in re.findall(r"entryId=(\d+)", said)] == list(range(ENTRIES))
        member = (await client.store.read_ledger(ledger_id)).value.last_fragment.ensemble[1]
        said = shell(own.conf, "readledger", "-l", str(ledger_id), "-fe", "2", "-le", "4", "-b", member)
        assert re.findall(r"entryId=(\d+)", said) == ["2", "3"]  # of one bookie it leaves out the last
        handle = await client.create(QuorumSizes())
        for number in range(ENTRIES):
            await handle.add(payload_of(number))
        shell(own.conf, "readledger", "-r", "-l", str(handle.ledger_id), "-fe", "0", "-le", str(ENTRIES - 1))
        metadata = (await client.store.read_ledger(handle.ledger_id)).value
        assert metadata.closed and metadata.last_entry == ENTRIES - 1
        assert await read_all(client, handle.ledger_id) == [payload_of(number) for number in range(ENTRIES)]


async def test_simpletest_and_deleteledger(own: MixedCluster) -> None:
    said = shell(own.conf, "simpletest", "-e", "3", "-w", "3", "-a", "2", "-n", "50")
    assert "50 entries written to ledger" in said
    async with client_of(own.uri) as client:
        ledger_id = str(await closed_ledger(client))
    shell(own.conf, "deleteledger", "-force", "-ledgerid", ledger_id)
    bookie("read-ledger", ledger_id, "--metadata", own.uri).must_fail(1, f"ledger {ledger_id} does not exist")


def test_cookies(own: MixedCluster, tmp_path: Path) -> None:
    """Shown, made, changed and removed as those of Apache's bookies; ours starts with the one that is its own."""
    mine = own.ours[3]
    shown = shell(own.conf, "cookie_get", mine.bookie_id)
    assert mine.bookie_id in shown and node(own, "/INSTANCEID").decode() in shown
    cookie = node(own, f"/cookies/{mine.bookie_id}")
    file = tmp_path / "cookie"
    ours = decode_cookie(cookie)
    shell(
        *(own.conf, "cookie_generate", "-j", ",".join(ours.journal_dirs), "-l", ",".join(ours.ledger_dirs)),
        *("-o", str(file), mine.bookie_id),
    )
    assert decode_cookie(file.read_bytes()) == ours
    mine.stop()
    own.end_session(mine)
    shell(own.conf, "cookie_delete", mine.bookie_id)
    shell(own.conf, "cookie_create", "-cf", str(file), mine.bookie_id)
    mine.start()
    assert node(own, f"/cookies/{mine.bookie_id}") == file.read_bytes()
    shell(own.conf, "cookie_update", "-cf", str(file), mine.bookie_id)
    own.wait_until_registered([mine])


async def test_recover_copies_what_a_dead_bookie_held(own: MixedCluster) -> None:
    """Apache's replicator reads from ours and writes to ours; then another bookie may be lost."""
    dead = own.ours[0]
    everything = [payload_of(number) for number in range(ENTRIES)]
    async with client_of(own.uri) as client:
        while True:
            ledger_id = await closed_ledger(client)
            if dead.bookie_id in (await client.store.read_ledger(ledger_id)).value.members():
                break
        dead.kill()
        own.end_session(dead)
        held = shell(own.conf, "recover", "-force", "-query", dead.bookie_id)
        assert f"ledger {{key={ledger_id}, state=CLOSED}}" in held
        shell(own.conf, "recover", "-force", "-deleteCookie", dead.bookie_id)
        metadata = (await client.store.read_ledger(ledger_id)).value
        assert dead.bookie_id not in metadata.members()
        assert {one.bookie_id for one in own.ours[1:]} == set(metadata.members())
        for member in metadata.members():
            rows = bookie(
                "read-ledger", str(ledger_id), "--metadata", own.uri, "--bookie", member, "-o", "json"
            )
            payloads = [json.loads(row)["payload"] for row in rows.must_succeed().splitlines()]
            assert payloads == [payload.hex() for payload in everything]
        assert await read_all(client, ledger_id) == everything


# ---- the cluster as a whole


def test_the_life_of_a_cluster_by_either_side(
    zookeeper: ZooKeeperProcess, raw: KazooClient, tmp_path: Path
) -> None:
    """Made, formatted, removed and made again, each time by the other side's tools."""
    root = zookeeper.new_root()
    uri = f"zk+hierarchical://{zookeeper.address}{root}"
    conf = tmp_path / "shell.conf"
    conf.write_text(f"metadataServiceUri={uri}\nallowLoopback=true\n")
    bookie("init-cluster", "--metadata", uri).must_succeed()
    assert run_shell(conf, "initnewcluster").returncode != 0
    with (
        dlog.standalone(tmp_path / "data", metadata=uri),
        dlog.connect(uri) as client,
        client.open_writer("orders", create=True) as writer,
    ):
        writer.append(b"one")
    before = raw.get(f"{root}/INSTANCEID")[0]
    shell(conf, "metaformat", "-nonInteractive", "-force")
    assert raw.get(f"{root}/INSTANCEID")[0] != before
    data = ["--metadata", uri, "--data", str(tmp_path / "data" / "bookie-1")]
    bookie("start", *data, "--port", "0").must_fail(2, "cluster instance id", before.decode())
    shell(conf, "nukeexistingcluster", "-force", "-zkledgersrootpath", root)
    assert raw.exists(root) is None
    bookie("start", *data, "--port", "0").must_fail(2, "has no cluster", "bookie init-cluster")
    raw.delete(f"{root}-records", recursive=True)
    shell(conf, "initnewcluster")
    assert bookie("ls", "--metadata", uri).must_succeed() == "bookie  address  state  in limbo\n"


# ---- our commands, Apache's bookies


async def test_our_commands_show_apaches_cluster(theirs: MixedCluster) -> None:
    listed = bookie("ls", "--metadata", theirs.uri, "-o", "json").must_succeed()
    assert {row["bookie"]: row["state"] for row in json.loads(listed)} == {
        one.bookie_id: "writable" for one in theirs.apache
    }
    for one in theirs.apache:
        info = json.loads(bookie("info", one.bookie_id, "-o", "json").must_succeed())
        assert info["total_bytes"] > info["free_bytes"] > 0
    async with client_of(theirs.uri) as client:
        ledger_id = await closed_ledger(client, QuorumSizes(ensemble=3, write=2, ack=2))
        read = ["read-ledger", str(ledger_id), "--metadata", theirs.uri, "-o", "json"]
        rows = [json.loads(row) for row in bookie(*read).must_succeed().splitlines()]
        assert [bytes.fromhex(row["payload"]) for row in rows] == [payload_of(n) for n in range(ENTRIES)]
        assert [row["lac"] for row in rows][:1] == [-1]
        # One bookie of a striped ensemble holds two of three entries.
        member = (await client.store.read_ledger(ledger_id)).value.last_fragment.ensemble[0]
        held = [
            json.loads(row)["entry"] for row in bookie(*read, "--bookie", member).must_succeed().splitlines()
        ]
        assert held == [entry for entry in range(ENTRIES) if entry % 3 != 1]
        some = bookie(*read, "--first", "3", "--last", "5").must_succeed().splitlines()
        assert [json.loads(row)["entry"] for row in some] == [3, 4, 5]
        bookie(*read, "--bookie", "127.0.0.1:1").must_fail(2, "bookie 127.0.0.1:1 has no entries", member)


async def test_an_open_ledger_is_shown_and_left_open(theirs: MixedCluster) -> None:
    async with client_of(theirs.uri) as client:
        handle = await client.create(QuorumSizes())
        for number in range(5):
            await handle.add(payload_of(number))
        read = ["read-ledger", str(handle.ledger_id), "--metadata", theirs.uri]
        assert bookie(*read).must_succeed().count("\n") == 5
        member = handle.metadata.last_fragment.ensemble[0]
        assert bookie(*read, "--bookie", member).must_succeed().count("\n") == 5
        await handle.add(b"nobody was fenced")
        await handle.close()


async def test_a_ledger_none_of_whose_bookies_answers(theirs: MixedCluster) -> None:
    async with client_of(theirs.uri) as client:
        ledger_id = await closed_ledger(client)
    for one in theirs.apache:
        one.kill()
    read = bookie("read-ledger", str(ledger_id), "--metadata", theirs.uri)
    read.must_fail(1, f"cannot read entry 0 of ledger {ledger_id}", *(one.bookie_id for one in theirs.apache))
    theirs.start_all()


def test_the_logs_commands_on_apaches_bookies(theirs: MixedCluster) -> None:
    command = Command(theirs.uri)
    command("append", "orders", "--create", stdin=b"one\ntwo\nthree\n").must_succeed()
    assert command("tail", "orders", "-n", "2", "-o", "raw").must_succeed() == "two\nthree\n"
    assert command("read", "orders", "-o", "raw").must_succeed() == "one\ntwo\nthree\n"
    assert "orders" in command("info", "orders").must_succeed()
    command("rotate", "orders").must_succeed()
    assert command("ls").must_succeed().split() == ["orders"]
