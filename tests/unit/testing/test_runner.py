"""`python -m dlog.testing`: what it does not understand is refused before a run begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlog.testing.runner import _FAULTS, main
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.plan import PROFILES


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param("--seeds 5..1", "'5..1' has no seeds", id="no seed, which would count as passed"),
        pytest.param("--seeds some", "'some' has no seeds", id="no range"),
        pytest.param("--seeds 1..2 -j 0", "'0' is no number of processes", id="no process"),
        pytest.param("--seeds 1..2 -j 2 --set nope=1", "no field 'nope'", id="no field, in processes"),
        pytest.param("--seed 1 --set faults=cut,kil", "no fault is named 'kil'", id="no fault"),
        pytest.param("--seed 1 --set writers=two", "writers takes a number, got 'two'", id="no number"),
        pytest.param("--kept missing.toml", "missing.toml is not the file of a run", id="no file"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    assert ended.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_file_that_is_no_saved_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("", "no toml", "seed = 1\n[plan]\nnope = 2\n"):
        (tmp_path / "run.toml").write_text(text)
        with pytest.raises(SystemExit):
            main(["--kept", str(tmp_path / "run.toml")])
        assert "run.toml is not the file of a run" in capsys.readouterr().err


def test_every_fault_that_a_seed_draws_can_be_named() -> None:
    drawn = {
        kind for profile in PROFILES for seed in range(300) for kind in make_plan(seed, profile, {}).faults
    }
    assert drawn <= _FAULTS
