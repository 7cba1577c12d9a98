"""Whether the cluster knows a bookie that no ledger names."""

from __future__ import annotations

from ledger.errors import RecordNotFoundError
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId


async def require_known(
    store: MetadataStore, bookie_id: BookieId, unnamed: str = "no ledger names it"
) -> None:
    """For a bookie that no ledger names, or not the one that `unnamed` is about.

    RecordNotFoundError: it has no cookie and is not registered, so its id is probably mistyped.
    """
    if (await store.bookies()).find(bookie_id) is not None:
        return
    try:
        await store.read_cookie(bookie_id)
    except RecordNotFoundError as error:
        raise RecordNotFoundError(
            f"the cluster knows no bookie {bookie_id}: it has no cookie, is not registered, and {unnamed}; "
            "either the id is wrong, or the bookie was decommissioned",
            key=bookie_id,
        ) from error
