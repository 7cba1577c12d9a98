"""C17 for each append: it ends within the writer's limit, whatever is broken and for however long.

That everything ends after healing says nothing of this: an append may wait for all of the chaos and then succeed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dlog.testing.checks.history import Append, Outcome

_MARGIN_S = 5.0
"""For what a deposed writer may still wait (`late_success_s`), and for looks that are a second apart."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A process that was stopped: it could not give anything up."""

    who: str
    at: float
    for_s: float


def c17_appends_end_in_time(
    appends: Iterable[Append], limit_s: float, pauses: Iterable[Pause]
) -> Iterator[str]:
    """`limit_s` twice: a caller waits for the buffer first, which is emptied when the oldest append is given up.

    After a pause the limit counts anew. A writer's handle is named after its process, with the number of its start.
    """
    known = list(pauses)
    for append in appends:
        if append.returned == math.inf or append.outcome is Outcome.CANCELLED:
            continue  # its process died, or its caller went away
        process = append.writer.partition(".")[0].partition("#")[0]
        stopped = [
            pause
            for pause in known
            if pause.who == process and pause.at < append.returned and append.invoked < pause.at + pause.for_s
        ]
        allowed_s = limit_s * (2 + len(stopped)) + sum(pause.for_s for pause in stopped) + _MARGIN_S
        waited_s = append.returned - append.invoked
        if waited_s > allowed_s:
            yield (
                f"append {append.number} of {append.writer} waited {waited_s:.1f} s until {append.outcome.value}, "
                f"its limit is {limit_s:g} s"
            )
