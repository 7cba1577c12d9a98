"""Crash windows of the log, one by one: whoever acts is struck at every callback and every request to the store.

Source: docs/log-semantics.md#crash-windows.
By default at some of them only; `python -m tests.helpers.interruptions` strikes at all.
"""

from __future__ import annotations

import pytest

from tests.helpers.interruptions.runner import REQUESTS, blows, play_all
from tests.helpers.interruptions.scenarios import SCENES

_EACH = [(name, blow) for name, scene in SCENES.items() for blow in blows(scene)]
_STEP = 23
"""Prime, so that the places differ from scene to scene."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "blow"), _EACH)
def test_nothing_is_lost_wherever_it_is_struck(name: str, blow: str) -> None:
    if blow in REQUESTS:
        assert play_all(SCENES[name], blow, first=1 + len(name) % 3, step=3) >= 3
    else:
        assert play_all(SCENES[name], blow, first=1 + len(name) % _STEP, step=_STEP) >= 1
