"""The garbage collector, at moments that the program decides.

Finalizers run code: tasks report exceptions that nobody took, handles close themselves. Left alone the collector
runs when enough was allocated, which depends on everything that ever ran in the interpreter.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collecting_on_request() -> Iterator[None]:
    """Inside, nothing is collected but by `gc.collect()`, which looks only at what was made inside."""
    collecting, freezing = gc.isenabled(), gc.get_freeze_count() == 0
    gc.disable()
    if freezing:
        gc.freeze()
    try:
        yield
    finally:
        if freezing:
            gc.unfreeze()
        if collecting:
            gc.enable()
