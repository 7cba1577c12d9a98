"""A run in a file: a seed, what its plan has besides, and the description of what it once found.

seed = 40
drawn = false      # the plan is all there is; true, the default: it replaces fields of what the seed draws
description = "..."

[plan]
bookies = 3
actions = [ {at_s = 3.2, kind = "kill_bookie", who = "bookie-1", for_s = 2.0} ]
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dlog.testing.swarm.actions import Action
from dlog.testing.swarm.drawing import make_plan
from dlog.testing.swarm.plan import Plan


@dataclass(frozen=True, slots=True)
class SavedRun:
    """One such file."""

    description: str
    plan: Plan


def read_saved_run(text: str) -> SavedRun:
    """ValueError, TypeError: it is not such a file."""
    whole = tomllib.loads(text)
    seed, profile = int(whole["seed"]), whole.get("profile", "chaos")
    given = {name: _value(name, value) for name, value in whole.get("plan", {}).items()}
    if not whole.get("drawn", True):
        return SavedRun(whole.get("description", ""), Plan(seed=seed, profile=profile, **given))
    return SavedRun(whole.get("description", ""), make_plan(seed, profile, given))


def saved_run_text(plan: Plan, description: str) -> str:
    """The file of a plan whose every field counts."""
    changed = plan.changed()
    profile = changed.pop("profile", None)
    actions = changed.pop("actions", None)
    lines = [f"seed = {plan.seed}", "drawn = false"]
    if profile is not None:
        lines.append(f"profile = {_text(profile)}")
    lines += [
        'description = """',
        description.strip().replace("\\", "\\\\").replace('"""', "'''"),
        '"""',
        "",
        "[plan]",
    ]
    lines += [f"{name} = {_text(value)}" for name, value in changed.items()]
    if actions is not None:
        lines += ["actions = [", *(f"    {_table(each)}," for each in actions), "]"]
    return "\n".join(lines) + "\n"


def _value(name: str, value: Any) -> Any:
    if name == "actions":
        return tuple(Action(**each) for each in value)
    return tuple(value) if isinstance(value, list) else value


def _table(action: Action) -> str:
    return "{" + ", ".join(f"{name} = {_text(value)}" for name, value in _fields(action)) + "}"


def _fields(action: Action) -> Iterable[tuple[str, Any]]:
    return action.changed().items()


def _text(value: Any) -> str:
    """As JSON, which is TOML for what a plan holds: numbers, truth, strings, lists of strings."""
    return json.dumps(list(value) if isinstance(value, tuple) else value)
