"""All targets."""

from __future__ import annotations

from tests.helpers.fuzz.target import Target
from tests.helpers.fuzz.targets import (
    bookie,
    clients,
    entry_logs,
    inputs,
    journal,
    log,
    metadata,
    sqlite_file,
    wire,
)

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (wire, metadata, log, journal, entry_logs, inputs, clients, bookie, sqlite_file)
    for target in module.TARGETS
}
