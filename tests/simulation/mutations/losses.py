"""Bugs of logs that have lost a value in the metadata store: taken for what they are not, or made worse."""

from __future__ import annotations

from typing import Any

from tests.helpers.mutations.mutation import QUIET, Mutation, focused
from tests.helpers.mutations.planting import edit

_SHORT: dict[str, Any] = {**QUIET, "chaos_s": 3.0, "writers": 2, "rotation_age_s": 0.7}

MUTATIONS = (
    Mutation(
        "lost-record-taken-for-a-deletion",
        "A record that is absent was deleted only if the name says so: otherwise it is lost.",
        (
            edit(
                "dlog.metadata.store:LogMetadataStore._raise_if_lost",
                ("if node is not None and", "if False and"),
            ),
        ),
        plan=focused(**_SHORT, loses="record"),
    ),
    Mutation(
        "damaged-name-hides-its-log",
        "A name that cannot be decoded is one of a log, and is listed.",
        (edit("dlog.metadata.store:LogMetadataStore.names", ("return True", "return False")),),
        plan=focused(**_SHORT, loses="name"),
    ),
    Mutation(
        "lost-sealed-ledger-stops-the-next-writer",
        "Nothing can be added to a ledger whose seal the record holds, so one that is lost stops no takeover.",
        (
            edit(
                "dlog.write.ledger_recovery:recover_ledgers",
                ("if end is None and one not in known]", "if end is None]"),
            ),
        ),
        plan=focused(**_SHORT, loses="ledger"),
    ),
    Mutation(
        "lost-open-ledger-is-passed-over",
        "A ledger whose end the record does not say, and that is lost, stops a takeover until it is given up.",
        (
            edit(
                "dlog.write.ledger_recovery:recover_ledgers",
                ("[one for one, end in found.items() if end is None and one not in known]", "[]"),
            ),
        ),
        plan=focused(**_SHORT, loses="ledger"),
    ),
    Mutation(
        "open-lost-ledger-passed-by-a-reader",
        "A reader knows the end of a log only if it knows that of the last ledger.",
        (
            edit(
                "dlog.metadata.fresh_record:is_lost_ledger",
                ("isinstance(error, LedgerNotFoundError)", "False"),
            ),
        ),
        plan=focused(**_SHORT, loses="ledger"),
    ),
)
