"""The files that this process holds open."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path


def removed_and_open(directory: Path) -> list[str]:
    """Files below `directory` that have no name any more and that this process has open: their space is in use."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            target = str(link.readlink())
            if target.startswith(f"{directory}/") and target.endswith(" (deleted)"):
                found.append(target)
    return found
