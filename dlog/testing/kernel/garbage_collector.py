"""The garbage collector, at moments that the program decides.

Finalizers run code: tasks report unread exceptions, handles close themselves. Left alone the collector
runs when enough was allocated, which depends on everything that ever ran in the interpreter.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_frozen = False
"""By us, further out. The interpreter's own count does not tell: Python 3.12 starts with some objects frozen."""


@contextmanager
def collecting_on_request() -> Iterator[None]:
    """Inside, nothing is collected but by `gc.collect()`, which looks only at what was made inside."""
    global _frozen
    collecting, freezing = gc.isenabled(), not _frozen
    gc.disable()
    if freezing:
        gc.freeze()
        _frozen = True
    try:
        yield
    finally:
        if freezing:
            gc.unfreeze()
            _frozen = False
        if collecting:
            gc.enable()
