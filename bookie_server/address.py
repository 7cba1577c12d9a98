"""No bookie serves at an address at which clients expect another one.

They would take its denials for those of the other bookie, whose entries a recovery then cuts off: an empty disk
under an old name by another way. They look for a bookie

- where it is registered. The registration of a killed process ends with its session, some seconds later;
- at the address that is its id, if it is not registered. Its cookie is kept until it is decommissioned.

Pitfall: docs/pitfalls.md#another-bookie-at-an-old-address.
"""

from __future__ import annotations

from functools import partial

from bookie_server.errors import AddressTakenError
from bookie_server.registration import patiently
from ledger.errors import AlreadyExistsError, RecordNotFoundError
from ledger.metadata.store import MetadataStore
from ledger.model import BookieId, BookieInfo


async def await_no_other(store: MetadataStore, own: BookieInfo, patience_s: float) -> None:
    """Return when no other id is registered at the address of `own`; wait for that up to `patience_s` seconds.

    Raises:
        AddressTakenError: one still is.
        MetadataUnavailableError: the store did not respond in time.
    """
    try:
        await patiently(partial(_require_no_other, store, own), patience_s)
    except AlreadyExistsError as error:
        raise AddressTakenError(
            f"bookie {error.key} is registered at {own.host}:{own.port}, and clients would take bookie "
            f"{own.bookie_id} for it: stop it, or give this bookie another --port or --advertised",
            bookie_id=str(error.key),
        ) from error


async def require_unknown(store: MetadataStore, own: BookieInfo) -> None:
    """AddressTakenError if the cluster knows another bookie whose id is the address of `own`."""
    known = BookieId(f"{own.host}:{own.port}")
    if known == own.bookie_id:
        return
    try:
        await store.read_cookie(known)
    except RecordNotFoundError:
        return
    raise AddressTakenError(
        f"the cluster knows a bookie {known}, and clients would take bookie {own.bookie_id} for it: run `bookie "
        f"decommission {known}` first, or give this bookie another --port or --advertised",
        bookie_id=known,
    )


async def _require_no_other(store: MetadataStore, own: BookieInfo) -> None:
    found = await store.bookies()
    for each in (*found.writable, *found.read_only):
        if (each.host, each.port) == (own.host, own.port) and each.bookie_id != own.bookie_id:
            raise AlreadyExistsError(f"bookie {each.bookie_id} is registered there", key=each.bookie_id)
