"""Looking into a log from the blocking API, against real bookies: what is found, and that nothing is changed."""

from __future__ import annotations

import pytest

import dlog
from dlog.errors import LogNotFoundError, UnknownPositionError
from dlog.local.embedded import Standalone
from dlog.read.resolution import Resolution
from ledger.errors import InvalidNameError

pytestmark = pytest.mark.integration


def test_a_log_is_examined_while_it_is_written(cluster: Standalone, log: str) -> None:
    with (
        dlog.connect(cluster.uri) as client,
        dlog.connect(cluster.uri) as operator,
        client.open_writer(log, create=True) as writer,
    ):
        ids = list(writer.append_many([b"one", b"two"]))
        writer.rotate()
        last = writer.append(b"three")
        version = operator.describe(log).version

        found = operator.overview(log)
        assert (found.first, found.tail, found.totals.ledgers) == (ids[0], last._replace(entry_id=1), 2)
        listed = operator.list_ledgers(log)
        assert [one.ledger_id for one in listed] == [ids[0].ledger_id, last.ledger_id]
        assert [(event.listed, event.takeover) for event in operator.history(log)] == [
            (listed[0], True),
            (listed[1], False),
        ]
        checked: list[int] = []
        copies = operator.verify(log, on_progress=checked.append)
        assert [each.ledger_id for each in copies] == [one.ledger_id for one in listed]
        assert all(each.proved and not each.damaged for each in copies)
        assert sum(checked) == 2
        explained = operator.explain(log, str(ids[1]))
        assert explained.resolution is Resolution.COMMITTED
        assert explained.message is not None
        assert explained.message.payload == b"two"

        assert operator.describe(log).version == version
        assert writer.append(b"four") > last, "its ledger is not fenced"


def test_what_is_not_there_is_reported(cluster: Standalone, log: str) -> None:
    with dlog.connect(cluster.uri) as client:
        for look in (client.overview, client.list_ledgers, client.history, client.verify):
            with pytest.raises(LogNotFoundError):
                look("absent")
        with client.open_writer(log, create=True) as writer:
            last = writer.append(b"one")
        with pytest.raises(UnknownPositionError):
            client.explain(log, last._replace(ledger_id=last.ledger_id + 100))
        with pytest.raises(InvalidNameError):
            client.explain(log, "nonsense")
