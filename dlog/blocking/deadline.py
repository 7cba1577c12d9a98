"""How long a blocking call may still wait."""

from __future__ import annotations

import math
import time

from ledger.arguments import require_type


class Deadline:
    """`timeout_s` seconds from now; None: no limit.

    Raises:
        ConfigurationError: `timeout_s` is not a number.
    """

    def __init__(self, timeout_s: float | None) -> None:
        require_type("timeout_s", timeout_s, float, type(None))
        self.timeout_s = timeout_s
        self._at = math.inf if timeout_s is None else time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Seconds left: infinity without a limit, 0 or less once it has passed."""
        return self._at - time.monotonic()
