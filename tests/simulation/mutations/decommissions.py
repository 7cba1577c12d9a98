"""Bugs of a decommission: a bookie is thrown away on which something still depends."""

from __future__ import annotations

from tests.helpers.mutations.mutation import Mutation, focused
from tests.helpers.mutations.planting import edit

_FIVE = {"bookies": 5, "ensemble": 3, "write": 3, "ack": 2, "operators": 2, "chaos_s": 12.0}

MUTATIONS = (
    Mutation(
        "bookie-is-decommissioned-with-ledgers-that-are-left",
        "A bookie loses its cookie only once no ledger depends on it.",
        (
            edit(
                "ledger.repair.draining:Draining._pass",
                ("if not outcome.complete:", "if False:"),
            ),
            edit(
                "ledger.repair.draining:Draining.recover",
                ("ledger_ids = await self._dependent()\n", "ledger_ids = []\n"),
            ),
        ),
        plan=focused("kill_bookie", "refuse", **_FIVE),
    ),
    Mutation(
        "open-ledger-is-left-to-a-decommissioned-bookie",
        "A ledger whose open fragment names the bookie is recovered first, and repaired then.",
        (
            edit(
                "ledger.repair.draining:Draining._dependent",
                (
                    "if self._bookie_id in metadata.members()",
                    "if metadata.closed and self._bookie_id in metadata.members()",
                ),
            ),
        ),
        plan=focused(**_FIVE),
    ),
)
