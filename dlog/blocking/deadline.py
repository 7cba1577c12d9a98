"""How long a blocking call may still wait."""

from __future__ import annotations

import math
import time

from ledger.arguments import require_type
from ledger.errors import ConfigurationError


class Deadline:
    """`timeout_s` seconds from now; None: no limit. `name`: what the caller calls it.

    Raises:
        ConfigurationError: `timeout_s` is not a number of 0 or more.
    """

    def __init__(self, timeout_s: float | None, name: str = "timeout_s") -> None:
        require_type(name, timeout_s, float, type(None))
        if timeout_s is not None and timeout_s < 0:
            raise ConfigurationError(
                f"{name} must be 0 or more seconds, or None for no limit, got {timeout_s}"
            )
        self.timeout_s = timeout_s
        self._at = math.inf if timeout_s is None else time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Seconds left: infinity without a limit, 0 or less once it has passed."""
        return self._at - time.monotonic()
