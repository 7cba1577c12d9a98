"""What a ledger's tags and its log's values say of it. The sweep itself: tests/conformance/test_sweep.py."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dlog.core.metadata_keys import (
    TAG_CREATED_US,
    TAG_KIND,
    TAG_OWNER_NAME,
    TAG_OWNER_PROCESS,
    TAG_ROOT,
    ledger_tags,
    owner_of,
    staging_tags,
)
from dlog.core.orphans import Staged, Verdict, absence_is_final, is_abandoned, origin_of, verdict_of
from dlog.model import LogName, NameNode, NameState, Owner, PendingDelete, SinkMark
from ledger.model import BookieId, EntryId, Fragment, LedgerId, LedgerMetadata, QuorumSizes
from tests.helpers.log.records import ALICE, listed, record

LOG = LogName(namespace="default", name="orders")
TAGS = ledger_tags(root="/dlog", log=LOG, log_uuid="uuid-1", epoch=3, owner=ALICE, created_us=17)


def tagged(*custom: tuple[str, bytes]) -> LedgerMetadata:
    return LedgerMetadata(
        quorum=QuorumSizes(ensemble=1, write=1, ack=1),
        fragments=(Fragment(EntryId(0), (BookieId("b1:1"),)),),
        custom=custom,
    )


def test_tags_name_one_log_under_one_root() -> None:
    origin = origin_of(tagged(*TAGS))
    assert origin is not None
    assert (origin.root, origin.log, origin.log_uuid, origin.created_us) == ("/dlog", LOG, "uuid-1", 17)
    older = origin_of(tagged(*(each for each in TAGS if each[0] != TAG_ROOT)))
    assert older is not None
    assert older.root is None


@pytest.mark.parametrize(
    "custom",
    [
        (),
        (("application", b"x"),),
        (*TAGS, (TAG_KIND, b"of a later release")),
        tuple((key, b"" if key == "dlog.log" else value) for key, value in TAGS),
        tuple((key, b"\xff" if key == "dlog.log" else value) for key, value in TAGS),
        tuple((key, b"no namespace" if key == "dlog.name" else value) for key, value in TAGS),
        tuple(each for each in TAGS if each[0] != "dlog.name"),
    ],
)
def test_other_programs_ledgers_have_no_origin(custom: tuple[tuple[str, bytes], ...]) -> None:
    assert origin_of(tagged(*custom)) is None


def test_a_sinks_ledger_names_its_batch() -> None:
    origin = origin_of(tagged(*TAGS, *staging_tags("query", 7)))
    assert origin is not None
    assert (origin.epoch, origin.staged) == (3, Staged("query", 7))
    unnumbered = origin_of(tagged(*TAGS, *staging_tags(None, 0)))
    assert unnumbered is not None
    assert unnumbered.staged == Staged()
    writers = origin_of(tagged(*TAGS))
    assert writers is not None
    assert writers.staged is None


@pytest.mark.parametrize(
    ("mark", "epoch", "now_us", "abandoned"),
    [
        (7, 3, 17, True),
        (8, 1, 17, True),
        (6, 3, 116, False),
        (6, 3, 117, True),
        (6, 9, 117, True),
        (6, 2, 10**15, False),
    ],
)
def test_a_sinks_ledger_is_given_up_after_its_batch_or_after_the_grace(
    mark: int, epoch: int, now_us: int, abandoned: bool
) -> None:
    """In an earlier epoch than the ledger's the record is a restored one, and may have listed the ledger."""
    origin = origin_of(tagged(*TAGS, *staging_tags("query", 7)))
    assert origin is not None
    found = replace(
        record(listed(3), epoch=epoch), sinks=(SinkMark(writer_id="query", batch=mark, time_us=5),)
    )
    assert is_abandoned(origin, found, now_us=now_us, grace_us=100) is abandoned


def test_a_records_word_on_a_ledger() -> None:
    busy = record(listed(3), listed(5))
    assert verdict_of(busy, LedgerId(3), in_page=False) is Verdict.KNOWN
    assert verdict_of(busy, LedgerId(4), in_page=False) is Verdict.NEVER_LISTED
    assert verdict_of(busy, LedgerId(6), in_page=False) is Verdict.BAR_FIRST
    pending = (PendingDelete(ledger_id=LedgerId(2), not_before_us=9),)
    assert verdict_of(replace(busy, pending_delete=pending), LedgerId(2), in_page=False) is Verdict.KNOWN


@pytest.mark.parametrize(
    ("name", "final"),
    [
        (None, False),
        (NameNode(log_uuid="", state=NameState.DELETED), False),
        (NameNode(log_uuid="uuid-1", state=NameState.ACTIVE), False),
        (NameNode(log_uuid="uuid-1", state=NameState.DELETED), True),
        (NameNode(log_uuid="uuid-2", state=NameState.ACTIVE), True),
        (NameNode(log_uuid="uuid-2", state=NameState.DELETED), True),
    ],
)
def test_that_a_record_is_absent_proves_nothing_unless_the_name_moved_on(
    name: NameNode | None, final: bool
) -> None:
    origin = origin_of(tagged(*TAGS))
    older = origin_of(tagged(*TAGS[1:]))
    assert origin is not None and older is not None
    assert absence_is_final(origin, name) is final
    assert not absence_is_final(older, name), "its root is not known"


def test_a_creation_time_that_is_no_number_is_unknown() -> None:
    """Another program's tag may hold anything; it must not end the sweep."""
    for value in (b"", b"soon", b"7" * 5000, b"9" * 20):
        custom = [(name, value if name == TAG_CREATED_US else each) for name, each in TAGS]
        origin = origin_of(tagged(*custom))
        assert origin is not None
        assert origin.created_us == 0


def test_tags_name_the_owner() -> None:
    assert owner_of(TAGS) == replace(ALICE, started_us=0)
    nameless = replace(ALICE, name="", host="")
    tags = ledger_tags(root="/dlog", log=LOG, log_uuid="uuid-1", epoch=3, owner=nameless, created_us=17)
    assert owner_of(tags) == replace(nameless, started_us=0)
    assert owner_of([each for each in TAGS if each[0] != TAG_OWNER_PROCESS]) is None
    damaged = {**dict(TAGS), TAG_OWNER_PROCESS: b"\xff" * 50, TAG_OWNER_NAME: b"\xff"}
    assert owner_of(damaged.items()) == Owner(instance="alice", name="\N{REPLACEMENT CHARACTER}")
