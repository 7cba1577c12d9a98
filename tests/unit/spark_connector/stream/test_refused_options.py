"""Options of a stream that are refused: Spark gets the error of its first call, and nothing is left running."""

from __future__ import annotations

import threading

import pytest

from spark_connector.errors import SparkSourceError
from spark_connector.read.schema import read_schema
from spark_connector.stream.reader import DlogStreamReader


def test_no_thread_is_left_by_a_call_that_fails() -> None:
    before = threading.active_count()
    reader = DlogStreamReader({"metadata": "memory:x", "log": "orders", "limit": "1"}, read_schema(False))
    for _ in range(3):
        with pytest.raises(SparkSourceError, match="DLOG_BAD_OPTION: option 'limit' is unknown"):
            reader.initialOffset()
    assert threading.active_count() == before
