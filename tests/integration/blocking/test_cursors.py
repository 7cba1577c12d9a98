"""Readers with a cursor in the blocking API, against real bookies."""

from __future__ import annotations

import pytest

import dlog
from dlog.errors import CallTimeoutError, CursorMovedError, CursorNotFoundError
from dlog.local.embedded import Standalone
from ledger.errors import ConfigurationError

pytestmark = pytest.mark.integration


def test_a_consumer_continues_after_what_it_acknowledged(cluster: Standalone, log: str) -> None:
    """By messages and by batches: what counts is what the program has got, not what is fetched."""
    with dlog.connect(cluster.uri) as client:
        with client.open_writer(log, create=True) as writer:
            for first in range(0, 12, 3):
                writer.append_many([b"%d" % number for number in range(first, first + 3)])
        with client.reader(log, cursor="billing", until="latest") as reader:
            for message in reader:
                if message.payload == b"1":
                    break
            reader.ack()
            assert reader.cursor is not None
            assert reader.cursor.position == reader.position
        with client.reader(log, cursor="billing", until="latest") as reader:
            batches = reader.batches()
            assert [list(next(batches).payloads) for _ in range(2)] == [[b"2"], [b"3", b"4", b"5"]]
            reader.ack(properties={"total": "15"})
        lag = client.cursor_lag(log, "billing")
        assert (lag.entries, lag.ledgers, lag.messages) == (2, 0, 6)
        with client.reader(log, cursor="billing", until="latest") as reader:
            assert dict(reader.cursor.properties) == {"total": "15"}
            first, *rest = reader
            reader.ack(first)
            with pytest.raises(CallTimeoutError):
                reader.ack(timeout_s=0)
        assert [message.payload for message in [first, *rest]] == [b"6", b"7", b"8", b"9", b"10", b"11"]


def test_an_operator_sets_it_and_the_consumer_stops(cluster: Standalone, log: str) -> None:
    with dlog.connect(cluster.uri) as client, dlog.connect(cluster.uri) as operator:
        with client.open_writer(log, create=True) as writer:
            ids = list(writer.append_many([b"0", b"1", b"2"]))
        with client.reader(log, cursor="billing", until="latest") as reader:
            next(reader)
            assert operator.set_cursor(log, "billing", ids[2]).position == ids[2]
            with pytest.raises(CursorMovedError):
                reader.ack()
        with client.reader(log, cursor="billing", until="latest") as reader:
            assert [message.payload for message in reader] == [b"2"]
            assert [cursor.name for cursor in operator.cursors(log)] == ["billing"]
            operator.delete_cursor(log, "billing")
            with pytest.raises(CursorNotFoundError):
                reader.ack()
        with (
            client.reader(log, until="latest") as reader,
            pytest.raises(ConfigurationError, match="has no cursor"),
        ):
            reader.ack()
