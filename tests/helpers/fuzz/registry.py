"""All targets."""

from __future__ import annotations

from tests.helpers.fuzz.target import Target
from tests.helpers.fuzz.targets import inputs, journal, log, metadata, wire

TARGETS: dict[str, Target] = {
    target.name: target for module in (wire, metadata, log, journal, inputs) for target in module.TARGETS
}
