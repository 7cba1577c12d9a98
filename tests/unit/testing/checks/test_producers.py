"""The checks of producers accept a sound history, and find each way in which it can be wrong."""

from __future__ import annotations

import pytest

from dlog.model import Appended, MessageId
from dlog.testing.checks.producers import (
    ProducerAck,
    ProducerHistory,
    c19_each_sequence_is_in_the_log_once_and_in_order,
    c19_what_a_producer_was_acknowledged_is_in_the_log,
)
from dlog.testing.swarm.processes.producers import Produced


def log_of(*sequences: int) -> list[tuple[MessageId, str, int]]:
    return [(MessageId(1, number, 0), "a", sequence) for number, sequence in enumerate(sequences)]


@pytest.mark.parametrize(
    ("sequences", "words"),
    [
        ((1, 2, 2, 3), "sequence 2 at 1:2:0, after 2 at 1:1:0"),
        ((1, 3, 2), "sequence 3 at 1:1:0, and the one before it is 1"),
        ((1, 2, 1), "sequence 1 at 1:2:0, after 2"),
        ((2,), "the one before it is 0"),
    ],
)
def test_a_sequence_that_is_there_twice_or_left_out_is_found(sequences: tuple[int, ...], words: str) -> None:
    found = list(c19_each_sequence_is_in_the_log_once_and_in_order(ProducerHistory(log=log_of(*sequences))))
    assert words in found[0]


def test_an_acknowledged_sequence_that_is_missing_or_elsewhere_is_found() -> None:
    history = ProducerHistory(
        [
            ProducerAck("a", 1, None),
            ProducerAck("a", 2, MessageId(1, 1, 0)),
            ProducerAck("a", 2, MessageId(1, 0, 0)),
            ProducerAck("a", 3, None),
            ProducerAck("b", 1, None),
        ],
        log_of(1, 2),
    )
    assert list(c19_each_sequence_is_in_the_log_once_and_in_order(history)) == []
    assert list(c19_what_a_producer_was_acknowledged_is_in_the_log(history)) == [
        "a was acknowledged sequence 2 at 1:0:0, it is at 1:1:0",
        "a was acknowledged sequence 3, which is not in the log",
        "b was acknowledged sequence 1, which is not in the log",
    ]


def test_every_sequence_of_an_acknowledged_append_is_recorded_with_the_ids_that_are_known() -> None:
    produced = Produced()
    produced.acked("a", 3, Appended(6, MessageId(1, 5, 1), new=2))
    produced.acked("a", 6, Appended(6, None, new=0))
    assert [(ack.sequence, ack.message_id) for ack in produced.history.acks] == [
        (3, None),
        (4, None),
        (5, MessageId(1, 5, 0)),
        (6, MessageId(1, 5, 1)),
        (6, None),
    ]
    assert (produced.highest_acked("a"), produced.highest_acked("b")) == (6, 0)
