"""The lag of a blocking reader counts what the client's thread holds for it, however it was interrupted."""

from __future__ import annotations

import time

from dlog.read.backlog import Lag
from tests.helpers.log.blocking_log import blocking_log


def test_a_record_batch_that_was_not_returned_is_still_ahead() -> None:
    """Its call was interrupted after it was made; the messages may be returned in another way."""
    with blocking_log() as log:
        client = log.client()
        with client.open_writer("orders", create=True) as writer:
            for number in range(6):
                writer.append(b"%d" % number)
            with client.reader("orders") as reader:
                while reader.lag.entries < 6:
                    time.sleep(0.01)
                batches = reader._target.record_batches("arrow_batches", ["value"], 4)
                assert reader._thread.run(reader._make, batches)
                assert reader.lag == Lag(entries=6, ledgers=1)
                assert next(reader).payload == b"0"
                assert reader.lag == Lag(entries=5, ledgers=0)
