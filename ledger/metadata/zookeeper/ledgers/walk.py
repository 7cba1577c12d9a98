"""Every ledger id in ascending order, one directory in memory at a time on each level.

Short ids stand under names of two digits and long ones under three; every long id is above every short one,
so the two kinds follow each other. A directory that changes while it is walked is listed again page by page:
what is removed before its turn is not given, what is added behind is.

Invariant: no listing is older than the beginning of the walk, since a ledger that is not given is taken for one that
does not exist. Within a session the first listing proves that for all: its server never goes back.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import AsyncIterator

from ledger.errors import MetadataFormatError
from ledger.metadata.format.layout import LayoutType
from ledger.metadata.ledger_paths import is_first_level, ledger_id_of
from ledger.metadata.zookeeper.cluster import children_quietly
from ledger.metadata.zookeeper.session.session import ZooKeeperSession
from ledger.metadata.zookeeper.session.watches import Watches
from ledger.model import LedgerId

_PAGE_IDS = 1000
_GROUP = re.compile(r"[0-9]{4}")
_LEAF = re.compile(r"L[0-9]{4}|L[0-9]{10}")
_GROUPS_BELOW = {2: 1, 3: 3}
"""Directories of four digits between a first level of so many digits and the ledgers."""


class LedgerWalk:
    def __init__(self, session: ZooKeeperSession, watches: Watches, root: str, layout: LayoutType) -> None:
        self._session = session
        self._watches = watches
        self._root = root
        self._layout = layout
        self._proved_in: int | None = None
        """The session in which a listing of this walk was a fresh read."""

    async def ids(self) -> AsyncIterator[LedgerId]:
        if self._layout is LayoutType.FLAT:
            async for ledger_id in self._leaves(self._root):
                yield ledger_id
            return
        names = await self._children(self._root)
        for name in sorted((n for n in names if is_first_level(self._layout, n)), key=lambda n: (len(n), n)):
            async for ledger_id in self._below(f"{self._root}/{name}", _GROUPS_BELOW[len(name)]):
                yield ledger_id

    async def _below(self, path: str, groups: int) -> AsyncIterator[LedgerId]:
        if groups == 0:
            async for ledger_id in self._leaves(path):
                yield ledger_id
            return
        for name in sorted(await self._children(path)):
            if _GROUP.fullmatch(name):
                async for ledger_id in self._below(f"{path}/{name}", groups - 1):
                    yield ledger_id

    async def _leaves(self, path: str) -> AsyncIterator[LedgerId]:
        listing = _Listing()
        unwatch = self._watches.watch_children(path, listing.on_change, early=True)
        try:
            names: list[str] = []
            last = ""
            while True:
                if listing.is_stale:
                    listing.is_stale = False
                    names = await self._list(path)
                page = names[(first := bisect_right(names, last)) : first + _PAGE_IDS]
                for name in page:
                    ledger_id = self._id(f"{path}/{name}")
                    if ledger_id is not None:
                        yield ledger_id
                if len(page) < _PAGE_IDS and not listing.is_stale:
                    return
                last = page[-1] if page else last
        finally:
            unwatch()

    async def _list(self, path: str) -> list[str]:
        return sorted(name for name in await self._children(path) if _LEAF.fullmatch(name))

    async def _children(self, path: str) -> list[str]:
        if self._proved_in == self._session.session_id:
            names = await children_quietly(self._session, path)
            if self._proved_in == self._session.session_id:
                return names
        names = await children_quietly(self._session, path, fresh=True)
        self._proved_in = self._session.session_id
        return names

    def _id(self, path: str) -> LedgerId | None:
        try:
            return ledger_id_of(self._layout, path.removeprefix(self._root))
        except MetadataFormatError:
            return None  # a short name where only long ones belong: no ledger of this layout


class _Listing:
    def __init__(self) -> None:
        self.is_stale = True

    def on_change(self) -> None:
        self.is_stale = True
