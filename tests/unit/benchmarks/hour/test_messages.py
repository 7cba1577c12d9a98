"""A reader's messages are compared with those that were acknowledged."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.hour.messages import MESSAGE_BYTES, ReadCheck, encode


def check_of(numbers: Iterable[int], log: int = 3) -> ReadCheck:
    check = ReadCheck(log)
    for number in numbers:
        check.take(encode(log, number))
    return check


def test_messages_have_one_size_and_differ() -> None:
    messages = {encode(log, number) for log in range(3) for number in range(50)}
    assert len(messages) == 150
    assert {len(each) for each in messages} == {MESSAGE_BYTES}


def test_a_whole_log_has_no_faults() -> None:
    check = check_of(range(10))
    assert (check.count, check.faults(range(10))) == (10, [])


def test_a_missing_message_is_a_fault_if_it_was_acknowledged() -> None:
    check = check_of([0, 1, 3])
    assert check.faults(range(4)) == ["log 3: 1 acknowledged messages are missing"]
    assert check.faults({0, 1, 3}) == []


def test_a_missing_end_is_a_fault() -> None:
    assert check_of(range(3)).faults(range(5)) == ["log 3: 2 acknowledged messages are missing"]
    assert check_of([]).faults(range(1)) == ["log 3: 1 acknowledged messages are missing"]


def test_a_message_that_comes_twice_is_a_fault() -> None:
    assert check_of([0, 1, 1, 2]).faults(range(3)) == ["log 3: message 1 comes after 1"]


def test_another_order_is_a_fault() -> None:
    assert "log 3: message 0 comes after 1" in check_of([1, 0]).faults(range(2))


def test_another_content_is_a_fault() -> None:
    check = ReadCheck(3)
    check.take(encode(3, 0)[:-1] + b"\x00\x00")
    check.take(encode(4, 1))
    check.take(b"")
    assert check.problems == [
        "message 0 has another content",
        "message 1 has another content",
        "a message begins with b''",
    ]
