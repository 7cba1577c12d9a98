"""A fence and the old writer's adds race on two connections: no add is taken after the fence was answered."""

from __future__ import annotations

import pytest

from ledger.wire.status import Status
from tests.helpers.bookie.entries import WRONG_KEY, add, add_answer, entry, fence, read, read_answer
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess

pytestmark = pytest.mark.integration

ADDS = 400
ROUNDS = 10


def test_the_fences_answer_shows_every_add_that_was_taken(bookie: BookieProcess) -> None:
    """Adds are in flight when the fence comes. Each is either below the answered last entry, or refused."""
    for turn in range(ROUNDS):
        with RawClient(bookie.port) as writer, RawClient(bookie.port) as recoverer:
            race(writer, recoverer, ledger_id=10 + turn, sent_before=turn * ADDS // ROUNDS)


def race(writer: RawClient, recoverer: RawClient, ledger_id: int, sent_before: int) -> None:
    """Send the fence after so many of the adds, wait for no answer in between."""
    frames = [add(ledger_id, each) for each in range(ADDS)]
    writer.send(b"".join(frames[:sent_before]))
    recoverer.send(fence(ledger_id))
    writer.send(b"".join(frames[sent_before:]))
    last = read_answer(recoverer.frame())
    answers = [add_answer(writer.frame()) for _ in range(ADDS)]
    taken = [each.entry_id for each in answers if each.status is Status.EOK]
    refused = [each.entry_id for each in answers if each.status is Status.EFENCED]
    assert sorted(taken + refused) == list(range(ADDS))
    assert taken == list(range(len(taken)))
    if taken:
        assert last.entry == entry(ledger_id, taken[-1])
    else:
        assert last.status is Status.ENOENTRY
    following = len(taken)
    assert read_answer(recoverer.ask(fence(ledger_id, following))).status is Status.ENOENTRY
    assert add_answer(writer.ask(add(ledger_id, following))).status is Status.EFENCED
    assert read_answer(recoverer.ask(read(ledger_id, following))).status is Status.ENOENTRY


def test_adds_and_a_fence_in_one_packet_keep_their_order(bookie: BookieProcess) -> None:
    """One connection, one write: two adds, the fence, one more add."""
    with RawClient(bookie.port) as client:
        client.send(add(5, 0) + add(5, 1) + fence(5) + add(5, 2))
        frames = [client.frame() for _ in range(4)]
    adds = [add_answer(each) for each in frames if each[5] == 1]
    [fenced] = [read_answer(each) for each in frames if each[5] == 2]
    assert {each.entry_id: each.status for each in adds} == {
        0: Status.EOK,
        1: Status.EOK,
        2: Status.EFENCED,
    }
    assert fenced.entry == entry(5, 1)


def test_a_wrong_key_leaves_no_trace(bookie: BookieProcess) -> None:
    with RawClient(bookie.port) as client:
        assert add_answer(client.ask(add(6, 0))).status is Status.EOK
        assert read_answer(client.ask(fence(6, key=WRONG_KEY))).status is Status.EUA
        assert add_answer(client.ask(add(6, 1, key=WRONG_KEY, recovery=True))).status is Status.EUA
        assert add_answer(client.ask(add(6, 1))).status is Status.EOK
        assert read_answer(client.ask(read(6, 1))).entry == entry(6, 1)


def test_a_changed_entry_is_refused_and_the_rest_of_its_packet_is_not(bookie: BookieProcess) -> None:
    """The same id with another payload is a bug or an attack; a repeated add, as retries make, is success."""
    with RawClient(bookie.port) as client:
        client.send(add(7, 0) + add(7, 1))
        assert [add_answer(client.frame()).status for _ in range(2)] == [Status.EOK, Status.EOK]
        client.send(add(7, 0) + add(7, 1, b"xyz") + add(7, 2))
        answers = {each.entry_id: each.status for each in (add_answer(client.frame()) for _ in range(3))}
        assert answers == {0: Status.EOK, 1: Status.EBADREQ, 2: Status.EOK}
        assert read_answer(client.ask(read(7, 1))).entry == entry(7, 1)
