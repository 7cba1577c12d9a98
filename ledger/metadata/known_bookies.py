"""Whether the cluster knows a bookie, other than by a ledger that names it."""

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
    if not await is_member(store, bookie_id):
        raise RecordNotFoundError(
            f"the cluster knows no bookie {bookie_id}: it has no cookie, is not registered, and {unnamed}; "
            "either the id is wrong, or the bookie was decommissioned",
            key=bookie_id,
        )


async def is_member(store: MetadataStore, bookie_id: BookieId) -> bool:
    """Whether it is registered, or has a cookie."""
    if (await store.bookies()).is_registered(bookie_id):
        return True
    try:
        await store.read_cookie(bookie_id)
    except RecordNotFoundError:
        return False
    return True
