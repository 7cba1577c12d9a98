"""Every class of the error tree, wherever it is defined."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

from ledger.errors import LogStoreError

HOMES = ("ledger.errors", "dlog.errors", "bookie_server.errors")
ELSEWHERE = (
    "spark_connector.errors",
    "dlog.demo.child",
    "dlog.local.directory_lock",
    "ledger.metadata.errors",
    "ledger.repair.errors",
)
"""Modules outside HOMES that define errors."""
PACKAGES = ("ledger", "dlog", "bookie_server", "spark_connector")


def error_tree() -> list[type[LogStoreError]]:
    """The classes of these packages, by name."""
    for module in (*HOMES, *ELSEWHERE):
        importlib.import_module(module)
    found = {each for each in _below(LogStoreError) if each.__module__.split(".")[0] in PACKAGES}
    return sorted(found, key=lambda each: each.__name__)


def _below(root: type[LogStoreError]) -> Iterator[type[LogStoreError]]:
    yield root
    for child in root.__subclasses__():
        yield from _below(child)
