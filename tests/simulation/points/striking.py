"""A loop that stops at the n-th turn of one process, and does something to it there.

Between two turns is every place at which kill -9, SIGSTOP or a power cut can meet a process of one thread: nothing
it does is seen by anybody before its turn is over.
"""

from __future__ import annotations

from collections.abc import Callable

from dlog.testing.loop import Limits, SimulatedLoop
from dlog.testing.nodes import Node
from dlog.testing.seeds import Seeds


class StrikingLoop(SimulatedLoop):
    """Counts turns from `watch` on."""

    def __init__(self, seeds: Seeds, at: int) -> None:
        super().__init__(seeds, Limits(steps_max=1_000_000, virtual_s_max=5000.0))
        self.at = at
        self._turns = 0
        self._name = ""
        self._strike: Callable[[], None] = _nothing
        self.struck = False

    def watch(self, name: str, strike: Callable[[], None]) -> None:
        """Call `strike` before the turn, counted from one."""
        self._name, self._strike = name, strike

    def unwatch(self) -> None:
        """It has done what it was to be struck at."""
        self._name = ""

    def _take_turn(self, node: Node, chance: float) -> bool:
        if node.name == self._name:
            self._turns += 1
            if self._turns == self.at:
                self.struck = True
                self._strike()
                if node.stopped:
                    node.turn_due = False
                    return False
        return super()._take_turn(node, chance)


def _nothing() -> None:
    pass
