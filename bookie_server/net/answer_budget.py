"""Memory of the responses that peers have not read, of all connections together. Pure.

A running read counts as a response of a frame's size until it ends. There are three limits, so that no client waits for
peers that read nothing: a peer with unread responses, or with a running read, may use the first; any other peer the
second; fencing and priority reads of such a peer, with which a takeover begins, the third.
"""

from __future__ import annotations

from bookie_server.config import Limits

LIGHT_BYTES = 256 * 1024
"""A peer with no more than this to take counts as one that takes its answers."""


class AnswerBudget:
    def __init__(self, limits: Limits) -> None:
        self.unsent_bytes = 0
        """Answers made and not taken."""
        self.running_reads = 0
        self.refused = False
        """Whether a read has been refused a place since this was last set to False."""
        self._frame_bytes = limits.frame_bytes_max
        self._common = limits.unsent_bytes_max
        self._light = self._common + limits.unsent_reserve_bytes // 2
        self._urgent = self._common + limits.unsent_reserve_bytes

    def has_place(self, own_bytes: int, own_reads: int, *, urgent: bool) -> bool:
        """Whether a peer with this many unread bytes and running reads may have one more response."""
        held = self.unsent_bytes + self.running_reads * self._frame_bytes
        if held < self._common:
            return True
        if own_bytes <= LIGHT_BYTES and not own_reads and held < (self._urgent if urgent else self._light):
            return True
        self.refused = True
        return False
