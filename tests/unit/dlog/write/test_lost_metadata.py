"""A writer whose open ledger has lost its metadata says so, and does not speak of a takeover.

Source: docs/log-semantics.md#rule-23.
"""

from __future__ import annotations

import pytest

from dlog.core import metadata_keys
from dlog.errors import AppendAbortedError, RecordFormatError
from dlog.testing import SimulatedCluster, simulate


def test_a_rotation_finds_that_the_metadata_of_the_ledger_is_lost() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            found = await writer.append(b"a")
            await client.ledgers.store.remove_ledger(found.ledger_id)
            for _ in range(2):
                with pytest.raises(
                    AppendAbortedError,
                    match=f"lists ledger {found.ledger_id}, whose metadata is missing or damaged",
                ):
                    await writer.rotate()
            assert (await client.describe("orders")).record.owner == writer.owner

    simulate(main)


def test_a_writer_whose_log_cannot_be_read_any_more_aborts_its_appends() -> None:
    """What was not sent is certainly absent (docs/log-semantics.md#rule-8), which an error about bytes leaves open."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            writer = await client.open_writer("orders", create=True)
            await writer.append(b"a")
            found = await client.describe("orders")
            key = metadata_keys.record_key(found.ref.root, found.ref.name, found.ref.log_uuid)
            await client.ledgers.store.write_record(key, b"damaged", found.version)
            await writer.over
            with pytest.raises(AppendAbortedError, match=f"under {key} cannot be decoded") as raised:
                await writer.append(b"b")
            assert isinstance(raised.value.__cause__, RecordFormatError)

    simulate(main)
