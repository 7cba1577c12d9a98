"""Every refusal (docs/bookkeeper.md#bookie-answers, #read-only-bookies, #limbo), decided from facts alone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bookie_server.protocol.refusals import (
    LAC_PACKET_BYTES_MAX,
    Writability,
    read_lac_status,
    refuse_add,
    refuse_fence,
    refuse_read,
    refuse_write_lac,
)
from ledger.model import DigestType
from ledger.wire.digest import make_digester
from ledger.wire.status import Status

KEY, OTHER_KEY = bytes(20), bytes(19) + b"\x01"
WRITABLE, READ_ONLY = Writability(), Writability(adds=False)
PACKET = bytes(16)


@dataclass
class Facts:
    master_key: bytes = KEY
    fenced: bool = False
    limbo: bool = False
    deleted: bool = False


def add(
    ledger: Facts | None,
    *,
    writability: Writability = WRITABLE,
    ledger_id: int = 7,
    key: bytes = KEY,
    recovery: bool = False,
    priority: bool = False,
) -> Status | None:
    return refuse_add(writability, ledger, ledger_id, key, recovery=recovery, priority=priority)


def test_adds_to_known_and_unknown_ledgers_pass() -> None:
    assert add(Facts()) is None
    assert add(None) is None


def test_a_wrong_key_is_refused_before_anything_else_of_the_ledger_shows() -> None:
    assert add(Facts(), key=OTHER_KEY) is Status.EUA
    assert add(Facts(fenced=True), key=OTHER_KEY, recovery=True) is Status.EUA
    assert add(Facts(), key=b"") is Status.EUA


@pytest.mark.parametrize("facts", [Facts(fenced=True), Facts(limbo=True)])
def test_fenced_and_limbo_ledgers_take_recovery_adds_only(facts: Facts) -> None:
    """Limbo: part of the journal is lost, and the fence may have been in it."""
    assert add(facts) is Status.EFENCED
    assert add(facts, priority=True) is Status.EFENCED
    assert add(facts, recovery=True) is None


@pytest.mark.parametrize("recovery", [False, True])
def test_a_deleted_ledger_refuses_every_writer(recovery: bool) -> None:
    assert add(Facts(deleted=True), recovery=recovery) is Status.EFENCED


def test_read_only_takes_adds_with_priority_while_room_is_kept() -> None:
    assert add(Facts(), writability=READ_ONLY) is Status.EREADONLY
    assert add(Facts(), writability=READ_ONLY, recovery=True) is Status.EREADONLY
    assert add(Facts(), writability=READ_ONLY, priority=True) is None
    assert (
        add(Facts(), writability=Writability(adds=False, priority_adds=False), priority=True)
        is Status.EREADONLY
    )


def test_negative_ledger_ids_are_bad_requests_everywhere() -> None:
    assert add(None, ledger_id=-1) is Status.EBADREQ
    assert refuse_fence(None, -1, KEY) is Status.EBADREQ
    assert refuse_read(None, -1, 0) is Status.EBADREQ
    assert refuse_write_lac(WRITABLE, None, -1, KEY, PACKET) is Status.EBADREQ


def test_a_fence_passes_for_unknown_and_fenced_ledgers_and_needs_the_key() -> None:
    assert refuse_fence(None, 7, KEY) is None
    assert refuse_fence(Facts(fenced=True), 7, KEY) is None
    assert refuse_fence(Facts(), 7, OTHER_KEY) is Status.EUA
    assert refuse_fence(Facts(deleted=True), 7, KEY) is Status.ENOLEDGER


def test_reads_need_a_ledger_that_is_here() -> None:
    assert refuse_read(Facts(), 7, 0) is None
    assert refuse_read(Facts(fenced=True), 7, -1) is None
    assert refuse_read(None, 7, 0) is Status.ENOLEDGER
    assert refuse_read(Facts(deleted=True), 7, 0) is Status.ENOLEDGER
    assert refuse_read(Facts(), 7, -2) is Status.EBADREQ


def test_an_explicit_lac_needs_16_bytes_the_key_and_a_writable_bookie() -> None:
    assert refuse_write_lac(WRITABLE, None, 7, KEY, PACKET) is None
    assert refuse_write_lac(WRITABLE, Facts(fenced=True), 7, KEY, PACKET) is None
    assert refuse_write_lac(WRITABLE, Facts(), 7, KEY, PACKET[:-1]) is Status.EBADREQ
    assert refuse_write_lac(WRITABLE, Facts(), 7, OTHER_KEY, PACKET) is Status.EUA
    assert refuse_write_lac(WRITABLE, Facts(deleted=True), 7, KEY, PACKET) is Status.ENOLEDGER
    assert refuse_write_lac(READ_ONLY, Facts(), 7, KEY, PACKET) is Status.EREADONLY


def test_an_explicit_lac_of_more_than_any_digest_needs_is_refused() -> None:
    longest = bytes(LAC_PACKET_BYTES_MAX)
    for digest_type in DigestType:
        assert make_digester(digest_type, b"password").lac_packet_bytes <= LAC_PACKET_BYTES_MAX
    assert refuse_write_lac(WRITABLE, Facts(), 7, KEY, longest) is None
    assert refuse_write_lac(WRITABLE, Facts(), 7, KEY, longest + b"\0") is Status.EBADREQ
    assert refuse_write_lac(WRITABLE, None, 7, KEY, longest + b"\0") is Status.EBADREQ


def test_read_lac_without_entries_is_never_ok() -> None:
    assert read_lac_status(None, last_entry_held=True) is Status.EOK
    assert read_lac_status(PACKET, last_entry_held=True) is Status.EOK
    assert read_lac_status(None, last_entry_held=False) is Status.ENOENTRY
    assert read_lac_status(PACKET, last_entry_held=False) is Status.EIO
