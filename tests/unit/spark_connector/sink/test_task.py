"""What a task passes to its loop in one call."""

from __future__ import annotations

import pyarrow as pa

from dlog.format.message import decode_messages
from spark_connector.sink.row_entries import ENTRY_BYTES
from spark_connector.sink.task import _STEP_BYTES, _encoded


def test_a_record_batch_is_passed_on_in_steps_of_some_megabytes() -> None:
    """Each call may take `writeTimeoutMs`: with a whole batch, bookies that store it slowly would not be in time."""
    values = [b"%d" % number * 50_000 for number in range(200)]
    batches = [
        pa.record_batch({"value": pa.array(part, pa.binary())}) for part in (values[:150], [], values[150:])
    ]
    steps = list(_encoded(batches, 5 * 1024 * 1024))
    assert 2 < len(steps) == sum(map(bool, steps))
    assert all(sum(len(entry.body) for entry in step) <= _STEP_BYTES + ENTRY_BYTES for step in steps)
    written = [decode_messages(entry.body, entry.count).payloads for step in steps for entry in step]
    assert [value for payloads in written for value in payloads] == values
