"""Values that Apache BookKeeper 4.18.0 stored (tests/vectors/metadata.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parents[2] / "vectors" / "metadata.json"
ROOT = "/ledgers"


def load() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(_FILE.read_text())
    return loaded


def nodes() -> list[tuple[str, bytes, dict[str, Any]]]:
    """(path below the root, value, the whole entry) of every node whose value is known."""
    return [
        (node["path"].removeprefix(ROOT), bytes.fromhex(node["value_hex"]), node)
        for node in load()["znodes"]
        if "value_hex" in node
    ]
