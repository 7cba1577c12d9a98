"""The only module that opens, writes, syncs and renames files, and that owns threads."""

from __future__ import annotations


class Disk:
    """The real disk."""
