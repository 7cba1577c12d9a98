"""The demonstration's input and its proof, without a cluster."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dlog.demo.child import last_sentence
from dlog.demo.flights import Flight, find_file, load, mean_delay_by_carrier
from dlog.demo.proof import Proof, differences, longest_pause_ms
from dlog.errors import DataLossError
from dlog.model import Message, MessageId
from ledger.errors import ConfigurationError


def flights(count: int) -> list[Flight]:
    return [Flight(b"line %d" % n, b"AA", float(n)) for n in range(count)]


def rows(count: int) -> list[Message]:
    return [Message(MessageId(1, 0, n), b"line %d" % n, b"AA") for n in range(count)]


def test_the_file_has_the_month_it_claims() -> None:
    found = load(find_file())
    assert len(found) == 27_004
    assert len({flight.carrier for flight in found}) == 16
    assert round(mean_delay_by_carrier(found)["AA"], 3) == 6.932


def test_another_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot decompress"):
        load(Path(__file__))
    with pytest.raises(ConfigurationError, match="cannot decompress"):
        load(tmp_path / "missing.gz")
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(gzip.compress(b"day,carrier\n")[:10] + b"\xff" * 20)  # no such kind of block
    with pytest.raises(ConfigurationError, match="cannot decompress"):
        load(damaged)


def test_a_faithful_log_passes() -> None:
    proof = Proof(flights(3))
    proof.check(rows(3)[:2])
    assert not proof.complete
    proof.check(rows(3)[2:])
    assert proof.complete
    assert (proof.first, proof.last) == (MessageId(1, 0, 0), MessageId(1, 0, 2))


@pytest.mark.parametrize(
    ("read", "sentence"),
    [
        ([rows(3)[0], rows(3)[2]], "message 1:0:2 must be line 2"),
        ([rows(3)[0], rows(3)[0]], "message 1:0:0 must be line 2"),
        ([rows(3)[0], rows(3)[1]._replace(id=MessageId(1, 0, 0))], "message 1:0:0 was read after 1:0:0"),
        ([rows(3)[0]._replace(key=None)], "message 1:0:0 must be line 1"),
        ([*rows(3), rows(3)[2]._replace(id=MessageId(2, 0, 0))], "one is duplicated"),
    ],
)
def test_loss_doubling_and_disorder_are_found(read: list[Message], sentence: str) -> None:
    with pytest.raises(DataLossError, match=sentence):
        Proof(flights(3)).check(read)


def test_pauses_and_means() -> None:
    assert longest_pause_ms([0.0, 0.1, 0.4, 0.41]) == pytest.approx(300)
    assert longest_pause_ms([1.0]) == 0
    assert differences({"AA": 1.0, "UA": 2.0}, {"AA": 1.0 + 1e-12, "UA": 2.1, "B6": 1.0}) == ["B6", "UA"]


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        (
            'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n'
            "ledger.errors.NotEnoughBookiesError: 2 bookies are needed: start more\n",
            "2 bookies are needed: start more",
        ),
        ("java.lang.IllegalStateException: no\n\tat java.base/x.Y.z(Y.java:1)\n", "no"),
        ("killed\n\n", "killed"),
        ("", "it printed no reason"),
    ],
)
def test_a_child_that_fails_is_described_by_one_sentence(log: str, sentence: str) -> None:
    assert last_sentence(log) == sentence
