"""Large blocks go back to the system when they are freed.

glibc maps a block of its own for what is larger than a threshold, and raises the threshold to the largest such block
that was freed. After the first large add, buffers of that size lie in the heap, and what is freed below a block still
in use stays with the process. A threshold that was set once does not rise; what the top of the heap may keep must be
set with it, or each freed buffer is given back and fetched again (mallopt(3)).
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGE_BYTES = 2 * 1024 * 1024
"""Above what is gathered for one write or one read of a socket."""
_TOP_BYTES = 16 * 1024 * 1024


def return_large_blocks() -> None:
    """For the rest of the process. Does nothing where the C library has no such settings."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # musl, macOS
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    mallopt(_M_TRIM_THRESHOLD, _TOP_BYTES)
