"""Entries that are to be copied: as they are stored, up to the first damaged one."""

from __future__ import annotations

import pytest

from ledger.errors import DigestMismatchError, ProtocolError
from ledger.model import DigestType, LedgerId
from ledger.repair.copying.intact_entries import intact_entries
from ledger.wire.constants import ENTRY_SIZE
from ledger.wire.digest import Digester, make_digester

_LEDGER = LedgerId(7)
_FIRST = 40
_PAYLOADS = (b"", b"one", bytes(5000), b"three")
_SIZE = ENTRY_SIZE.size


def _entries(digester: Digester) -> list[bytes]:
    length, entries = 0, []
    for entry_id, payload in enumerate(_PAYLOADS, _FIRST):
        length += len(payload)
        entries.append(digester.header_and_digest(_LEDGER, entry_id, 3, length, (payload,)) + payload)
    return entries


def _answer(entries: list[bytes]) -> memoryview:
    return memoryview(b"".join(ENTRY_SIZE.pack(len(each)) + each for each in entries))


@pytest.mark.parametrize("digest_type", DigestType)
def test_entries_are_given_as_they_are_stored(digest_type: DigestType) -> None:
    digester = make_digester(digest_type, b"secret")
    entries = _entries(digester)
    assert list(map(bytes, intact_entries(_answer(entries), _LEDGER, _FIRST, 9, digester))) == entries
    assert list(map(bytes, intact_entries(_answer(entries), _LEDGER, _FIRST, 2, digester))) == entries[:2]


@pytest.mark.parametrize("damaged", range(1, len(_PAYLOADS)))
def test_they_end_before_the_first_damaged_one(damaged: int) -> None:
    digester = make_digester(DigestType.CRC32C, b"")
    entries = _entries(digester)
    entries[damaged] = entries[damaged][:-1] + bytes([entries[damaged][-1] ^ 1])
    found = intact_entries(_answer(entries), _LEDGER, _FIRST, 9, digester)
    assert list(map(bytes, found)) == entries[:damaged]


def test_a_first_one_that_is_damaged_is_an_error() -> None:
    digester = make_digester(DigestType.CRC32C, b"")
    answer = bytearray(_answer(_entries(digester)))
    answer[_SIZE] ^= 1
    with pytest.raises(DigestMismatchError):
        intact_entries(memoryview(answer), _LEDGER, _FIRST, 9, digester)


def test_entries_of_another_ledger_or_with_other_ids_are_errors() -> None:
    digester = make_digester(DigestType.CRC32C, b"")
    answer = _answer(_entries(digester))
    with pytest.raises(DigestMismatchError):
        intact_entries(answer, LedgerId(8), _FIRST, 9, digester)
    with pytest.raises(DigestMismatchError):
        intact_entries(answer, _LEDGER, _FIRST + 1, 9, digester)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0\0\0",
        ENTRY_SIZE.pack(-1) + bytes(50),
        ENTRY_SIZE.pack(-(2**31)),
        ENTRY_SIZE.pack(51) + bytes(50),
    ],
)
def test_answers_of_another_form_are_errors(answer: bytes) -> None:
    with pytest.raises(ProtocolError):
        intact_entries(memoryview(answer), _LEDGER, _FIRST, 9, make_digester(DigestType.CRC32C, b""))
