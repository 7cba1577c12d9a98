"""Ledger ids from ZooKeeper's sequence numbers, as BookKeeper draws them.

    short   the number of an ephemeral sequential `idgen/ID-`, below 2147483647
    long    (h << 32) | the number of an ephemeral sequential `idgen-long/HOB-<h>/ID-`

Once `idgen-long` exists ids are long; it is made when the short numbers are used up. The nodes are removed
again; they only count. A lost answer wastes a number and nothing else, so it counts as nothing done.

Protocol: docs/bookkeeper.md#ledger-ids.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar

from kazoo.exceptions import NoNodeError

from ledger.errors import (
    ConfigurationError,
    LogStoreError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
)
from ledger.metadata.format.layout import LayoutType
from ledger.metadata.ledger_paths import SHORT_ID_END
from ledger.metadata.refusals import AHEAD_MAX, OLDER_THAN_BOOKIE
from ledger.metadata.store import NewestLedger
from ledger.metadata.zookeeper.cluster import create_quietly
from ledger.metadata.zookeeper.ledgers.id_floor import HIGH_BITS_MAX, WITH_LONG_IDS
from ledger.metadata.zookeeper.paths import ID_PREFIX, Paths, high_bits_of
from ledger.metadata.zookeeper.session.session import ZooKeeperSession
from ledger.model import LEDGER_ID_MAX, LedgerId

_HIGH_BITS_KEPT = 3
_WASTED_MAX = 2_000
"""Ids drawn to come to a later one, which takes a second or two; from there on the next high bits are counted."""
_SHORT_AHEAD_MAX = 2**20
"""As AHEAD_MAX where ids are short: each id up to the later one must be drawn, and is lost."""
_AT_ONCE = 128

_log = logging.getLogger(__name__)

T = TypeVar("T")


class LedgerIds:
    def __init__(self, session: ZooKeeperSession, paths: Paths) -> None:
        self._session = session
        self._paths = paths
        self._is_long = False

    async def draw(self, layout: LayoutType) -> tuple[LedgerId, str]:
        """An id never drawn before, and the node that counted it: `release` it."""
        try:
            if layout not in WITH_LONG_IDS:
                drawn, _ = await self._short(layout)
                if drawn is None:
                    raise ConfigurationError(
                        f"the {layout.value} layout has given out all its ids: it cannot hold another ledger"
                    )
                return drawn
            if self._is_long:
                try:
                    return await self._long()
                except NoNodeError:
                    self._is_long = False  # that cluster was removed
            return await self._short_unless_long(layout) or await self._long()
        except MetadataOutcomeUnknownError as error:
            # Its own text asks to read the outcome, of which there is none to read.
            raise MetadataUnavailableError(
                f"no ledger id could be drawn at {self._session.uri}: ZooKeeper's answer was lost; try again"
            ) from error

    async def pass_by(self, layout: LayoutType, newest: NewestLedger) -> None:
        """Have only ids above those of this bookie given out from now on, which takes a draw only if its newest ledger
        does not exist.
        """
        is_long = layout in WITH_LONG_IDS
        ledger_id = newest(await self._reach() if is_long else SHORT_ID_END - 1)
        if ledger_id is None or await self._session.exists(self._paths.ledger(layout, ledger_id)) is not None:
            return
        with suppress(ConfigurationError):  # no id is left
            drawn = await self._waste(layout)
            ledger_id = newest(drawn + (AHEAD_MAX if is_long else _SHORT_AHEAD_MAX))
            if ledger_id is None or ledger_id <= drawn:
                return
            missing = ledger_id - drawn
            if missing > _WASTED_MAX and is_long:
                await create_quietly(self._session, self._paths.long_ids)
                await self._create_counter(self._paths.high_bits((ledger_id >> 32) + 1))
            else:
                for first in range(0, missing, _AT_ONCE):
                    draws = min(_AT_ONCE, missing - first)
                    await asyncio.gather(*(self._waste(layout) for _ in range(draws)))
            _log.warning(OLDER_THAN_BOOKIE, ledger_id)

    async def _reach(self) -> int:
        """The highest id that may have been given out, without a draw; somewhat more."""
        try:
            known = await self._known_high_bits()
        except NoNodeError:
            known = []
        return min(((max(known, default=0) + 1) << 32) + AHEAD_MAX, LEDGER_ID_MAX)

    async def _waste(self, layout: LayoutType) -> LedgerId:
        ledger_id, node = await self.draw(layout)
        self.release(node)
        return ledger_id

    def release(self, node: str) -> None:
        """Remove the node of an id once the id was used, without waiting; it ends with the session anyhow.

        Raises nothing: an error would hide whether the ledger was created.
        """
        with suppress(LogStoreError):  # the session cannot be used any more
            self._session.forget(self._session.delete(node))

    async def _short_unless_long(self, layout: LayoutType) -> tuple[LedgerId, str] | None:
        """A short id, or None where ids are long by now."""
        drawn, long_ids = await self._short(layout)
        if long_ids is None:
            if drawn is not None:
                return drawn
            await create_quietly(self._session, self._paths.long_ids)
        elif drawn is not None:
            self.release(drawn[1])
        self._is_long = True
        return None

    async def _short(self, layout: LayoutType) -> tuple[tuple[LedgerId, str] | None, Any]:
        """The next short id, and the stat of `idgen-long`; None where there is none of them."""
        counter = self._paths.short_ids(layout)
        while True:
            try:
                return await self._count(counter, lambda: self._session.exists(self._paths.long_ids))
            except NoNodeError:
                if layout is LayoutType.FLAT:
                    raise MetadataUnavailableError(f"{counter} is gone: the cluster was removed") from None
                await self._create_counter(counter)

    async def _long(self) -> tuple[LedgerId, str]:
        """NoNodeError where ids are not long."""
        high = await self._high_bits()
        while high <= HIGH_BITS_MAX:
            try:
                counted, names = await self._count(
                    self._paths.high_bits(high), lambda: self._session.children(self._paths.long_ids)
                )
            except NoNodeError:
                await self._create_counter(self._paths.high_bits(high))
                continue
            newest = max(_high_bits_in(names), default=high)
            if newest > high:
                if counted is not None:
                    self.release(counted[1])
                high = newest
                continue
            if counted is not None:
                return LedgerId(high << 32 | counted[0]), counted[1]
            high += 1
            await self._create_counter(self._paths.high_bits(high))
            await self._drop_old_counters()
        raise ConfigurationError("all 63-bit ledger ids have been given out")

    async def _count(
        self, counter: str, look: Callable[[], asyncio.Future[T]]
    ) -> tuple[tuple[LedgerId, str] | None, T]:
        """The next number, or None when the counter has run over (its node is left to the session's end); and the
        answer to `look`.

        That is sent right behind: a server that lags then has what was stored before the number was given out. Before
        it, the server may not know of high bits under which ids are given out already.
        """
        prefix = f"{counter}/{ID_PREFIX}"
        counting = self._session.create(prefix, ephemeral=True, sequence=True, is_kept=False)
        looked = look()
        try:
            node = await counting
        except BaseException:
            self._session.forget(looked)
            raise
        number = int(node.removeprefix(prefix))
        return ((LedgerId(number), node) if 0 <= number < SHORT_ID_END else None), await looked

    async def _create_counter(self, path: str) -> None:
        try:
            await create_quietly(self._session, path)
        except NoNodeError:
            raise MetadataUnavailableError(f"{path} cannot be made: the cluster was removed") from None

    async def _high_bits(self) -> int:
        known = await self._known_high_bits()
        if known:
            return known[-1]
        await self._create_counter(self._paths.high_bits(1))
        return 1

    async def _known_high_bits(self) -> list[int]:
        return _high_bits_in(await self._session.children(self._paths.long_ids))

    async def _drop_old_counters(self) -> None:
        old = (await self._known_high_bits())[:-_HIGH_BITS_KEPT]
        # One that still counts somebody's id is refused and stays; so does one that was changed.
        await asyncio.gather(
            *(self._session.delete(self._paths.high_bits(high), 0) for high in old), return_exceptions=True
        )


def _high_bits_in(names: Iterable[str]) -> list[int]:
    """Ascending."""
    return sorted(high for high in map(high_bits_of, names) if high is not None)
