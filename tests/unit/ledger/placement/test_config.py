"""Settings of placement, and what of them a policy has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger.core.spread import Spread
from ledger.errors import ConfigurationError
from ledger.model import NETWORK_LOCATION, BookieId, BookieInfo
from ledger.placement.config import PlacementConfig
from ledger.placement.placement import Placement

B1, B2 = BookieId("b1"), BookieId("b2")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"racks_min": 0}, "racks_min must be 1 to 255, got 0"),
        ({"zones_min": 256}, "zones_min must be 1 to 255, got 256"),
        ({"racks_min": "2"}, "racks_min of PlacementConfig must be a whole number"),
        ({"enforce": 1}, "enforce of PlacementConfig must be True or False"),
        ({"free_space_multiple_max": 0.5}, "must be 0, or at least 1 and finite, got 0.5"),
        ({"free_space_multiple_max": -3}, "must be 0, or at least 1"),
        ({"free_space_interval_s": 0}, "free_space_interval_s must be positive"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        PlacementConfig(**settings)
    assert says in str(caught.value)


def test_a_policy_has_the_settings_and_what_is_known(tmp_path: Path) -> None:
    (tmp_path / "racks").write_text("b2 /r2\n")
    placement = Placement(
        PlacementConfig(
            racks_min=3,
            zones_min=2,
            enforce=True,
            mapping_file=str(tmp_path / "racks"),
            free_space_multiple_max=3,
        )
    )
    placement.load()
    info = BookieInfo(bookie_id=B1, host="h", port=1, properties=((NETWORK_LOCATION, "/r1"),))
    policy = placement.policy([info], {B1: 7})
    assert (policy.spread, policy.enforce, policy.multiple_max) == (Spread(3, 2), True, 3)
    assert policy.locations == {B1: ("r1",), B2: ("r2",)}
    assert policy.free_bytes == {B1: 7}


def test_free_space_that_is_known_counts_only_if_the_settings_weigh_it() -> None:
    assert Placement(PlacementConfig()).policy([], {B1: 7}).free_bytes == {}
