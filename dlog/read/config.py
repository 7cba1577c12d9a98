"""Settings of a reader."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ledger.arguments import require_fields
from ledger.errors import ConfigurationError
from ledger.field_docs import with_field_docs


@with_field_docs
@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderConfig:
    """Settings of a reader. Sizes are in bytes, times in seconds.

    Raises:
        ConfigurationError: a value has the wrong type or is out of its range.
    """

    read_ahead_bytes: int = 8 * 1024 * 1024
    """Bytes of encoded entries fetched and not yet returned: several fetches, so that decoding never waits."""

    fetch_bytes: int = 1024 * 1024
    """Bytes of one batch read: enough to amortise its cost, few enough to arrive within milliseconds."""

    fetch_entries_max: int = 5_000
    """Maximum number of entries in one batch read, however small they are."""

    first_poll_s: float = 0.1
    """First interval of the slow poll after catching up. Doubles up to `slow_poll_s` while nothing arrives."""

    slow_poll_s: float = 5.0
    """Fallback for long polls and watches, which may be late or lost (docs/log-semantics.md#rule-27).

    All readers of a client together make at most four of these polls a second, so each of many polls more rarely.
    """

    unavailable_timeout_s: float = 20.0
    """A reader that could not continue for this long raises the reason. Longer than a restart of a bookie.

    It raises later if its first attempt still hangs then: one on ZooKeeper takes up to twice the `request_timeout_ms`
    of the address. The next call of the reader waits anew. A reader without `until` that has read before does not
    raise: it waits, and `waits_for` gives the reason. The limit also holds for opening a reader, which needs bookies if
    the tail, a time or the last messages are to be found.
    """

    def __post_init__(self) -> None:
        require_fields(self)
        if min(self.read_ahead_bytes, self.fetch_bytes, self.fetch_entries_max) < 1:
            raise ConfigurationError(
                f"read_ahead_bytes, fetch_bytes and fetch_entries_max must each be at least 1, got "
                f"{self.read_ahead_bytes}, {self.fetch_bytes} and {self.fetch_entries_max}"
            )
        if not 0 < self.first_poll_s <= self.slow_poll_s < math.inf or not self.unavailable_timeout_s >= 0:
            raise ConfigurationError(
                f"need 0 < first_poll_s <= slow_poll_s, finite, and unavailable_timeout_s >= 0, got "
                f"{self.first_poll_s}, {self.slow_poll_s} and {self.unavailable_timeout_s}"
            )
