"""Events that a process of the demo reports: one JSON object per line on its standard output."""

from __future__ import annotations

import json
import sys
from typing import Any


def tell(event: str, **facts: Any) -> None:
    """Write one event and flush."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


def parse(line: bytes) -> dict[str, Any]:
    """The event in a line."""
    found: dict[str, Any] = json.loads(line)
    return found
