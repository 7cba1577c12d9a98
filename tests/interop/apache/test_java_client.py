"""Apache's Java client on our bookies: its defaults, and what our own client never asks for."""

from __future__ import annotations

import itertools

import pytest

from tests.helpers.apache.cluster import MixedCluster
from tests.helpers.apache.java_client import (
    SOURCES,
    JavaClient,
    JavaError,
    JavaLedger,
    JavaProcess,
    java_client,
    shown,
)
from tests.helpers.ledger.appender import payload_of

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]  # the first test starts nine JVMs

VERSIONS = ("v2", "v3")
_names = itertools.count()


@pytest.fixture
def ours(mixed: MixedCluster, jvm: JavaProcess) -> MixedCluster:
    """The cluster, with new ledgers of Java's on our bookies alone."""
    ids = ",".join(bookie.bookie_id for bookie in mixed.ours)
    jvm.start("allow", ids, ids).result(30)
    return mixed


def configured(cluster: MixedCluster, jvm: JavaProcess, version: str, **settings: object) -> JavaClient:
    """Another client, with these settings of Apache's ClientConfiguration."""
    name = f"{version}-{next(_names)}"
    return java_client(jvm, name, cluster.uri, useV2WireProtocol=str(version == "v2").lower(), **settings)


def texts(count: int) -> list[str]:
    return [shown(payload_of(number)) for number in range(count)]


async def number(ledger: JavaLedger, verb: str) -> int:
    return int((await ledger.call(verb))[0])


async def test_the_defaults_of_the_java_client_work(ours: MixedCluster, java: dict[str, JavaClient]) -> None:
    """Create, append one by one and many at once, read, close, open again, delete."""
    ledger = await java["v3"].create(3, 2, 2, "CRC32")
    assert await ledger.add_many(50) == 49
    assert await ledger.add(payload_of(50)) == 50
    assert await ledger.read(0, 50) == texts(51)
    await ledger.close()
    again = await java["v3"].open(ledger.ledger_id, "CRC32")
    assert await again.read_all() == texts(51)
    await java["v3"].delete(ledger.ledger_id)
    with pytest.raises(JavaError, match="NoSuchLedger"):
        await java["v3"].open(ledger.ledger_id, "CRC32")


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_lac_reaches_a_reader_by_all_of_javas_calls(
    ours: MixedCluster, jvm: JavaProcess, java: dict[str, JavaClient], version: str
) -> None:
    """With a policy that publishes it; a v2 client then speaks version 3 as well, on connections of its own."""
    writer = configured(ours, jvm, version, explicitLacInterval=20)
    ledger = await writer.create(3, 3, 2, "CRC32C")
    assert await ledger.add_many(4) == 3
    reader = await java[version].open(ledger.ledger_id, "CRC32C", recover=False)
    poll = 0
    while await number(reader, "explicit-lac") < 3:
        poll += 1
        assert poll < 1000, "the LAC was never published"
    assert await number(reader, "lac") == 3
    assert await reader.read_all() == texts(4)
    # All four went at once, so no entry knows of an earlier one: only the explicit LAC tells.
    assert await number(reader, "try-read-lac") in range(-1, 4)
    await ledger.close()


async def test_both_versions_concurrently_on_one_ledger(
    ours: MixedCluster, java: dict[str, JavaClient]
) -> None:
    """One process with a client of each: one writes, the other follows, then takes over."""
    for writer, other in ((java["v2"], java["v3"]), (java["v3"], java["v2"])):
        ledger = await writer.create(3, 3, 2, "HMAC", b"secret")
        await ledger.add_many(9)
        assert await ledger.add(payload_of(9)) == 9
        reader = await other.open(ledger.ledger_id, "HMAC", b"secret", recover=False)
        assert await reader.read_all() == texts(9)
        recovered = await other.open(ledger.ledger_id, "HMAC", b"secret")
        assert recovered.lac == 9
        with pytest.raises(JavaError, match="Fenced"):
            await ledger.add(payload_of(10))


async def test_deferred_sync_and_force(ours: MixedCluster, java: dict[str, JavaClient]) -> None:
    """Without sync nothing is confirmed before a force; what was forced survives the death of every bookie."""
    ledger = await java["v3"].create(3, 3, 2, "CRC32C", mode="deferred")
    await ledger.add_many(6)
    assert await number(ledger, "lac") == -1
    await ledger.call("force")
    assert await number(ledger, "lac") == 5
    for bookie in ours.ours:
        bookie.kill()
    ours.start_all()
    recovered = await java["v3"].open(ledger.ledger_id, "CRC32C")
    assert await recovered.read_all() == texts(6)


@pytest.mark.parametrize("version", VERSIONS)
async def test_ids_that_the_caller_chooses_may_come_out_of_order(
    ours: MixedCluster, jvm: JavaProcess, java: dict[str, JavaClient], version: str
) -> None:
    """The advanced handle: entry 1 before 0, and a gap that the close cuts off."""
    ledger = await java[version].create(3, 3, 2, "CRC32", mode="advanced")
    words = [payload_of(entry_id).hex() for entry_id in range(2)]
    second = ledger.process.start("add-at", ledger.handle, 1, words[1])
    await ledger.call("add-at", 0, words[0])
    assert second.result(30) == ["1"]
    await ledger.close()
    assert await (await java[version].open(ledger.ledger_id, "CRC32")).read_all() == texts(2)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_wrong_password_opens_and_fences_nothing(
    ours: MixedCluster, java: dict[str, JavaClient], version: str
) -> None:
    ledger = await java[version].create(3, 3, 2, "CRC32C", b"right")
    await ledger.add_many(3)
    with pytest.raises(JavaError, match="-102"):
        await java[version].open(ledger.ledger_id, "CRC32C", b"wrong")
    assert await ledger.add(payload_of(3)) == 3


async def test_bookies_report_their_free_space_and_their_entries(
    ours: MixedCluster, jvm: JavaProcess, java: dict[str, JavaClient]
) -> None:
    rooms = dict(pair.split("=") for pair in await jvm.call("info", "v3"))
    for bookie in ours.ours:
        total, free = map(int, rooms[bookie.bookie_id].split("/"))
        assert 0 < free < total
    ledger = await java["v3"].create(3, 2, 2, "CRC32C")
    await ledger.add_many(7)
    for position, bookie_id in enumerate(ledger.ensemble):
        (held,) = await jvm.call("list", "v3", ledger.ledger_id, bookie_id)
        expected = [entry for entry in range(7) if (position - entry) % 3 < 2]
        assert held == ",".join(map(str, expected))


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_that_wants_to_authenticate_learns_that_it_need_not(
    ours: MixedCluster, jvm: JavaProcess, version: str
) -> None:
    client = configured(ours, jvm, version, clientAuthProviderFactoryClass="TokenAuth")
    ledger = await client.create(3, 3, 2, "CRC32C")
    assert await ledger.add_many(5) == 4
    assert await ledger.read(0, 4) == texts(5)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_client_that_wants_tls_is_refused(
    ours: MixedCluster, jvm: JavaProcess, java: dict[str, JavaClient], version: str
) -> None:
    """START_TLS, which comes in version 3 even from a v2 client, is answered with EBADREQ, and nothing follows it."""
    ledger = await java[version].create(3, 3, 2, "CRC32C")
    await ledger.add_many(3)
    client = configured(
        ours,
        jvm,
        version,
        tlsProviderFactoryClass="org.apache.bookkeeper.tls.TLSContextFactory",
        tlsTrustStoreType="PEM",
        tlsTrustStore=SOURCES / "nobody.pem",
    )
    with pytest.raises(JavaError, match="ReadException"):
        await client.open(ledger.ledger_id, "CRC32C", recover=False)
    assert "operation=StartTLS, statusCode=EBADREQ" in jvm.log.read_text(errors="replace")
    assert await ledger.add(payload_of(3)) == 3
