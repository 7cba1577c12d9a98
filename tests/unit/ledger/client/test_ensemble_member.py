"""What counts as an answer of a member."""

from __future__ import annotations

import pytest

from ledger.errors import BookieUnavailableError
from ledger.model import BookieId, QuorumSizes
from ledger.wire.status import Status
from tests.helpers.ledger.scripted_bookies import scripted_cluster, until


@pytest.mark.parametrize(
    ("outcome", "useful"),
    [
        (Status.EOK, True),
        (Status.EIO, False),
        (BookieUnavailableError("refused", bookie_id=BookieId("b")), False),
    ],
)
async def test_a_member_is_useful_once_it_has_stored_an_explicit_lac(
    outcome: Status | Exception, useful: bool
) -> None:
    """A bookie that is not, is avoided for longer each time it fails."""
    async with scripted_cluster() as cluster:
        handle = await cluster.client.create(QuorumSizes())
        await until(lambda: all(each.connection for each in handle._stream.members))
        member = handle._stream.members[0]
        member.on_lac_written(-1, outcome)
        assert member.useful is useful
