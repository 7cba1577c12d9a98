"""Which bookies are registered, and where they are.

The names are read anew each time, in one round of requests; what a bookie publishes is read once and kept,
with a watch. A bookie that moves between the lists stands in both for a moment and never in neither.
"""

from __future__ import annotations

import asyncio

from kazoo.exceptions import NoNodeError

from ledger.errors import InvalidNameError, MetadataFormatError
from ledger.metadata.bookie_set import DamageReports, bookie_set
from ledger.metadata.format.service_info import bookie_info
from ledger.metadata.refusals import no_cluster
from ledger.metadata.store import Unwatch, Watch
from ledger.metadata.zookeeper.paths import Paths
from ledger.metadata.zookeeper.session.session import ZooKeeperSession
from ledger.metadata.zookeeper.session.watches import Watches
from ledger.model import BookieId, BookieInfo, BookieSet, DamagedRegistration, check_bookie_id

_READ_ONLY_NAME = "readonly"


class _Kept:
    """What a node publishes; None until it is read, and again when it may have changed."""

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.reads = 0
        self.unwatch: Unwatch = _nothing

    def forget(self) -> None:
        self.data = None
        self.reads += 1


def _nothing() -> None:
    return


class BookieList:
    def __init__(self, session: ZooKeeperSession, watches: Watches, paths: Paths) -> None:
        self._session = session
        self._watches = watches
        self._paths = paths
        self._kept: dict[str, _Kept] = {}
        self._damaged = DamageReports()

    async def read(self) -> BookieSet:
        writable, read_only = await self._names()
        found = await asyncio.gather(
            *(self._find(name, read_only=False) for name in writable),
            *(self._find(name, read_only=True) for name in read_only),
        )
        self._drop({*map(self._writable_path, writable), *map(self._read_only_path, read_only)})
        bookies = bookie_set(each for each in found if each is not None)
        self._damaged.report(bookies.damaged)
        return bookies

    def watch(self, watch: Watch) -> Unwatch:
        unwatch_both = (
            self._watches.watch_children(self._paths.available, watch),
            self._watches.watch_children(self._paths.read_only, watch),
        )

        def unwatch() -> None:
            for each in unwatch_both:
                each()

        return unwatch

    async def _names(self) -> tuple[list[str], list[str]]:
        """Both lists, sorted, no name in both."""
        # Who moves to the writable list between the first look and the second one is found by the third.
        looks = (self._paths.available, self._paths.read_only, self._paths.available)
        first, second, third = await asyncio.gather(
            *map(self._session.children, looks), return_exceptions=True
        )
        if isinstance(first, NoNodeError) or isinstance(third, NoNodeError):
            raise no_cluster(self._session.uri)
        if isinstance(second, NoNodeError):
            second = []
        for error in (first, second, third):
            if isinstance(error, BaseException):
                raise error
        assert isinstance(first, list) and isinstance(second, list) and isinstance(third, list)
        writable = {*first, *third} - {_READ_ONLY_NAME}
        return sorted(writable), sorted(set(second) - writable)

    async def _find(self, name: str, *, read_only: bool) -> BookieInfo | DamagedRegistration | None:
        """Where the bookie is. None if it has left."""
        ways = [(self._writable_path(name), False), (self._read_only_path(name), True)]
        for path, is_read_only in ways[::-1] if read_only else ways:
            data = await self._published(path)
            if data is not None:
                return self._info(name, data, read_only=is_read_only)
        return None

    async def _published(self, path: str) -> bytes | None:
        kept = self._kept.get(path)
        if kept is None:
            kept = self._kept[path] = _Kept()
            kept.unwatch = self._watches.watch_node(path, kept.forget, early=True)
        if kept.data is None:
            kept.reads += 1
            reading = kept.reads
            try:
                data, _ = await self._session.get(path)
            except NoNodeError:
                return None
            if kept.reads != reading:
                return bytes(data)  # it changed while it was on its way: good for this answer, not to be kept
            kept.data = bytes(data)
        return kept.data

    def _info(self, name: str, data: bytes, *, read_only: bool) -> BookieInfo | DamagedRegistration:
        try:
            return bookie_info(check_bookie_id(name), data, read_only=read_only)
        except (MetadataFormatError, InvalidNameError) as error:
            return DamagedRegistration(BookieId(name), str(error))

    def _drop(self, listed: set[str]) -> None:
        for path in [path for path in self._kept if path not in listed]:
            self._kept.pop(path).unwatch()

    def _writable_path(self, name: str) -> str:
        return f"{self._paths.available}/{name}"

    def _read_only_path(self, name: str) -> str:
        return f"{self._paths.read_only}/{name}"
