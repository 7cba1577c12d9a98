"""A check of the copies of all ledgers: what lacks some is marked."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from enum import Enum

from ledger.client import LedgerClient
from ledger.errors import MetadataFormatError
from ledger.repair.ledger_repair import LedgerRepair, Scope
from ledger.repair.outcome import LedgerOutcome

_log = logging.getLogger(__name__)


class Mark(Enum):
    """Which ledgers a check marks."""

    NONE = "none"
    LACKING = "lacking"
    """Those whose members are registered and lack copies. Lost bookies have a delay, and are not its business."""
    ALL = "all"
    """Also those with a member that is not registered."""


async def check_copies(
    ledgers: LedgerClient, repair: LedgerRepair, scope: Scope, mark: Mark
) -> AsyncGenerator[LedgerOutcome, None]:
    """Look at every ledger, and mark what is to be marked. Metadata that cannot be read is logged, and in `left`.

    Raises:
        MetadataUnavailableError: the metadata store cannot be reached; what is marked stays so.
    """
    async for ledger_id in ledgers.store.ledger_ids():
        try:
            outcome = await repair.look(ledger_id, scope)
        except MetadataFormatError as error:
            _log.error("ledger %s cannot be checked: %s", ledger_id, error)
            outcome = LedgerOutcome(ledger_id, left=[str(error)])
        missing = {Mark.NONE: set(), Mark.LACKING: outcome.lacking, Mark.ALL: outcome.missing}[mark]
        if missing:
            now_ms = ledgers.environment.wall_us() // 1000
            await ledgers.store.repair.mark(ledger_id, missing, now_ms)
        yield outcome
