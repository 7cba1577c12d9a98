"""What `dlog info` and `dlog ledgers` say, to people and to programs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlog.admin import LogInfo
from dlog.cache.snapshot import MetadataSnapshot
from dlog.cli.describe.activity import TOP_COLUMNS, cluster_line, top_document, top_row
from dlog.cli.describe.history import history_document, history_rows
from dlog.cli.describe.ledgers import ledger_row
from dlog.cli.describe.overview import document_of, facts_of
from dlog.core.degraded import fallback_tags
from dlog.inspection.activity import LogActivity
from dlog.inspection.history import HistoryEvent
from dlog.inspection.overview import Overview
from dlog.ledger_list.totals import totals_of
from dlog.metadata.log_ref import LogRef
from dlog.model import LogMetadata, LogName, LogState, MessageId
from dlog.read.backlog import NOTHING, Amount
from ledger.model import (
    BookieId,
    BookieInfo,
    BookieSet,
    DamagedRegistration,
    EntryId,
    Fragment,
    LedgerMetadata,
    QuorumSizes,
)
from tests.helpers.log.lists import list_of, now, window_of
from tests.helpers.log.records import ALICE, listed, record, seal

TAIL = MessageId(5, 0, 0)
OWNER = TOP_COLUMNS.index("owner")
UNCOUNTED = replace(listed(4, 9), seal=replace(seal(9), message_count=-1))


def info(of: LogMetadata) -> LogInfo:
    return LogInfo(ref=LogRef(LogName(namespace="default", name="orders"), "uuid-1"), record=of, version=7)


def overview(
    log: LogInfo, tail: MessageId | None, newest: LedgerMetadata | None, of_open: Amount | None = NOTHING
) -> Overview:
    ledgers = list_of(log.record)
    return Overview(log, window_of(log.record).earliest, now(ledgers.totals()), tail, newest, of_open)


def metadata(copies: int, wanted: QuorumSizes | None = None) -> LedgerMetadata:
    quorum = QuorumSizes(ensemble=copies, write=copies, ack=2)
    bookies = tuple(BookieId(f"b{n}:3181") for n in range(copies))
    tags = () if wanted is None else fallback_tags(wanted)
    return LedgerMetadata(quorum=quorum, fragments=(Fragment(EntryId(0), bookies),), custom=tags)


def test_programs_get_numbers_as_numbers() -> None:
    """`jq .sealed_messages` is a sum, whatever is left out of it."""
    found = document_of(overview(info(record(listed(3, 999), listed(5))), TAIL, metadata(3)))
    assert found == {
        "log": "default/orders",
        "state": "active",
        "first": "3:0:0",
        "next": "5:0:0",
        "ledgers": 2,
        "messages": 3000,
        "bytes": 100_000,
        "sealed_messages": 3000,
        "sealed_messages_complete": True,
        "sealed_bytes": 100_000,
        "epoch": 1,
        "owner": {
            "name": "first",
            "host": "host-a",
            "process": 11,
            "since": "2023-11-14T22:13:20.000000+00:00",
            "instance": "alice",
        },
        "writer": "open",
        "copies": {"ensemble": 3, "write": 3, "ack": 2, "degraded": False},
        "waiting_for_deletion": 0,
        "grace_s": 604_800.0,
        "uuid": "uuid-1",
    }


def test_people_and_programs_hear_of_what_was_not_counted() -> None:
    """A takeover seals without counting."""
    log = info(record(listed(3, 0), UNCOUNTED))
    found = document_of(overview(log, TAIL, metadata(2)))
    assert (found["sealed_messages"], found["sealed_messages_complete"]) == (3, False)
    assert found["copies"] == {"ensemble": 2, "write": 2, "ack": 2, "degraded": False}
    assert (
        facts_of(overview(log, TAIL, metadata(2)))["messages"] == "3, without ledgers that were not counted"
    )
    assert ledger_row(UNCOUNTED)["messages"] is None


@pytest.mark.parametrize("copies", [2, 3, 5])
@pytest.mark.parametrize("wanted", [None, QuorumSizes(), QuorumSizes(ensemble=6, write=5, ack=3)])
def test_a_ledger_is_degraded_if_it_got_less_than_was_configured(
    copies: int, wanted: QuorumSizes | None
) -> None:
    """Whatever the default is."""
    log, newest = info(record(listed(3))), metadata(copies, wanted)
    found = overview(log, TAIL, newest)
    text = f"{copies} on {copies} bookies, 2 before an acknowledgement"
    if wanted is not None:
        more = f"the next ledger has {wanted.write} copies on {wanted.ensemble} bookies if as many are up"
        text = f"degraded: {text}; {more}"
    assert facts_of(found)["copies"] == text
    copies_found = document_of(found)["copies"]
    assert isinstance(copies_found, dict) and copies_found["degraded"] == (wanted is not None)
    row = top_row(LogActivity(log, totals_of((), ()), TAIL, None, newest))
    assert row[-1] == f"{copies} (2)" + ("" if wanted is None else " degraded")


def test_the_open_ledger_is_counted_or_said_to_be_unknown() -> None:
    log = info(record(listed(3, 999), listed(5)))
    found = overview(log, MessageId(5, 7, 0), metadata(3), Amount(7, 21, 5000))
    assert (document_of(found)["messages"], document_of(found)["bytes"]) == (3021, 105_000)
    assert (facts_of(found)["messages"], facts_of(found)["bytes"]) == ("3,021", 105_000)
    found = overview(log, None, metadata(3), None)
    assert [document_of(found)[name] for name in ("next", "messages", "bytes")] == [None] * 3
    assert document_of(found)["sealed_messages"] == 3000
    assert facts_of(found)["next"] == "unknown: too few bookies respond"
    assert facts_of(found)["messages"] == "3,000 in sealed ledgers, those of the open ledger are unknown"
    assert facts_of(found)["bytes"] == "100,000 in sealed ledgers, those of the open ledger are unknown"
    found = overview(log, MessageId(5, 7, 0), metadata(3), Amount(7, None, 5000))
    assert facts_of(found)["messages"] == "3,000, without the open ledger, which does not count them"


def test_an_owner_can_be_matched_between_the_log_and_its_history() -> None:
    """The same process, host and instance are in both; of owners of earlier builds only the instance is known."""
    log = info(record(listed(3, 999), listed(5)))
    shown = str(facts_of(overview(log, TAIL, metadata(3)))["owner"])
    event = HistoryEvent(
        listed=listed(5),
        epoch=1,
        takeover=True,
        owner_instance="alice",
        pause_us=None,
        owner=log.record.owner,
    )
    [row] = history_rows(event)
    assert row[-2:] == ["alice", "first process 11 on host-a"]
    assert shown.startswith("first process 11 on host-a since ") and shown.endswith(", instance alice")
    document = history_document(event)["owner"]
    assert isinstance(document, dict) and (document["process"], document["host"]) == (11, "host-a")
    [row] = history_rows(replace(event, owner_instance="bob", owner=None))
    assert row[-2:] == ["bob", None]


def test_a_writer_that_has_closed_differs_from_one_that_may_run() -> None:
    """By the record alone: one that was killed has not closed."""
    for ledgers, writer, text, cell in (
        (
            (listed(3, 999), listed(5)),
            "open",
            "not closed: it runs, or has ended without closing",
            "first@host-a",
        ),
        ((listed(3, 999), listed(5, 4)), "closed", "closed", "first@host-a closed"),
    ):
        log = info(record(*ledgers))
        found = overview(log, TAIL, metadata(3))
        assert (facts_of(found)["writer"], document_of(found)["writer"]) == (text, writer)
        activity = LogActivity(log, totals_of((), ()), None, None, metadata(3))
        assert (top_document(activity)["writer"], top_row(activity)[OWNER]) == (writer, cell)
    sealed = info(replace(record(listed(3, 999)), state=LogState.SEALED))
    assert top_row(LogActivity(sealed, totals_of((), ()), None, None, metadata(3)))[OWNER] == "first@host-a"
    new = overview(info(record(epoch=0, owner=None)), MessageId(0, 0, 0), None)
    assert (facts_of(new)["writer"], document_of(new)["writer"]) == ("none yet", None)


def test_takeovers_whose_ledgers_stayed_empty_have_a_row() -> None:
    event = HistoryEvent(
        listed=listed(5), epoch=1, takeover=True, owner_instance="a", pause_us=None, empty_epochs=range(9, 10)
    )
    assert history_rows(event)[0][1:4] == ["takeover: its ledger stayed empty", None, "9"]
    assert history_document(event)["empty_epochs"] == [9]
    several = history_rows(replace(event, empty_epochs=range(9, 12)))
    assert several[0][1:4] == ["takeovers: their ledgers stayed empty", None, "9 to 11"]
    assert len(several) == 2


def test_a_seal_is_an_event_without_a_ledger() -> None:
    event = HistoryEvent(
        listed=None, epoch=4, takeover=True, seal=True, owner_instance="alice", pause_us=None, owner=ALICE
    )
    [row] = history_rows(event)
    process = "first process 11 on host-a"
    assert row == ["2023-11-14T22:13:20Z", "seal", None, "4", None, "alice", process]
    document = history_document(event)
    assert [document[name] for name in ("event", "ledger", "epoch")] == ["seal", None, 4]
    earlier = history_document(replace(event, owner=replace(ALICE, started_us=0)))["owner"]
    assert isinstance(earlier, dict) and earlier["since"] is None


def test_a_new_log_has_no_owner_and_no_ledgers() -> None:
    found = document_of(overview(info(record(epoch=0, owner=None)), MessageId(0, 0, 0), None))
    assert (found["owner"], found["copies"], found["sealed_messages"]) == (None, None, 0)


def test_unknown_times_are_null() -> None:
    """An empty ledger has no first append."""
    row = ledger_row(listed(3, -1))
    assert (row["state"], row["entries"], row["first"], row["last"]) == ("sealed", 0, None, None)
    assert row["created"] == "2023-11-14T22:13:20.000003+00:00"


def test_the_line_about_the_bookies_names_those_that_a_log_lacks() -> None:
    def registered(*ids: str, read_only: bool = False) -> tuple[BookieInfo, ...]:
        return tuple(
            BookieInfo(bookie_id=BookieId(each), host=each, port=1, read_only=read_only) for each in ids
        )

    snapshot = MetadataSnapshot(
        cluster_id="c",
        layout=b"",
        namespace="default",
        bookies=BookieSet(writable=registered("b1", "b4"), read_only=registered("b2", read_only=True)),
    )
    log = LogActivity(info(record(listed(3))), totals_of((), ()), None, None, metadata(3))
    alone = replace(snapshot, bookies=BookieSet(writable=registered("b1")))
    assert cluster_line(alone, []) == "cluster c: 1 bookie writable"
    assert cluster_line(snapshot, []) == "cluster c: 2 bookies writable, 1 read-only"
    assert cluster_line(snapshot, [log]).endswith("; not registered: b0:3181, b1:3181, b2:3181")
    shown = dict(zip(TOP_COLUMNS, top_row(log), strict=True))
    assert (shown["entries/s"], shown["next"]) == (None, None)
    damaged = replace(alone.bookies, damaged=(DamagedRegistration(BookieId("b0:3181"), "damaged"),))
    line = cluster_line(replace(alone, bookies=damaged), [log])
    assert line.endswith("; damaged registrations: b0:3181; not registered: b1:3181, b2:3181")
