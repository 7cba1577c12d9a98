"""All targets."""

from __future__ import annotations

from tests.helpers.fuzz.target import Target
from tests.helpers.fuzz.targets import entry_logs, inputs, journal, log, metadata, wire

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (wire, metadata, log, journal, entry_logs, inputs)
    for target in module.TARGETS
}
