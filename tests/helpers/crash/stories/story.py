"""What a story is: settings and lives of one bookie, each a list of steps and an end. Written to and read from TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from bookie_server.storage.config import StorageConfig
from dlog.testing.disk.timing import DiskTiming
from tests.helpers.bookie.storage import small_config

HOME = Path("/bookie")
ANSWERED = -1.0
"""As `wait_s`: until every request so far has an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One thing that happens to the storage.

    Kinds: add, fence, lac, delete, force, checkpoint, collect, compact, rebuild, check, fill, space, fault,
    fill_directory.
    """

    do: str
    ledger: int = 0
    ids: tuple[int, ...] = ()
    """Entries of an add."""
    size: int = 20
    """Bytes of each payload, or of the packet of an explicit LAC."""
    other: int = 0
    """Not 0: another payload than other writers give the same entries."""
    lac: int | None = None
    """In the header of each entry, or the explicit LAC. None: the id before."""
    kind: str = ""
    """Of a disk fault."""
    part: str = ""
    """In the path of the file that it affects; of `fill_directory`: which, alone, has no space left."""
    number: int = 0
    """Which operation it affects, from 1; of `fill`: bytes that are left."""
    wait_s: float = 0.0
    """Virtual time before the next step."""
    inside: int = 0
    """Not 0: the next step does not wait for this one, which happens on the loop while a disk worker is in the middle
    of a job, at this number of effects from now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One process of the bookie."""

    steps: tuple[Step, ...]
    end: str = "power"
    """power: cut at an effect, kill: the process dies, stop: it stops in order."""
    cut: int = 0
    """At which of its effects the power goes; 0: at one of those whose images are booted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    seed: int
    """Of everything that is drawn while it is played: images, times, what runs between two effects."""
    lives: tuple[Life, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    prompt: float = 0.0
    sync_s_max: float = 2e-3
    more_directories: int = 0
    """Ledger directories next to the one with the index, `more-0` and so on."""
    concurrency: float = 0.0
    """Probability, at each effect within a worker's job, that another worker's waiting job runs before it."""

    @property
    def config(self) -> StorageConfig:
        more = tuple(HOME / f"more-{number}" for number in range(self.more_directories))
        return small_config(HOME, **SETTINGS | dict(self.settings), more_ledger_directories=more)

    @property
    def timing(self) -> DiskTiming:
        return DiskTiming(prompt=self.prompt, sync_s=(50e-6, self.sync_s_max))

    @property
    def step_count(self) -> int:
        return sum(len(life.steps) for life in self.lives)

    def with_life(self, number: int, life: Life) -> Story:
        return replace(self, lives=(*self.lives[:number], life, *self.lives[number + 1 :]))


SETTINGS: dict[str, Any] = {
    "journal_segment_bytes": 64 * 1024,
    "entry_log_bytes_max": 64 * 1024,
    "write_cache_bytes_max": 1024 * 1024,
    "reserve_bytes": 0,
}


# ---- TOML


def write_story(story: Story, description: str) -> str:
    lines = ['description = """', description.strip(), '"""']
    lines += [
        f"{name} = {_value(value)}" for name, value in _changed(story) if name not in ("lives", "settings")
    ]
    lines += ["", "[settings]", *(f"{name} = {_value(value)}" for name, value in story.settings.items())]
    for life in story.lives:
        lines += ["", "[[lives]]", f'end = "{life.end}"', f"cut = {life.cut}", "steps = ["]
        for step in life.steps:
            inner = ", ".join(f"{name} = {_value(value)}" for name, value in _changed(step))
            lines.append(f"    {{{inner}}},")
        lines.append("]")
    return "\n".join(lines) + "\n"


def read_story(text: str) -> Story:
    found = tomllib.loads(text)
    lives = tuple(
        Life(steps=tuple(_step(each) for each in life["steps"]), end=life["end"], cut=life["cut"])
        for life in found["lives"]
    )
    rest = {name: value for name, value in found.items() if name not in ("description", "lives")}
    return Story(lives=lives, **rest)


def _step(found: dict[str, Any]) -> Step:
    return Step(**found | {"ids": tuple(found.get("ids", ()))})


def _changed(value: Story | Step) -> list[tuple[str, Any]]:
    """Names and values of what is not the default."""
    return [
        (each.name, getattr(value, each.name))
        for each in fields(value)
        if getattr(value, each.name) != each.default
    ]


def _value(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)
