"""Publishes what the disks allow to the connections and to the cluster.

The storage measures; here its verdict becomes the service's writability and the bookie's list in the store.
Order: a bookie refuses adds before it leaves the writable list, and takes them before it returns to it.

Protocol: docs/bookkeeper.md#read-only-bookies.
"""

from __future__ import annotations

import logging

from bookie_server.errors import TooManyFilesError
from bookie_server.protocol.refusals import Writability
from bookie_server.protocol.service import BookieService
from bookie_server.registration import Presence
from bookie_server.storage.ledger_storage import LedgerStorage

logger = logging.getLogger(__name__)


def writability_of(storage: LedgerStorage) -> Writability:
    """A full disk keeps a reserve for priority adds, which end a takeover; so does a bookie in limbo."""
    return Writability(adds=storage.writable and not storage.limbo, priority_adds=True)


def follow_disks(service: BookieService, presence: Presence) -> None:
    """Apply the storage's verdict now and whenever it changes. It is logged, but for a bookie that begins writable."""

    def apply() -> None:
        service.writability = writability_of(service.storage)
        presence.want(writable=service.writability.adds)

    def changed(_writable: bool) -> None:
        apply()
        _log_verdict(service.storage)

    service.storage.on_writable_change = changed
    apply()
    if not service.storage.writable:
        _log_verdict(service.storage)


def _log_verdict(storage: LedgerStorage) -> None:
    shortage = storage.shortage
    free = ", ".join(f"{each.free_bytes} bytes free in {each.directory}" for each in storage.usage())
    if storage.writable:
        logger.warning("writable again: %s", free)
    elif isinstance(shortage, TooManyFilesError):
        logger.warning("read-only until files can be opened again: %s", shortage)
    elif shortage is not None:
        # A write has failed since the last measurement, whose numbers are out of date.
        logger.warning("read-only because a disk is full: %s", shortage)
    else:
        logger.warning("read-only because a disk is nearly full: %s", free)
