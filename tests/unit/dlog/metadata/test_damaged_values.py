"""Damaged values of a log's metadata: the error names the key, what is wrong and what to do, and never an upgrade."""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable

import pytest

from dlog.client import LogClient
from dlog.core import metadata_keys
from dlog.errors import RecordFormatError
from dlog.model import Retention
from dlog.testing import SimulatedCluster, simulate

LOG = "orders"

Damage = Callable[[bytes], bytes]


def with_version(version: int, *, intact: bool) -> Damage:
    def change(value: bytes) -> bytes:
        body = value[:4] + bytes([version]) + value[5:-4]
        return body + (zlib.crc32(body).to_bytes(4, "big") if intact else value[-4:])

    return change


DAMAGES: dict[str, Damage] = {
    "a flipped version": with_version(67, intact=False),
    "a version below all": with_version(0, intact=True),
    "a flipped byte": lambda value: value[:7] + bytes([value[7] ^ 4]) + value[8:],
    "its end": lambda value: value[:6],
    "its beginning": lambda value: b"X" + value[1:],
    "other fields": lambda value: (body := value[:5] + b"\xc0") + zlib.crc32(body).to_bytes(4, "big"),
}


async def _properties(client: LogClient) -> None:
    await client.properties(LOG)


async def _retention(client: LogClient) -> None:
    await client.retention(LOG)


async def _cursors(client: LogClient) -> None:
    await client.cursors(LOG)


async def _describe(client: LogClient) -> None:
    await client.describe(LOG)


READS: dict[str, tuple[Callable[[LogClient], Awaitable[None]], str]] = {
    "name": (_describe, ""),
    "record": (_describe, ""),
    "cursor": (_cursors, ", or remove the cursor with `dlog cursor rm`"),
    "properties": (_properties, ", or remove that key"),
    "retention": (_retention, ", or set it again"),
}
"""What reads each value, and the other way out that there is."""


async def keys_of(client: LogClient) -> dict[str, str]:
    ref = await client.logs.find(client.name(LOG))
    of_log = (ref.root, ref.name, ref.log_uuid)
    return {
        "name": metadata_keys.name_key(ref.root, ref.name),
        "record": metadata_keys.record_key(*of_log),
        "cursor": metadata_keys.cursor_key(*of_log, "c"),
        "properties": metadata_keys.properties_key(*of_log),
        "retention": metadata_keys.retention_key(*of_log),
    }


async def changed_value(client: LogClient, kind: str, change: Callable[[bytes], bytes]) -> str:
    """The key of this value of a log that has all of them, after the change of its bytes."""
    await client.create(LOG)
    await client.set_cursor(LOG, "c", "earliest")
    await client.update_properties(LOG, {"team": "billing"})
    await client.set_retention(LOG, Retention(max_age_s=5.0))
    key, store = (await keys_of(client))[kind], client.ledgers.store
    found = await store.read_record(key)
    await store.write_record(key, change(found.value), found.version)
    return key


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", READS)
def test_the_error_of_a_damaged_value_names_the_way_out(kind: str, damage: str) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            key = await changed_value(client, kind, DAMAGES[damage])
            read, other = READS[kind]
            with pytest.raises(RecordFormatError) as raised:
                await read(client)
            sentence = str(raised.value)
            assert sentence.endswith(f"; restore {key} from a backup{other}")
            assert sentence.count("restore") == 1 and "upgrade" not in sentence
            assert raised.value.key == key and raised.value.newer_version is None

    simulate(main)


@pytest.mark.parametrize("kind", READS)
def test_a_value_of_a_later_release_is_intact(kind: str) -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            await changed_value(client, kind, with_version(9, intact=True))
            with pytest.raises(RecordFormatError, match=r"upgrade dlog$") as raised:
                await READS[kind][0](client)
            assert raised.value.newer_version == 9

    simulate(main)
