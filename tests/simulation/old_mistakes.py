"""The mistakes of which kept seeds tell, as they once were in the code: planted again, their runs fail again."""

from __future__ import annotations

from tests.simulation.mutations.planting import Edit, edit

OLD_MISTAKES: dict[str, tuple[Edit, ...]] = {
    "overtaken-look": (
        edit("ledger.client:LedgerClient._look", ("if number > self._look_adopted:", "if True:")),
    ),
}
"""By the names of the kept seeds. Where one is missing, the code around its mistake is no longer what it was."""
