"""No check refuses a history that a correct log can make, and none of the ways to spoil one gets past all of them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlog.testing.checks.checks import check, findings
from tests.helpers.simulation.history_mutations import MUTATIONS, Mutation
from tests.helpers.simulation.log_model import right_history

RANDOMS = st.randoms(use_true_random=False)
TRIES_MAX = 100


@settings(max_examples=150, deadline=None)
@given(random=RANDOMS, steps=st.integers(0, 80))
def test_a_right_history_passes(random: Random, steps: int) -> None:
    check(right_history(random, steps))


@pytest.mark.parametrize("spoil", MUTATIONS, ids=lambda each: each.__name__)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_spoilt_history_is_refused(spoil: Mutation, seed: int) -> None:
    random = Random(seed)
    for _ in range(TRIES_MAX):
        history = right_history(random, 60)
        if spoil(history, random):
            assert findings(history)
            return
    raise AssertionError(f"{spoil.__name__} found nothing to change in {TRIES_MAX} histories")
