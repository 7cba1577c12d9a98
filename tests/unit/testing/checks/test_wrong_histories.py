"""Histories that must not be: each is a sound one with one thing wrong, and the named check refuses it."""

from __future__ import annotations

import pytest

from dlog.testing.checks import checks
from tests.helpers.simulation.histories import Damage, sound
from tests.helpers.simulation.odd_histories import ODD
from tests.helpers.simulation.wrong_appends import WRONG_APPENDS
from tests.helpers.simulation.wrong_reads import WRONG_READS

WRONG = WRONG_APPENDS + WRONG_READS


def test_the_sound_history_passes() -> None:
    checks.check(sound())


@pytest.mark.parametrize(("damage", "check"), WRONG, ids=lambda each: getattr(each, "__name__", each))
def test_it_is_refused(damage: Damage, check: str) -> None:
    history = sound()
    damage(history)
    assert [found for found in checks.findings(history) if found.startswith(f"{check}: ")]


def test_every_check_refuses_something() -> None:
    every = {*checks.CHECKS, checks.c18_what_was_read_is_what_was_acknowledged}
    assert {name for _, name in WRONG} == {check.__name__ for check in every}


@pytest.mark.parametrize("change", ODD, ids=lambda each: each.__name__)
def test_it_is_allowed(change: Damage) -> None:
    history = sound()
    change(history)
    checks.check(history)


def test_a_log_that_could_not_be_read_to_its_end_must_still_not_show_wrong_bytes() -> None:
    history = sound()
    history.complete = False
    del history.final[1:]
    history.resolutions.clear()
    checks.check(history)
    history.final[0] = (history.final[0][0], b"a5")
    with pytest.raises(AssertionError, match=r"c3_an_id|c5_all_readers"):
        checks.check(history)


def test_what_was_resolved_as_committed_may_be_out_of_reach_beyond_the_contract() -> None:
    history = sound()
    del history.final[2]
    assert list(checks.c3_what_was_resolved_stays_so(history))
    history.complete = False
    assert not list(checks.c3_what_was_resolved_stays_so(history))
