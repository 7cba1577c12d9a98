"""What neighbours and cancellers have lost is found: other logs than the one whose history is checked."""

from __future__ import annotations

import pytest

from dlog.model import MessageId
from dlog.testing import SimulatedCluster, simulate
from dlog.testing.swarm.processes.cancellers import Appended
from dlog.testing.swarm.processes.neighbours import Belongings
from ledger.model import LedgerId


def test_what_neighbours_have_lost_is_found() -> None:
    """A message that is not there, and a ledger that does not exist."""

    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            async with client.open_writer("orders", create=True) as writer:
                stored = await writer.append(b"stored")
            belongings = Belongings()
            belongings.messages[stored] = b"stored"
            assert await belongings.missing(client, "orders") == []
            belongings.messages[MessageId(stored.ledger_id, 9, 0)] = b"lost"
            belongings.entries[LedgerId(99)] = [b"lost"]
            wrong = await belongings.missing(client, "orders")
            assert [found.partition(":")[0] for found in wrong] == ["c1_neighbours_lose_nothing"] * 2

    simulate(main)


@pytest.mark.parametrize(
    ("found", "check"),
    [
        ([b"a", b"b", b"unknown"], None),
        ([b"b"], "c1_cancellations_lose_nothing"),
        ([b"b", b"a"], "c1_cancellations_lose_nothing"),
        ([b"a", b"b", b"b"], "c1_cancellations_lose_nothing"),
        ([b"a", b"unknown", b"unknown", b"b"], "c4_no_duplicates"),
        ([b"a", b"b", b"rejected"], "c2_rejected_is_absent"),
    ],
)
def test_what_cancellers_have_lost_is_found(found: list[bytes], check: str | None) -> None:
    appended = Appended()
    appended.acked += [b"a", b"b"]
    appended.absent.add(b"rejected")
    wrong = appended.faults_of(found, acked=2)
    assert [each.partition(":")[0] for each in wrong][:1] == ([] if check is None else [check])
