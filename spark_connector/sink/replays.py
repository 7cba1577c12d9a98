"""Whether a micro-batch that the log has already is the same one again. Pure.

Spark begins a micro-batch only once the one before is done, so a query repeats at most the last one that it published.
One with a lower number has other rows than the one that was published under its number.
"""

from __future__ import annotations

from collections.abc import Iterable

from dlog.core.publication import SinkBatch
from dlog.model import SinkMark
from spark_connector.errors import BadOptionError


def check_replay(log: str, marks: Iterable[SinkMark], batch: SinkBatch) -> None:
    """Check that the log has no later batch of the same writer id. `marks`: the last batches of the log's sinks.

    Raises:
        BadOptionError: it has.
    """
    for mark in marks:
        if mark.writer_id == batch.writer_id and mark.batch > batch.number:
            raise BadOptionError(
                f"log {log} has batch {mark.batch} of writer id {mark.writer_id!r}, and this query is at batch "
                f"{batch.number}: another query writes with the same id, or the checkpoint is an old one; nothing of "
                "the batch is published, so use the query's newest checkpoint, or a new checkpoint with another "
                "writerId",
                option="writerId",
            )
