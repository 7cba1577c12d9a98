"""The machine as a simulated process sees it: clocks that disagree, seeded chance and identity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlog.testing.kernel.nodes import Node
from dlog.testing.kernel.seeds import Seeds

if TYPE_CHECKING:
    from dlog.testing.kernel.loop import SimulatedLoop


class SimulatedEnvironment:
    """A ledger.environment.Environment for one node, the same in every run of a seed.

    Clocks belong to the host, so that a later incarnation sees them with whatever jumped. Chance, tokens and the
    process id belong to the incarnation.
    """

    def __init__(self, seeds: Seeds, loop: SimulatedLoop, node: Node) -> None:
        self.rng = seeds.stream(f"chance {node.label}")
        self._loop = loop
        self._node = node
        self._identity = seeds.stream(f"identity {node.label}")
        self._process_id = self._identity.randint(300, 4_000_000)

    def wall_us(self) -> int:
        return self._node.clock.wall_us(self._loop.now)

    def boot_s(self) -> float:
        return self._node.clock.up_s(self._loop.now)

    def token(self) -> int:
        return self._identity.getrandbits(63)

    def new_uuid(self) -> str:
        bits = self._identity.getrandbits(128)
        bits = bits & ~(0xF << 76) | 4 << 76  # version 4
        bits = bits & ~(0x3 << 62) | 2 << 62  # the variant of RFC 9562
        text = f"{bits:032x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def host_name(self) -> str:
        return self._node.name

    def process_id(self) -> int:
        return self._process_id

    def jump_wall_clock(self, by_s: float) -> None:
        """A fault: the clock of this host is set. Monotonic time is not touched."""
        self._node.clock.jump(by_s)
        self._loop.trace.note("fault.clock_jump", self._node.label, f"by {by_s:+.3f} s")
