"""Which micro-batches that a log has already may be replays: only the last one of each writer id."""

from __future__ import annotations

import pytest

from dlog.core.publication import SinkBatch
from dlog.model import SinkMark
from spark_connector.errors import BadOptionError
from spark_connector.sink.replays import check_replay

MARKS = [SinkMark(writer_id="a", batch=5, time_us=0), SinkMark(writer_id="b", batch=9, time_us=0)]


@pytest.mark.parametrize(("writer_id", "number"), [("a", 5), ("a", 6), ("b", 9), ("c", 0)])
def test_the_last_batch_may_be_repeated_and_the_next_one_is_new(writer_id: str, number: int) -> None:
    check_replay("default/orders", MARKS, SinkBatch(writer_id=writer_id, number=number))


def test_one_below_it_is_of_another_query_or_of_an_old_checkpoint() -> None:
    with pytest.raises(BadOptionError) as refused:
        check_replay("default/orders", MARKS, SinkBatch(writer_id="b", number=8))
    assert str(refused.value) == (
        "log default/orders has batch 9 of writer id 'b', and this query is at batch 8: another query writes with the "
        "same id, or the checkpoint is an old one; nothing of the batch is published, so use the query's newest "
        "checkpoint, or a new checkpoint with another writerId"
    )
