"""Answers to runs of adds equal the codec's, one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie_server.protocol.acks import SHORT_RUN, encode_add_responses
from ledger.wire import v2
from ledger.wire.constants import ADD_HEADER
from ledger.wire.messages import AddResponse
from ledger.wire.status import Status

ids = st.integers(min_value=0, max_value=2**63 - 1)


@given(
    ledger_id=ids, entry_ids=st.lists(ids, min_size=1, max_size=3 * SHORT_RUN), status=st.sampled_from(Status)
)
def test_a_block_of_answers_is_the_single_answers_joined(
    ledger_id: int, entry_ids: list[int], status: Status
) -> None:
    expected = b"".join(
        v2.encode_response(AddResponse(status=status, ledger_id=ledger_id, entry_id=each))
        for each in entry_ids
    )
    assert encode_add_responses(ADD_HEADER, status, ledger_id, entry_ids) == expected


@pytest.mark.parametrize("count", [SHORT_RUN - 1, SHORT_RUN, SHORT_RUN + 1])
def test_both_ways_to_build_a_block_agree(count: int) -> None:
    block = encode_add_responses(ADD_HEADER, 0, 7, range(count))
    assert block == b"".join(encode_add_responses(ADD_HEADER, 0, 7, [each]) for each in range(count))
