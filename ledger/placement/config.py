"""Settings of the choice of bookies, built once by the application and passed down."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ledger.arguments import require_fields
from ledger.errors import ConfigurationError
from ledger.field_docs import with_field_docs


@with_field_docs
@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementConfig:
    """Which bookies a ledger gets, and which ones replace others. Writers and repair should have the same settings.

    Raises:
        ConfigurationError: a value has the wrong type or is out of its range.
    """

    racks_min: int = 2
    """Racks that each write quorum spans, if there are that many (Apache's minNumRacksPerWriteQuorum).

    Counts where bookies publish a location (`bookie start --network-location`) or `mapping_file` has it. Elsewhere
    bookies are chosen at random.
    """

    zones_min: int = 1
    """Zones that each write quorum spans, if there are that many: the first name of a location such as /zone/rack."""

    enforce: bool = False
    """Whether a ledger is refused that would span less (Apache's enforceMinNumRacksPerWriteQuorum).

    Bookies without a location are then not chosen. Recovery of a ledger does not enforce it.
    """

    mapping_file: str = ""
    """File with locations of bookies, which overrides what they publish. A line: bookie id or host name, location."""

    free_space_multiple_max: float = 0.0
    """Bookies are chosen in proportion to free space, up to this multiple of the median; 0: free space does not count.

    Apache's diskWeightBasedPlacementEnabled, with bookieMaxMultipleForWeightBasedPlacement, which is 3.
    """

    free_space_interval_s: float = 300.0
    """How often bookies are asked for their free space."""

    def __post_init__(self) -> None:
        require_fields(self)
        for name in ("racks_min", "zones_min"):
            if not 1 <= getattr(self, name) <= 255:
                raise ConfigurationError(f"{name} must be 1 to 255, got {getattr(self, name)}")
        if self.free_space_multiple_max != 0 and not 1 <= self.free_space_multiple_max < math.inf:
            raise ConfigurationError(
                f"free_space_multiple_max must be 0, or at least 1 and finite, got {self.free_space_multiple_max}"
            )
        if not 0 < self.free_space_interval_s < math.inf:
            raise ConfigurationError(
                f"free_space_interval_s must be positive and finite, got {self.free_space_interval_s}"
            )
