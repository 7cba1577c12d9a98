"""The bookie's registration in the metadata store, in the list of writable or of read-only bookies.

One task makes all changes, so that they never overlap: if a disk fills and empties while the store is slow, only the
last state is published.

Protocol: docs/bookkeeper.md#registration.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from bookie_server.errors import BookieAliveError
from ledger.errors import (
    AlreadyExistsError,
    LogStoreError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
)
from ledger.metadata.store import MetadataStore, NewestLedger, OnLost, OnRenewed, Registration
from ledger.model import BookieInfo

logger = logging.getLogger(__name__)
T = TypeVar("T")

RETRY_S = 1.0
"""Pause between attempts; a predecessor's session ends some seconds after it was killed."""

WITHDRAW_S = 10.0
"""How long a stop waits for the store, whatever the limits of its address are."""


async def register(
    store: MetadataStore, info: BookieInfo, patience_s: float, newest_ledger: NewestLedger | None = None
) -> Registration:
    """Register the bookie, retrying for `patience_s` seconds. On return clients can see it.

    `newest_ledger`: of what it stores or has stored.

    An attempt whose response was lost is no obstacle: its registration names the session of `store`, and the next
    attempt replaces it.

    Raises:
        BookieAliveError: another process is registered under the id.
        MetadataUnavailableError, MetadataOutcomeUnknownError: the store did not respond in time.
    """
    try:
        return await patiently(partial(store.register_bookie, info, newest_ledger=newest_ledger), patience_s)
    except AlreadyExistsError as error:
        raise BookieAliveError(
            f"another process is registered as bookie {info.bookie_id}: stop it, or give this bookie another "
            f"--port or --bookie-id",
            bookie_id=info.bookie_id,
        ) from error


async def patiently(step: Callable[[], Awaitable[T]], patience_s: float) -> T:
    """Do `step`; again for up to `patience_s` seconds while the store does not respond or its answers are lost, and
    while there is what `step` creates.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + patience_s
    while True:
        try:
            return await step()
        except (MetadataOutcomeUnknownError, MetadataUnavailableError, AlreadyExistsError) as error:
            if loop.time() >= give_up_at:
                raise
            if not isinstance(error, AlreadyExistsError):  # a predecessor's session has not ended yet
                logger.warning("the metadata store does not respond, retrying: %s", error)
        await asyncio.sleep(RETRY_S)


class Presence:
    """Keeps the registration in the list that the disks call for.

    Calls `on_renewed` after it was made again, and `on_lost` when it has ended permanently.
    """

    def __init__(
        self, registration: Registration, *, writable: bool, on_lost: OnLost, on_renewed: OnRenewed
    ) -> None:
        self._registration = registration
        registration.on_lost = on_lost
        registration.on_renewed = on_renewed
        self._wanted = writable
        self._published: bool | None = writable
        self._task: asyncio.Task[None] | None = None
        self._withdrawn = False

    def want(self, *, writable: bool) -> None:
        """Move to the writable or the read-only list as soon as the store responds; nothing after `withdraw`."""
        if self._withdrawn:  # the disks are measured until the stop has ended
            return
        self._wanted = writable
        if self._task is None and self._wanted != self._published:
            self._task = asyncio.get_running_loop().create_task(self._follow())

    async def withdraw(self) -> None:
        """End the registration; returns once others can see it, or when the store does not respond: then it ends with
        the session."""
        self._withdrawn = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        try:
            async with asyncio.timeout(WITHDRAW_S):
                await self._registration.close()
        except TimeoutError:
            logger.warning(
                "the registration, which ends with the session, could not be ended within %g s: the metadata store "
                "does not respond",
                WITHDRAW_S,
            )
        except LogStoreError as error:
            logger.warning("cannot end the registration, which ends with the session: %s", error)

    async def _follow(self) -> None:
        try:
            while self._wanted != self._published:
                wanted = self._wanted
                # Until the store has responded, it is unknown which list the bookie is in.
                self._published = None
                try:
                    await self._registration.set_read_only(not wanted)
                    self._published = wanted
                except LogStoreError as error:
                    logger.warning("cannot publish writable=%s, retrying: %s", wanted, error)
                    await asyncio.sleep(RETRY_S)
        finally:
            self._task = None
