"""A ledger that goes by another hand than its own log's is found."""

from __future__ import annotations

from dlog.core.metadata_keys import DEFAULT_ROOT, ledger_tags, record_key
from dlog.format.log_metadata import encode_record
from dlog.model import LogName
from dlog.testing.checks.deletions import c13_ledgers_are_deleted_by_their_own_log
from dlog.testing.metadata.history import Operation, Outcome, RegisterCall, RegisterHistory
from ledger.metadata.format.ledger import encode_ledger_metadata
from ledger.model import BookieId, EntryId, Fragment, LedgerMetadata, QuorumSizes
from tests.helpers.log.records import listed, record

LOG = LogName(namespace="default", name="orders")
TAGS = ledger_tags(
    root=DEFAULT_ROOT, log=LOG, log_uuid="uuid-1", epoch=1, owner_instance="alice", created_us=1
)
KEY = record_key(DEFAULT_ROOT, LOG, "uuid-1")


def call(moment: int, register: str, operation: Operation, value: bytes | None = None) -> RegisterCall:
    return RegisterCall("alice", register, operation, None, value, moment, moment, Outcome.DONE, 0)


def metadata(custom: tuple[tuple[str, bytes], ...]) -> bytes:
    return encode_ledger_metadata(
        LedgerMetadata(
            quorum=QuorumSizes(ensemble=1, write=1, ack=1),
            fragments=(Fragment(EntryId(0), (BookieId("b1:1"),)),),
            custom=custom,
        )
    )


def findings(
    custom: tuple[tuple[str, bytes], ...], *reads: RegisterCall, root: str | None = DEFAULT_ROOT
) -> list[str]:
    history = RegisterHistory()
    history.calls += [call(1, "ledger/7", "create", metadata(custom)), *reads, call(5, "ledger/7", "remove")]
    return list(c13_ledgers_are_deleted_by_their_own_log(history, lambda client: root))


def test_a_ledger_that_left_its_list_may_go() -> None:
    before = call(2, KEY, "read", encode_record(record(listed(7), listed(8))))
    after = call(9, KEY, "read", encode_record(record(listed(8))))
    assert findings(TAGS, before, after) == []


def test_a_ledger_of_another_root_or_of_no_log_may_not() -> None:
    assert len(findings(TAGS, root="/neighbour")) == 1
    assert len(findings(TAGS, root=None)) == 1
    assert len(findings(TAGS[1:])) == 1
    assert len(findings(())) == 1


def test_a_ledger_that_is_listed_afterwards_may_not() -> None:
    assert len(findings(TAGS, call(9, KEY, "read", encode_record(record(listed(7)))))) == 1
