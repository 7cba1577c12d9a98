"""Why the whole swarm does not find a planted bug within 2,000 seeds, and what finds it instead."""

from __future__ import annotations

WHY_MISSED: dict[str, str] = {
    "journal-header-not-synced": (
        "The power has to go just after a journal file got its name, which few runs meet. Crash stories cut the power "
        "at any effect, and find it (see the table of crash stories)."
    ),
}
