"""The policy of one client: its settings with what is known of the bookies now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ledger.core.placement import PlacementPolicy
from ledger.core.spread import Spread
from ledger.model import BookieId, BookieInfo, Location
from ledger.placement.config import PlacementConfig
from ledger.placement.mapping_file import location_of, read_mapping


class Placement:
    """`load` it before use."""

    def __init__(self, config: PlacementConfig) -> None:
        self._config = config
        self._mapping: Mapping[str, Location] = {}

    def load(self) -> None:
        """Read the mapping file, if there is one.

        Raises:
            ConfigurationError: it cannot be read, or makes no sense.
        """
        if self._config.mapping_file:
            self._mapping = read_mapping(Path(self._config.mapping_file))

    def policy(self, bookies: Iterable[BookieInfo], free_bytes: Mapping[BookieId, int]) -> PlacementPolicy:
        """The policy for these bookies, and for those that the file names by their ids."""
        config = self._config
        locations = {BookieId(key): location for key, location in self._mapping.items()}
        for info in bookies:
            if location := location_of(info, self._mapping):
                locations[info.bookie_id] = location
        return PlacementPolicy(
            spread=Spread(config.racks_min, config.zones_min),
            enforce=config.enforce,
            locations=locations,
            free_bytes=free_bytes if config.free_space_multiple_max else {},
            multiple_max=config.free_space_multiple_max or 1.0,
        )
