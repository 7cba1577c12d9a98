"""Random stories of a bookie's storage with power cuts anywhere; `python -m tests.helpers.crash.stories` plays more."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.helpers.crash.stories.generator import draw_story
from tests.helpers.crash.stories.planted_bugs import STORAGE_BUGS
from tests.helpers.crash.stories.running import boot_stories, boot_story
from tests.helpers.crash.stories.search import load
from tests.helpers.crash.stories.shrinking import find, shrink
from tests.helpers.crash.stories.story import ANSWERED, Life, Step, Story, read_story, write_story
from tests.helpers.mutations.planting import planted

KEPT = [
    path
    for path in sorted((Path(__file__).parent / "kept").glob("*.toml"))
    if "lives" in tomllib.loads(path.read_text("utf-8"))
]
QUICKLY_FOUND = (
    "journal-not-synced",
    "log-mark-before-the-data",
    "entry-log-synced-after-the-index",
    "fence-answered-before-its-record",
    "ledger-changed-during-a-checkpoint-forgotten",
)


def test_whatever_a_power_cut_leaves_of_a_story_boots_with_all_that_was_promised() -> None:
    booted = boot_stories(range(1, 9))
    assert [(seed, finding.text) for seed, finding in booted.findings] == []
    assert booted.images.total() > 300


def test_a_seed_is_the_same_story_with_the_same_boots() -> None:
    assert draw_story(4) == draw_story(4)
    assert boot_story(draw_story(4)).images == boot_story(draw_story(4)).images


@pytest.mark.parametrize("name", STORAGE_BUGS)
def test_every_bug_can_still_be_planted(name: str) -> None:
    """Code that has moved away from under a bug would leave its check without proof."""
    with planted(STORAGE_BUGS[name].edits):
        pass


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.nightly if place % 2 else ())
        for place, name in enumerate(QUICKLY_FOUND)
    ],
)
def test_a_planted_bug_is_found(name: str) -> None:
    """By the seed that the search has found, or one close to it: an edit elsewhere gives a seed other images."""
    first: int = load()[name]["seed"]
    with planted(STORAGE_BUGS[name].edits):
        assert any(boot_story(draw_story(seed)).findings for seed in range(first, first + 20))


@pytest.mark.nightly
def test_a_story_that_fails_shrinks_to_what_it_needs_and_is_kept_as_text() -> None:
    needless = [Step(do=do, ledger=1, ids=(0, 1, 2), wait_s=ANSWERED) for do in ("add", "force")]
    long = Story(
        seed=1, lives=(Life(steps=(*needless, Step(do="fence", ledger=2, wait_s=ANSWERED), *needless)),)
    )
    with planted(STORAGE_BUGS["fence-not-replayed"].edits):
        story = shrink(long)
        assert [step.do for step in story.lives[0].steps] == ["fence"]
        again = read_story(write_story(story, "what it taught"))
        assert again == story
        assert find(again) is not None
    assert find(again) is None


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_story_that_once_failed(path: Path) -> None:
    found = find(read_story(path.read_text("utf-8")))
    assert found is None, (
        f"{found.text}\n  python -m tests.helpers.crash.stories --kept tests/crash/kept/{path.name}"
    )
