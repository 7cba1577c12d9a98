"""An entry without its ack quorum of copies is found, when it is acknowledged, when it is read, and after healing."""

from __future__ import annotations

from dlog.model import MessageId
from dlog.testing import SimulatedCluster, simulate
from dlog.testing.checks.copies import AckedCopies, audit
from ledger.model import EntryId, Fragment, LedgerMetadata, QuorumSizes

ACK = 2


def test_a_message_that_too_few_bookies_have_is_found_when_it_is_acknowledged_or_read() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        wrong: list[str] = []
        copies = AckedCopies(cluster, ACK, wrong)
        async with await cluster.client() as client, client.open_writer("orders", create=True) as writer:
            stored = await writer.append(b"stored")
            copies.on_acked(stored)
            copies.on_read(stored)
            assert wrong == []
            missing = MessageId(stored.ledger_id, stored.entry_id + 1, 0)
            copies.on_acked(missing)
            copies.on_read(missing)
        assert [found.partition(":")[0] for found in wrong] == [
            "c14_acknowledged_on_an_ack_quorum",
            "c14_read_from_an_ack_quorum",
        ]

    simulate(main)


def test_an_entry_without_copies_is_found_after_healing() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            ensemble = tuple(bookie.bookie_id for bookie in cluster.bookies)
            metadata = LedgerMetadata(
                quorum=QuorumSizes(ensemble=3, write=3, ack=ACK), fragments=(Fragment(EntryId(0), ensemble),)
            )
            ledger_id, _ = await client.ledgers.store.create_new_ledger(metadata.closed_at(EntryId(0), 10))
            found = await audit(client.ledgers, [ledger_id])
            assert len(found) == 1
            assert found[0].startswith("c14_AllCommittedEntriesReachAckQuorum: ") and " 0 copies" in found[0]

    simulate(main)
