"""Chance, split by purpose: every part of a simulation draws from a stream of its own.

So a new kind of fault, or one more draw in the network, does not shift what the disk or the workload draws.
"""

from __future__ import annotations

import hashlib
from random import Random


class Seeds:
    """All randomness of one run, derived from one number, the same on every machine and under any hash seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, Random] = {}

    def stream(self, purpose: str) -> Random:
        """The stream of this purpose; the same object each time it is asked for."""
        stream = self._streams.get(purpose)
        if stream is None:
            digest = hashlib.sha256(f"{self.seed}/{purpose}".encode()).digest()
            stream = self._streams[purpose] = Random(int.from_bytes(digest, "big"))
        return stream
