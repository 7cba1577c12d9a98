"""The simulation is not blind: bugs planted in production code are found."""

from __future__ import annotations

import pytest

from ledger.core import quorum
from ledger.core.quorum import absence_proved
from ledger.model import QuorumSizes
from tests.helpers.mutations.__main__ import main
from tests.helpers.mutations.mutation import Mutation
from tests.helpers.mutations.planting import DoesNotApplyError, edit, planted
from tests.simulation.mutations.catalogue import MUTATIONS


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_every_bug_can_still_be_planted(mutation: Mutation) -> None:
    with planted((*mutation.given, *mutation.edits)):
        pass


def test_a_planted_bug_reaches_all_importers_of_the_function_and_is_removed() -> None:
    sizes = QuorumSizes(ensemble=3, write=3, ack=2)
    with planted([edit("ledger.core.quorum:absence_proved", ("+ 1", "+ 0"))]):
        assert absence_proved(1, sizes)
        assert quorum.absence_proved(1, sizes)
    assert not absence_proved(1, sizes)


@pytest.mark.parametrize(
    ("target", "old"),
    [
        ("ledger.core.quorum:no_such_function", "+ 1"),
        ("ledger.core.append:AppendMachine.no_such_method", "+ 1"),
        ("ledger.core.quorum:absence_proved", "no such text"),
        ("ledger.core.quorum:absence_proved", "quorum."),
        ("ledger.core.quorum:absence_proved", "negative_count: int,"),
        ("ledger.model:NO_ENTRY", "1"),
    ],
)
def test_a_bug_for_which_production_code_has_changed_is_an_error(target: str, old: str) -> None:
    with pytest.raises(DoesNotApplyError), planted([edit(target, (old, ""))]):
        pass


def test_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(mutation.name in listed and mutation.rule in listed for mutation in MUTATIONS.values())
