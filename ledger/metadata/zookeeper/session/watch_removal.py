"""ZooKeeper's removeWatches, which kazoo does not have: the watch of this connection on a node ends. Bytes only.

    request   path, 2: of the node, not of its children
    response  nothing; error -121 if there is no such watch, as after its event

Source: RemoveWatchesRequest of ZooKeeper, whose servers know the request from version 3.5 on.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import ClassVar

_INT = Struct("!i")
_OF_NODE = 2


@dataclass(frozen=True, slots=True)
class WatchRemoval:
    """A request as kazoo takes them."""

    path: str
    type: ClassVar[int] = 18

    def serialize(self) -> bytes:
        encoded = self.path.encode()
        return b"".join((_INT.pack(len(encoded)), encoded, _INT.pack(_OF_NODE)))

    def deserialize(self, response: bytes, offset: int) -> bool:
        return True
