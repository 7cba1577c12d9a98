"""All targets."""

from __future__ import annotations

from tests.helpers.fuzz.target import Target
from tests.helpers.fuzz.targets import wire

TARGETS: dict[str, Target] = {target.name: target for module in (wire,) for target in module.TARGETS}
