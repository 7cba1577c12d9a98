"""Each fuzz target over its corpus, over inputs that failed once, and over some hundred mutations of them."""

from __future__ import annotations

import random

import pytest

from tests.helpers.fuzz.kept import KEPT, kept_inputs
from tests.helpers.fuzz.mutating import mutants
from tests.helpers.fuzz.registry import TARGETS
from tests.helpers.fuzz.target import run_measured

MUTATIONS = 400
MEASURED_EVERY = 8


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_and_mutations_of_it(name: str) -> None:
    target = TARGETS[name]
    corpus = [*target.corpus(), *kept_inputs(name).values()]
    assert corpus, "a target without an input to start from finds nothing"
    with target.session() as run:
        for data in corpus:
            run_measured(target, run, data)
        source = mutants(corpus, random.Random(name), target.input_bytes_max)
        for number in range(MUTATIONS // target.cost):
            data = next(source)
            try:
                run(data) if number % MEASURED_EVERY else run_measured(target, run, data)
            except Exception as error:
                error.add_note(f"input {data.hex()}")
                raise


def test_every_kept_input_is_of_a_target() -> None:
    """One of a target that was renamed would be forgotten."""
    assert {path.name for path in KEPT.iterdir()} <= set(TARGETS)
