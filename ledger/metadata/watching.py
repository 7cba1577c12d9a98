"""Watches, as every part of a metadata driver offers them."""

from __future__ import annotations

from collections.abc import Callable

Watch = Callable[[], None]
"""Called on the event loop when the watched thing may have changed; the watcher re-reads."""

Unwatch = Callable[[], None]
