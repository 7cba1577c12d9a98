"""The simulation is not blind: bugs planted in production code are found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ledger.core import quorum
from ledger.core.quorum import absence_proved
from ledger.model import QuorumSizes
from tests.helpers.evidence.rotation import runs_of_seeds
from tests.helpers.mutations.__main__ import main
from tests.helpers.mutations.mutation import Mutation
from tests.helpers.mutations.planting import DoesNotApplyError, edit, planted
from tests.helpers.mutations.whole_swarm import (
    Progress,
    WholeSwarm,
    bug_fingerprint,
    groups,
    search_whole_swarm,
)
from tests.simulation.mutations.catalogue import MUTATIONS
from tests.simulation.mutations.missed import WHY_MISSED


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


@pytest.mark.parametrize("new", ["no_such_function(", "self._no_such_method("])
def test_a_bug_that_uses_what_there_is_not_is_an_error(new: str) -> None:
    """It would be found for the wrong reason."""
    target = "dlog.core.tailing:Tailing._enter_ledger"
    with (
        pytest.raises(DoesNotApplyError, match="no_such_"),
        planted([edit(target, ("self._nothing_ahead(", new))]),
    ):
        pass


def test_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(mutation.name in listed and mutation.rule in listed for mutation in MUTATIONS.values())


@pytest.mark.nightly
def test_a_search_in_the_whole_swarm_goes_on_where_it_stopped(tmp_path: Path) -> None:
    names, path = ["recovery-without-fence"], tmp_path / "whole_swarm.json"
    assert not list(search_whole_swarm(names, runs_max=20, seconds=0.0, processes=1, path=path))
    [(_, found)] = search_whole_swarm(names, runs_max=20, seconds=60.0, processes=1, path=path)
    assert found.found is not None and found.runs <= 20 and found.check
    assert WholeSwarm.of_current_code(path).bugs == {names[0]: found}
    assert not list(search_whole_swarm(names, runs_max=20, seconds=60.0, processes=1, path=path))


def test_bugs_that_many_runs_did_not_find_are_planted_together_and_found_one_by_one(tmp_path: Path) -> None:
    names, path = ["ack-one-copy-short", "recovery-without-fence"], tmp_path / "whole_swarm.json"
    so_far = WholeSwarm.of_current_code(path)
    for name in names:
        so_far.bugs[name] = Progress(bug_fingerprint(MUTATIONS[name]), runs=20)
    so_far.save(path)
    assert [sorted(group) for group in groups(so_far.bugs)] == [names]
    found = dict(search_whole_swarm(names, runs_max=40, seconds=120.0, processes=1, path=path))
    assert all(each.found is not None and 20 < each.runs <= 40 for each in found.values())


def test_bugs_are_planted_together_if_they_change_different_functions_in_the_same_circumstances() -> None:
    progress = {name: Progress(bug_fingerprint(each), runs=20) for name, each in MUTATIONS.items()}
    found = groups(progress)
    assert sorted(name for group in found for name in group) == sorted(MUTATIONS)
    assert len(found) < len(MUTATIONS) / 3
    for group in found:
        edits = [
            each.target for name in group for each in {e.target: e for e in MUTATIONS[name].edits}.values()
        ]
        assert len(edits) == len(set(edits))
        assert len(group) == 1 or not any(MUTATIONS[name].given for name in group)
        with planted([each for name in group for each in MUTATIONS[name].edits]):
            pass
    fresh = {name: Progress(each.bug) for name, each in progress.items()}
    assert len(groups(fresh)) == len(fresh)


def test_what_was_tried_on_other_code_is_not_counted(tmp_path: Path) -> None:
    [name, *_], path = MUTATIONS, tmp_path / "whole_swarm.json"
    so_far = WholeSwarm.of_current_code(path)
    so_far.bugs[name] = so_far.progress(name)
    so_far.save(path)
    assert WholeSwarm.of_current_code(path).bugs == so_far.bugs
    so_far.fingerprint = "another"
    so_far.save(path)
    assert not WholeSwarm.of_current_code(path).bugs


def test_what_is_not_found_is_explained() -> None:
    """Only while the recorded search is of this code; a bug that is found now needs no explanation."""
    assert set(WHY_MISSED) <= set(MUTATIONS)
    for name, progress in WholeSwarm.of_current_code().bugs.items():
        if progress.found is not None:
            assert name not in WHY_MISSED
        elif progress.runs >= runs_of_seeds(2000):
            assert WHY_MISSED.get(name), f"{name} is not found by the whole swarm: close the hole, or say why"


@pytest.mark.nightly
def test_what_found_a_bug_on_other_code_is_tried_first(tmp_path: Path) -> None:
    names, path = ["ack-one-copy-short", "recovery-without-fence"], tmp_path / "whole_swarm.json"
    before = dict(search_whole_swarm(names, runs_max=40, seconds=120.0, processes=1, path=path))
    so_far = WholeSwarm.of_current_code(path)
    so_far.bugs[names[0]] = replace(before[names[0]], found=("calm", 100))  # too late among the runs
    so_far.fingerprint = "another"
    so_far.save(path)
    found = dict(search_whole_swarm(names, runs_max=40, seconds=120.0, processes=1, path=path))
    assert found[names[1]] == replace(before[names[1]], at_most=True, cpu_s=found[names[1]].cpu_s)
    assert found[names[0]] == replace(before[names[0]], cpu_s=found[names[0]].cpu_s)
    assert not WholeSwarm.of_current_code(path).before
