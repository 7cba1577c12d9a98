"""The fuzzer finds what is planted: a wrong exception, a hang, memory that does not follow the input."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.fuzz import target as bounds
from tests.helpers.fuzz.executions import Executions, code_of
from tests.helpers.fuzz.mutating import mutants
from tests.helpers.fuzz.target import Target, TooMuchMemoryError, TooMuchTimeError, plain, run_measured


def target_of(run: Callable[[bytes], None]) -> Target:
    return Target(name="planted", session=plain(run), corpus=lambda: [b"0123"])


def test_mutations_reach_a_wrong_exception() -> None:
    def wrong(data: bytes) -> None:
        if data[:1] == b"0" and len(data) > 6:
            raise IndexError("planted")

    found = 0
    for data, _ in zip(mutants([b"0123"], random.Random(1), 64), range(500), strict=False):
        try:
            run_measured(target_of(wrong), wrong, data)
        except IndexError:
            found += 1
    assert 0 < found < 500


def test_memory_above_the_bound_is_a_finding() -> None:
    def greedy(data: bytes) -> None:
        bytearray(int.from_bytes(data[:4], "big"))

    planted = target_of(greedy)
    run_measured(planted, greedy, (1000).to_bytes(4, "big"))
    with pytest.raises(TooMuchMemoryError):
        run_measured(planted, greedy, (planted.memory_base * 4).to_bytes(4, "big"))


def test_time_above_the_bound_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(data: bytes) -> None:
        sum(range(1000 * len(data)))

    monkeypatch.setattr(bounds, "CPU_S_MAX", 0.001)
    with pytest.raises(TooMuchTimeError):
        run_measured(target_of(slow), slow, bytes(1000))


def test_counts_add_up_for_the_same_code_only(tmp_path: Path) -> None:
    path = tmp_path / "fuzz.json"
    for _ in range(2):
        executions = Executions.load(path)
        executions.add("frames", 100, 0)
        executions.add("cookies", 1, 2)
        executions.save(path)
    assert [(n, c.executions, c.findings) for n, c in Executions.load(path).targets.items()] == [
        ("cookies", 2, 2),
        ("frames", 200, 0),
    ]
    path.write_text(path.read_text().replace(code_of("frames"), "other"))
    assert Executions.load(path).targets.keys() == {"cookies"}
    assert code_of("frames") != code_of("cookies")
