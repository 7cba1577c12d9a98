"""What the checks of a loss have in common: they use the log again and again, and collect what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any, TypeVar

from dlog.client import LogClient
from dlog.core.tailing import Gap
from dlog.model import Message, Retention
from dlog.read.config import ReaderConfig
from dlog.testing.kernel.faults import MetadataFault
from dlog.testing.metadata.server import SimulatedMetadata
from ledger.errors import OutcomeUnknownError, UnavailableError

T = TypeVar("T")
Connect = Callable[[], Coroutine[Any, Any, LogClient]]
KEEPS_ALL = Retention(max_messages=1 << 40)
_TRY_AGAIN_S = 0.5
_ANSWERS_LOST: tuple[MetadataFault, ...] = (
    "metadata_unavailable",
    "metadata_request_lost",
    "metadata_request_late",
    "metadata_answer_lost",
)


class LossCheck:
    """Nothing else may use the log any more."""

    what: str
    """What is lost, for the violations."""

    def __init__(
        self,
        connect: Connect,
        log: str,
        chance: Random,
        config: ReaderConfig,
        *,
        metadata: SimulatedMetadata,
    ) -> None:
        self._connect = connect
        self._metadata = metadata
        self._log = log
        self._chance = chance
        self._config = config
        self._client: LogClient
        self._wrong: list[str] = []

    async def _items(self, **wanted: Any) -> list[Message | Gap]:
        async with self._client.reader(
            self._log, until="latest", on_trimmed="skip", config=self._config, **wanted
        ) as reader:
            return [item async for item in reader.items()]

    async def _keep_everything(self) -> None:
        """The log may have a retention, by which its owners go on trimming what is compared."""
        await self._again(lambda: self._client.set_retention(self._log, KEEPS_ALL))

    async def _whole(self) -> list[Message]:
        """Every message, of a log that has lost nothing."""
        found = await self._again(lambda: self._items(on_data_loss="fail"))
        return [one for one in found if isinstance(one, Message)]

    def _expect(self, what: str, found: Sequence[Message | Gap], expected: Sequence[Message | Gap]) -> None:
        if found != expected:
            places = [one.first if isinstance(one, Gap) else one.id for one in found]
            wanted = [one.first if isinstance(one, Gap) else one.id for one in expected]
            at = next(
                (n for n, pair in enumerate(zip(found, expected, strict=False)) if pair[0] != pair[1]), -1
            )
            self._say(
                f"a reader was to return {what}, {len(wanted)} items, and returned {len(places)}; they differ at "
                f"{at}: {found[at : at + 2] or places[-2:]} for {expected[at : at + 2] or wanted[-2:]}"
            )

    def _say(self, what: str) -> None:
        self._wrong.append(f"a log with {self.what}: {what}")

    def _lose_an_answer(self, requests: int = 8) -> None:
        """One of the next requests fails, or its answer does not arrive."""
        self._metadata.faults.disarm()
        if self._chance.random() < 0.5:
            kind = self._chance.choice(_ANSWERS_LOST)
            self._metadata.faults.arm(kind, number=self._chance.randint(1, requests))

    async def _again(self, work: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await work()
            except (UnavailableError, OutcomeUnknownError):
                await asyncio.sleep(_TRY_AGAIN_S)
