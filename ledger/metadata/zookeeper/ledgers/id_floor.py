"""From where ledger ids go on after a cluster was removed, so that none is ever given out twice at one root.

    /ledgers-ids   decimal digits: the high bits under which the next cluster here counts its ids

The counters go with the root, as BookKeeper's tools expect of a removed cluster. What is left beside it is the
first number of high bits that no id has had. A writer that slept through the removal, or a disk that comes back,
therefore never meets its ledgers' ids in the next cluster. BookKeeper's own `initnewcluster` does not know of
this and counts from 0 again.

Pitfall: docs/pitfalls.md#ledger-id-given-out-twice.
"""

from __future__ import annotations

from kazoo.exceptions import NodeExistsError, NoNodeError

from ledger.digits import whole_number
from ledger.errors import ConfigurationError, MetadataFormatError
from ledger.metadata.format.layout import LayoutType
from ledger.metadata.zookeeper.paths import Paths, high_bits_of
from ledger.metadata.zookeeper.session.session import ZooKeeperSession

HIGH_BITS_MAX = 2**31 - 1
WITH_LONG_IDS = (LayoutType.HIERARCHICAL, LayoutType.LONG_HIERARCHICAL)


class IdFloor:
    def __init__(self, session: ZooKeeperSession, paths: Paths) -> None:
        self._session = session
        self._paths = paths

    async def counters(self, layout: LayoutType) -> list[str]:
        """Nodes to make with a new cluster. ConfigurationError for a layout that has no ids left."""
        floor = await self._read()
        if floor == 0:
            return []
        if layout not in WITH_LONG_IDS:
            raise ConfigurationError(
                f"a removed cluster at {self._paths.root} has used ids that the {layout.value} layout cannot go "
                "beyond: use zk+hierarchical, or another path"
            )
        wanted = [self._paths.long_ids, self._paths.high_bits(floor)]
        return [path for path in wanted if await self._session.exists(path) is None]

    async def raise_above_all(self) -> None:
        """Leave the first high bits that no id has had so far, before the counters are removed."""
        used = await self._used()
        if used is None or used < await self._read():
            return
        value = str(used + 1).encode()
        try:
            await self._session.create(self._paths.id_floor, value)
        except NodeExistsError:
            await self._session.set(self._paths.id_floor, value)

    async def _used(self) -> int | None:
        """The greatest high bits in use, 0 for short ids only, None if no id was ever drawn."""
        try:
            names = await self._session.children(self._paths.long_ids)
        except NoNodeError:
            short = self._paths.short_ids(LayoutType.HIERARCHICAL)
            return None if await self._session.exists(short) is None else 0
        return max((high for high in map(high_bits_of, names) if high is not None), default=0)

    async def _read(self) -> int:
        """0 if no cluster was removed here."""
        try:
            text = bytes((await self._session.get_fresh(self._paths.id_floor))[0])
        except NoNodeError:
            return 0
        floor = whole_number(text, HIGH_BITS_MAX + 1)
        if floor is None:
            raise MetadataFormatError(
                f"{self._paths.id_floor} holds {text[:20]!r}, not a number: restore it, or use another path",
                key=self._paths.id_floor,
            )
        return floor
