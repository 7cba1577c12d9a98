"""Files that are named after their number: sixteen hexadecimal digits and a suffix."""

from __future__ import annotations

import re
from pathlib import Path

from bookie_server.disk.disk import Disk


def numbers_of(disk: Disk, directory: Path, suffix: str) -> list[int]:
    """The numbers of all such files in the directory, ascending.

    A file with another name is not ours, so nothing depends on it and nothing removes it: a copy that somebody put
    aside, for example.
    """
    name = re.compile(f"([0-9a-f]{{16}}){re.escape(suffix)}")
    found = (name.fullmatch(each) for each in disk.list(directory))
    return sorted(int(each[1], 16) for each in found if each is not None)
