"""How a cluster ends: `bookie format-cluster` and `nuke-cluster`, as Apache's metaformat and nukeexistingcluster.

What is deleted was confirmed: neither touches a cluster with another instance id than the one that it was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from bookie_server.tools.store_session import with_store
from ledger.errors import (
    ConfigurationError,
    LayoutMismatchError,
    MetadataUnavailableError,
    RecordNotFoundError,
)
from ledger.metadata.errors import ClusterInUseError
from ledger.metadata.refusals import cluster_in_use, no_cluster
from ledger.metadata.store import MetadataStore
from ledger.printing import counted


@dataclass(frozen=True, slots=True)
class Contents:
    """What a cluster has: its ledgers and the cookies of its bookies, counted, and the bookies that run."""

    instance_id: str
    uri: str
    ledgers: int
    cookies: int
    registered: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{counted(self.ledgers, 'ledger')} and {counted(self.cookies, 'bookie')} of cluster {self.instance_id} "
            f"in {self.uri}"
        )

    def require_unused(self, *, force: bool) -> None:
        """ClusterInUseError while bookies are registered, unless forced."""
        if self.registered and not force:
            refusal = cluster_in_use(self.registered)
            raise ClusterInUseError(
                f"{refusal}; --force formats the cluster all the same", bookies=list(self.registered)
            )


def read_instance_id(metadata: str) -> str:
    """The cluster's instance id. MetadataUnavailableError: there is no cluster, or the store does not respond."""

    async def read(store: MetadataStore) -> str:
        return await _instance_id(store)

    return with_store(metadata, read)


def contents(metadata: str) -> Contents | None:
    """What the cluster has; None if there is none, or if the store does not respond."""

    async def read(store: MetadataStore) -> Contents | None:
        try:
            await store.instance_id()
        except (RecordNotFoundError, MetadataUnavailableError):
            return None
        return await _contents(store)

    return with_store(metadata, read)


def formatted(metadata: str, confirmed: Contents, *, force: bool) -> str:
    """Format the cluster that has been confirmed; one line that says so.

    Raises:
        LayoutMismatchError: another cluster is there by now.
        ClusterInUseError: bookies are registered, and it is not forced.
    """

    async def run(store: MetadataStore) -> str:
        found = await _contents(store)
        if found.instance_id != confirmed.instance_id:
            raise LayoutMismatchError(
                f"this is cluster {found.instance_id} by now, not {confirmed.instance_id}: nothing was deleted"
            )
        found.require_unused(force=force)
        await store.format_cluster()
        return f"deleted the metadata of {found}, which is cluster {await store.instance_id()} now"

    return with_store(metadata, run)


def nuked(metadata: str, instance_id: str | None, *, force: bool) -> str:
    """Remove the cluster with that instance id, or with any if forced; one line that says so.

    Raises:
        ConfigurationError: neither an instance id nor force, or both.
        MetadataUnavailableError: there is no cluster, or the store does not respond.
        LayoutMismatchError: another cluster is there.
        ClusterInUseError: bookies are registered.
    """
    if instance_id == "":
        raise ConfigurationError("--instance-id is empty: give what `bookie instance-id` prints")
    if force == (instance_id is not None):
        raise ConfigurationError(
            "give either --instance-id with what `bookie instance-id` prints, or --force to remove whatever cluster is "
            "at this address"
        )

    async def run(store: MetadataStore) -> str:
        # Nothing is counted: what an interrupted removal has left could not be listed.
        if force and not await _has_instance_id(store):
            await store.nuke_cluster(None)
            return f"removed what was left of a cluster without INSTANCEID from {store.uri}"
        found = await _instance_id(store)
        removed = found if instance_id is None else instance_id
        await store.nuke_cluster(removed)
        return f"removed cluster {removed} from {store.uri}"

    return with_store(metadata, run)


async def _instance_id(store: MetadataStore) -> str:
    try:
        return await store.instance_id()
    except RecordNotFoundError:
        if await _has_layout(store):
            raise
        raise no_cluster(store.uri) from None


async def _has_instance_id(store: MetadataStore) -> bool:
    """False of a cluster that has lost it; True also if there is no cluster."""
    try:
        await store.instance_id()
    except RecordNotFoundError:
        return not await _has_layout(store)
    return True


async def _has_layout(store: MetadataStore) -> bool:
    try:
        await store.layout()
    except RecordNotFoundError:
        return False
    return True


async def _contents(store: MetadataStore) -> Contents:
    bookies = await store.bookies()
    ledgers = 0
    async for _ in store.ledger_ids():
        ledgers += 1
    return Contents(
        await store.instance_id(),
        store.uri,
        ledgers,
        len(await store.list_cookies()),
        tuple(bookies.registered()),
    )
