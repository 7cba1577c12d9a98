"""The mistakes of which kept seeds tell, as they once were in the code: planted again, their runs fail again."""

from __future__ import annotations

from tests.simulation.mutations.planting import Edit, edit

OLD_MISTAKES: dict[str, tuple[Edit, ...]] = {
    "cancelled-collection": (
        edit(
            "bookie_server.durable:until_durable",
            ("if not outcome.done():\n            outcome.set_result(error)", "outcome.set_result(error)"),
        ),
    ),
    "doubtful-list": (
        edit("bookie_server.registration:Presence._follow", ("            self._published = None\n", "")),
    ),
    "late-registration": (
        edit(
            "dlog.testing.metadata_session:Session.write_in_order",
            ("in_order=True", "in_order=False"),
        ),
    ),
}
"""By the names of the kept seeds. Of those that are missing the moment is so narrow that every change of anything lets
the run miss it; for late-close the planted bug late-close-counts stands, which is searched for.
"""
