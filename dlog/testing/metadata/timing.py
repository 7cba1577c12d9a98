"""How long a simulated metadata store takes, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

from dlog.testing.kernel.notes import Span


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTiming:
    """Spans are shortest and longest, in seconds; what happens is drawn evenly between."""

    request_s: Span = (0.2e-3, 3e-3)
    """From the call to the moment that decides."""
    answer_s: Span = (0.2e-3, 3e-3)
    """From that moment to the caller."""
    watch_s: Span = (0.3e-3, 20e-3)
    """From a change to the call of a watch."""
    late_s: Span = (0.5, 15.0)
    """The same for what is late."""
    just_late_s: Span = (0.0, 10e-3)
    """The same for a request that comes when its client has heard that it is lost, and looks or tries again."""
    reconnect_s: Span = (0.05, 2.0)
    """From losing the connection to having another."""
    request_timeout_s: float = 5.0
    """A client that has heard nothing for so long gives the request up."""
    session_timeout_s: float = 10.0
    """A client that the server has not heard of for so long counts as dead."""
