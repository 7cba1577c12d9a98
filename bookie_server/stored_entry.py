"""One entry as it is stored: small ones are bytes of their own, large ones views of the block they came in."""

from __future__ import annotations

from typing import TypeAlias

StoredEntry: TypeAlias = bytes | memoryview
