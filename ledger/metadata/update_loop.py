"""BookKeeper's MetadataUpdateLoop: change a ledger's metadata by compare-and-set until it is as wanted.

Law: a write whose answer was lost is settled by reading, never by assuming; it is repeated only at the same
version with the same bytes, and a refusal of such a repetition is ambiguous again.
"""

from __future__ import annotations

from collections.abc import Callable

from ledger.errors import MetadataOutcomeUnknownError, MetadataVersionError, UnavailableError
from ledger.metadata.ledger_format import rewritten
from ledger.metadata.store import MetadataStore
from ledger.model import LedgerId, LedgerMetadata, Versioned

_SETTLE_ROUNDS = 20
"""A store that loses this many answers in a row is as good as gone."""

Local = Versioned[LedgerMetadata]


async def update_ledger(
    store: MetadataStore,
    ledger_id: LedgerId,
    local: Local,
    needs_update: Callable[[LedgerMetadata], bool],
    transform: Callable[[LedgerMetadata], LedgerMetadata],
) -> Local:
    """The stored value once `needs_update` is content with it, by our write or by somebody else's.

    Both functions may raise to give up (the ledger is closed, say); they run once more after each conflict.
    MetadataUnavailableError: certainly nothing was changed. MetadataOutcomeUnknownError: it may have been.
    """
    while needs_update(local.value):
        wanted = rewritten(transform(local.value))
        try:
            version = await store.write_ledger(ledger_id, wanted, local.version)
            return Versioned(wanted, version)
        except MetadataVersionError:
            local = await store.read_ledger(ledger_id)
        except MetadataOutcomeUnknownError as error:
            local = await _settle(store, ledger_id, Versioned(wanted, local.version + 1), error)
            if local.value == wanted:
                return local
    return local


async def _settle(
    store: MetadataStore, ledger_id: LedgerId, wanted: Local, unknown: MetadataOutcomeUnknownError
) -> Local:
    """What the store holds once our write of `wanted`, whose answer was lost, is decided."""
    for _ in range(_SETTLE_ROUNDS):
        try:
            found = await store.read_ledger(ledger_id)
            if found.version >= wanted.version:
                return found
            # Not applied so far, but it may still be under way: write the same again, so that it is decided.
            version = await store.write_ledger(ledger_id, wanted.value, found.version)
            return Versioned(wanted.value, version)
        except (MetadataVersionError, MetadataOutcomeUnknownError):
            continue
        except UnavailableError as error:
            raise unknown from error
    raise unknown
