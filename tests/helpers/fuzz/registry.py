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
    pages,
    sqlite_file,
    wire,
)

_MODULES = (wire, metadata, log, journal, entry_logs, inputs, clients, bookie, pages, sqlite_file)
TARGETS: dict[str, Target] = {target.name: target for module in _MODULES for target in module.TARGETS}
MODULES = {target.name: module.__name__ for module in _MODULES for target in module.TARGETS}
"""The module of each target."""
