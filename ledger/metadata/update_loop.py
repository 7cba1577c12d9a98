"""BookKeeper's MetadataUpdateLoop: change a ledger's metadata by compare-and-set until it is as wanted.

Invariant: a write whose answer was lost is settled by reading, never by assuming; it is repeated only at the same
version with the same bytes, and a refusal of such a repetition is ambiguous again.

Protocol: docs/bookkeeper.md#metadata-updates. Pitfall: docs/pitfalls.md#lost-answer-to-a-compare-and-set.
"""

from __future__ import annotations

from collections.abc import Callable

from ledger.buggify import linger
from ledger.environment import Environment
from ledger.errors import MetadataOutcomeUnknownError, MetadataVersionError, UnavailableError
from ledger.metadata.format.ledger import rewritten
from ledger.metadata.rounds import Rounds
from ledger.metadata.store import MetadataStore
from ledger.model import LedgerId, LedgerMetadata, Versioned

Local = Versioned[LedgerMetadata]


async def update_ledger(
    store: MetadataStore,
    ledger_id: LedgerId,
    local: Local,
    needs_update: Callable[[LedgerMetadata], bool],
    transform: Callable[[LedgerMetadata], LedgerMetadata],
    environment: Environment,
) -> Local:
    """Change the metadata until `needs_update` is False; return the stored value, by our write or another client's.

    Both functions may raise to give up (if the ledger is closed, for example); they run once more after each conflict.

    Raises:
        MetadataUnavailableError, ContendedError: certainly nothing was changed.
        MetadataOutcomeUnknownError: it may have been changed.
        LedgerNotFoundError: the ledger was deleted.
    """
    rounds = Rounds(environment, f"metadata of ledger {ledger_id}")
    while needs_update(local.value):
        wanted = rewritten(transform(local.value))
        try:
            await linger("metadata.slow-ledger-change")
            return Versioned(wanted, await store.write_ledger(ledger_id, wanted, local.version))
        except MetadataVersionError as error:
            await rounds.again(error)
            local = await store.read_ledger(ledger_id)
        except MetadataOutcomeUnknownError as error:
            local = await _settle(store, ledger_id, Versioned(wanted, local.version + 1), error, environment)
            if local.value == wanted:
                return local
    return local


async def _settle(
    store: MetadataStore,
    ledger_id: LedgerId,
    wanted: Local,
    unknown: MetadataOutcomeUnknownError,
    environment: Environment,
) -> Local:
    """What the store holds once our write of `wanted`, whose answer was lost, is decided."""
    rounds = Rounds(environment, f"metadata of ledger {ledger_id}")
    while True:
        try:
            found = await store.read_ledger(ledger_id)
            if found.version >= wanted.version:
                return found
            # Not applied so far, but it may still be under way: write the same again, so that it is decided.
            version = await store.write_ledger(ledger_id, wanted.value, found.version)
            return Versioned(wanted.value, version)
        except (MetadataVersionError, MetadataOutcomeUnknownError):
            await rounds.again(unknown)
        except UnavailableError as error:
            raise unknown from error
