"""Removes from a failing story whatever the failure does not need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.helpers.crash.stories.booting import Boots, Finding
from tests.helpers.crash.stories.player import Player
from tests.helpers.crash.stories.story import Step, Story

_IMAGES = 3
"""Images at each effect of the last life: without its neighbours a step has other effects, so the cut is found anew."""


def find(story: Story, images: int = _IMAGES) -> Finding | None:
    """The first broken promise of the last life, whatever its cut; earlier lives end where the story says."""
    boots = Boots()
    try:
        player = Player(story, boots.boot, 1.0, from_life=len(story.lives) - 1, images=images)
        return player.play()
    finally:
        boots.close()


def with_cuts(story: Story, finding: Finding) -> Story:
    """The story up to the finding, with the effects at which its lives were cut off in it."""
    played = story.lives[: finding.life + 1]
    seen: list[int] = []

    def boot(_story: Story, _cut: object) -> None:
        return None

    player = Player(story, boot, 0.25)  # as it was found: each cut is drawn again
    player.play()
    seen = player.cuts
    lives = tuple(replace(life, cut=cut) for life, cut in zip(played, seen, strict=False))
    lives = (*lives[:-1], replace(lives[-1], cut=finding.effect, end="power"))
    return replace(story, lives=lives)


def shrink(story: Story, progress: Callable[[Story], None] = lambda _story: None) -> Story:
    """A story that still breaks a promise in its last life, and does not without any one of its steps."""
    again = True
    while again:
        again = False
        for smaller in _smaller(story):
            if find(smaller) is not None:
                story, again = smaller, True
                progress(story)
                break
    return story


def _smaller(story: Story) -> Iterator[Story]:
    """Large pieces first."""
    for number in range(len(story.lives) - 1):
        yield replace(story, lives=story.lives[:number] + story.lives[number + 1 :])
    longest = max(len(life.steps) for life in story.lives)
    piece = max(1, longest // 2)
    while piece:
        for number, life in enumerate(story.lives):
            for first in range(0, len(life.steps), piece):
                left = life.steps[:first] + life.steps[first + piece :]
                yield story.with_life(number, replace(life, steps=left))
        piece //= 2
    if story.concurrency:
        yield replace(story, concurrency=0.0)
    if story.prompt:
        yield replace(story, prompt=0.0)
    for name in story.settings:
        yield replace(story, settings={key: value for key, value in story.settings.items() if key != name})
    for number, life in enumerate(story.lives):
        for at, step in enumerate(life.steps):
            for simpler in _simpler(step):
                steps = (*life.steps[:at], simpler, *life.steps[at + 1 :])
                yield story.with_life(number, replace(life, steps=steps))


def _simpler(step: Step) -> Iterator[Step]:
    if len(step.ids) > 1:
        yield replace(step, ids=step.ids[:1])
        yield replace(step, ids=step.ids[1:])
    if step.inside:
        yield replace(step, inside=0)
