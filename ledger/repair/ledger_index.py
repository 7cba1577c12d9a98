"""Which ledgers name which bookies, read from the metadata of all of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from ledger.errors import LedgerNotFoundError, MetadataFormatError
from ledger.metadata.store import MetadataStore
from ledger.model import LedgerId, LedgerMetadata

_AT_ONCE = 200


OnDamaged = Callable[[MetadataFormatError], None]


def _refuse(error: MetadataFormatError) -> None:
    raise error


async def all_ledgers(
    store: MetadataStore, on_damaged: OnDamaged = _refuse
) -> AsyncIterator[tuple[LedgerId, LedgerMetadata]]:
    """Every ledger, ascending, in bounded memory. One that is deleted in the meantime is left out.

    Raises:
        MetadataFormatError: the metadata of one is damaged, so it is unknown on which bookies it depends; unless
            `on_damaged` takes the error, and the ledger is left out.
    """
    part: list[LedgerId] = []
    async for ledger_id in store.ledger_ids():
        part.append(ledger_id)
        if len(part) == _AT_ONCE:
            async for found in these_ledgers(store, part, on_damaged):
                yield found
            part = []
    async for found in these_ledgers(store, part, on_damaged):
        yield found


async def these_ledgers(
    store: MetadataStore, ledger_ids: list[LedgerId], on_damaged: OnDamaged = _refuse
) -> AsyncIterator[tuple[LedgerId, LedgerMetadata]]:
    """As `all_ledgers`, of these only."""
    found = await store.glance_at_ledgers(ledger_ids) if ledger_ids else {}
    for ledger_id in ledger_ids:
        if ledger_id in found:
            yield ledger_id, found[ledger_id].value
            continue
        try:
            yield ledger_id, (await store.read_ledger(ledger_id)).value
        except LedgerNotFoundError:
            continue
        except MetadataFormatError as error:
            on_damaged(error)
