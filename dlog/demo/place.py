"""The cluster of the demo: its own, or an existing one.

    no address                  three bookies and SQLite, all in the demo's directory
    an address without bookies  three bookies in that directory, metadata at the address
    an address with bookies     those bookies; none of them is killed

Whatever the demo created at an address it deletes afterwards: its logs, its bookies' cookies, its cluster.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dlog.client import connect
from dlog.config import LogConfig
from dlog.errors import LogNotFoundError
from dlog.local.embedded import Standalone
from ledger import whole_loop
from ledger.errors import (
    MetadataFormatError,
    MetadataUnavailableError,
    NotEnoughBookiesError,
    RecordNotFoundError,
)
from ledger.metadata.drivers import open_store
from ledger.metadata.format.cookie import decode_cookie

LOG = "flights"
CONFIG = LogConfig(deletion_grace_s=0)
"""No grace period: the writers' processes have ended when the log is deleted, so no paused writer is left."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster, its bookies and the name of the log. `own` is None if the demo did not start the bookies."""

    uri: str
    log: str
    bookies: tuple[str, ...]
    own: Standalone | None

    @property
    def live(self) -> str:
        """The log that Spark follows."""
        return f"{self.log}-live"

    @property
    def delays(self) -> str:
        """The log that Spark writes."""
        return f"{self.log}-delays"


@contextmanager
def find_place(metadata: str | None, directory: Path, *, keep: bool) -> Iterator[Place]:
    """The cluster for one demo. Unless `keep` is set, what it created at the address is deleted at the end.

    Raises:
        NotEnoughBookiesError: the cluster at the address has too few for an append; nothing has been started.
    """
    if metadata is None:
        with Standalone(directory / "cluster", restart=False) as cluster:
            yield _on_own(cluster, LOG)
        return
    log = f"{LOG}-{secrets.token_hex(4)}"  # the cluster may have a log named `flights`
    uri, bookies = whole_loop.run(_find_bookies(metadata))
    if bookies:
        _require_enough(uri, len(bookies))
        place = Place(uri, log, bookies, None)
        with _temporary_logs(place, keep=keep):
            yield place
        return
    home = directory / "cluster"
    own = Standalone(home, metadata=uri, restart=False)
    try:
        with own as cluster:
            place = _on_own(cluster, log)
            with _temporary_logs(place, keep=keep):
                yield place
    finally:  # also if it was interrupted while it started, once there is something in the store
        if not keep and (own.made or any(home.glob("bookie-*"))):
            whole_loop.run(remove_from_store(uri, home, made=own.made))


def _require_enough(uri: str, available: int) -> None:
    needed = CONFIG.quorum.ack
    if available < needed:
        raise NotEnoughBookiesError(
            f"the demo needs {needed} writable bookies, and the cluster at {uri} has {available}: start more, or leave "
            "--metadata out",
            needed=needed,
            available=available,
        )


def _on_own(cluster: Standalone, log: str) -> Place:
    return Place(cluster.uri, log, tuple(bookie.bookie_id for bookie in cluster.bookies), cluster)


@contextmanager
def _temporary_logs(place: Place, *, keep: bool) -> Iterator[None]:
    try:
        yield
    finally:
        if not keep:
            whole_loop.run(_delete(place))


async def _delete(place: Place) -> None:
    logs = place.log, place.live, place.delays
    commands = [f"`dlog delete {log} --metadata {shlex.quote(place.uri)}`" for log in logs]
    with _left_behind(f"its logs in {place.uri}", ", ".join(commands)):
        async with await connect(place.uri, config=CONFIG) as client:
            for log in logs:
                with suppress(LogNotFoundError):
                    await client.delete(log)


@contextmanager
def _left_behind(what: str, commands: str) -> Iterator[None]:
    """An error of a store that is away also has what of the demo may stay there, and what removes it."""
    try:
        yield
    except MetadataUnavailableError as error:
        raise MetadataUnavailableError(
            f"{error}; the demo may have left {what}: once the store responds, remove that with {commands}"
        ) from error


async def _find_bookies(metadata: str) -> tuple[str, tuple[str, ...]]:
    """The full address, and the ids of the writable bookies there."""
    store = await open_store(metadata)
    try:
        found = await store.bookies()
        return store.uri, tuple(info.bookie_id for info in found.writable)
    except (RecordNotFoundError, MetadataUnavailableError):
        return store.uri, ()  # no cluster yet; starting bookies there reports any other reason
    finally:
        await store.close()


async def remove_from_store(uri: str, home: Path, *, made: bool) -> None:
    """Remove the cookies of the bookies in `home`, which have ended, and the cluster, if it was `made` for them.

    A cluster that another bookie has joined in the meantime is kept.
    """
    address = shlex.quote(uri)
    if made:
        left = _left_behind(f"its cluster in {uri}", f"`bookie nuke-cluster --force --metadata {address}`")
    else:
        left = _left_behind(
            f"logs and the cookies of its bookies in {uri}",
            f"`dlog delete` and `bookie decommission`, both with --metadata {address}",
        )
    with left:
        await _remove_cookies(uri, home, with_cluster=made)


async def _remove_cookies(uri: str, home: Path, *, with_cluster: bool) -> None:
    store = await open_store(uri)
    try:
        for bookie_id in await store.list_cookies():
            cookie = await store.read_cookie(bookie_id)
            if _is_in(home, cookie.value):
                await store.remove_cookie(bookie_id, cookie.version)
        if with_cluster and not await store.list_cookies():
            await store.nuke_cluster(await store.instance_id())
    finally:
        await store.close()


def _is_in(home: Path, cookie: bytes) -> bool:
    """Whether the cookie is one of a bookie whose directories are in `home`."""
    try:
        journals = decode_cookie(cookie).journal_dirs
    except MetadataFormatError:
        return False
    return any(Path(each).is_relative_to(home.resolve()) for each in journals)
