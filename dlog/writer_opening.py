"""Opening a writer: find or create the log, take it over, and put the writer together."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection
from dataclasses import dataclass

from dlog.backoff import Backoff
from dlog.config import LogConfig
from dlog.core.degraded import DegradedPolicy
from dlog.core.metadata_changes import last_append_us
from dlog.core.takeover import OnTakeoverLost
from dlog.errors import LogExistsError, LogNotFoundError, TakeoverLostError
from dlog.log_retention import LogRetention
from dlog.metadata.fresh_record import GIVE_UP, is_damaged_ledger, way_out_of_loss
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogName, Owner
from dlog.write.active_ledger import LedgerMaker
from dlog.write.append_deadline import DeadlineClock
from dlog.write.append_queue import AppendQueue
from dlog.write.byte_budget import SharedByteBudget
from dlog.write.current_owner import CurrentOwner
from dlog.write.producer_recovery import Producers, find_producers
from dlog.write.rotation_runner import RotationRunner
from dlog.write.takeover_runner import TakeoverResult, TakeoverRunner, new_owner
from dlog.write.turn_end import TurnEnd
from dlog.write.writer import LogWriter
from ledger.arguments import require_type
from ledger.client import LedgerClient
from ledger.environment import SystemEnvironment
from ledger.errors import (
    ConfigurationError,
    LedgerNotFoundError,
    LogStoreError,
    MetadataFormatError,
    NotEnoughBookiesError,
    NotEnoughRacksError,
)
from ledger.metadata.rounds import Rounds
from ledger.model import LedgerId

_LOST_FIRST_S = 0.1
_LOST_MAX_S = 5.0
_FULL = "registered read-only (disks nearly full?): free space"
_PRODUCERS_S_MAX = 5.0
"""For the read of their state. Bookies that have stopped may let it wait for longer, and plain appends must not."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OwnerWait:
    """How a takeover waits for the current owner."""

    limit_s: float
    hand_over: bool
    """Whether the owner is asked to end."""


class WriterOpening:
    """Opens the writers of one client."""

    def __init__(
        self, logs: LogMetadataStore, ledgers: LedgerClient, retention: LogRetention, config: LogConfig
    ) -> None:
        self._logs = logs
        self._ledgers = ledgers
        self._retention = retention
        self._config = config
        self._environment = ledgers.environment
        self._turn_end = TurnEnd()
        self._budget = SharedByteBudget(config.all_unacknowledged_bytes_max)
        self._clock = DeadlineClock()

    async def open(
        self,
        name: LogName,
        *,
        create: bool = False,
        given_up: Collection[LedgerId] = (),
        wait: OwnerWait | None = None,
        on_lost: OnTakeoverLost = OnTakeoverLost.FAIL,
    ) -> LogWriter:
        """Take the log over; `LogClient.open_writer` says what holds on return, and what it raises."""
        require_ledger_ids(given_up)
        backoff = Backoff(self._environment, first_s=_LOST_FIRST_S, max_s=_LOST_MAX_S)
        while True:
            ref = await self._find_or_create(name) if create else await self._find(name)
            try:
                return await self._take_over(ref, given_up, wait)
            except NotEnoughRacksError:
                raise
            except NotEnoughBookiesError as error:
                raise self._explained(error) from error
            except TakeoverLostError:
                if on_lost is OnTakeoverLost.FAIL:
                    raise
            except LogNotFoundError:  # deleted since it was found
                if not create:
                    raise
            await asyncio.sleep(backoff.next_s())

    async def rotate(self, name: LogName) -> None:
        """Ask the log's owner to rotate; `LogClient.rotate` says what holds on return, and what it raises."""
        ref = await self._logs.find(name)
        owner = new_owner(self._environment, self._config.owner_name)
        await self._current_owner(ref, owner).rotated(self._config.takeover_timeout_s)

    def _current_owner(self, ref: LogRef, requester: Owner) -> CurrentOwner:
        return CurrentOwner(
            ref, requester, logs=self._logs, config=self._config, environment=self._environment
        )

    async def _find(self, name: LogName) -> LogRef:
        try:
            return await self._logs.find(name)
        except LogNotFoundError:
            raise LogNotFoundError(
                f"log {name} does not exist: create it first, or open its writer with create=True "
                "(`dlog append --create`)",
                log=str(name),
            ) from None

    async def _find_or_create(self, name: LogName) -> LogRef:
        rounds = Rounds(self._environment, f"log {name}")
        while True:
            try:
                return await self._logs.find(name)
            except LogNotFoundError:
                pass
            try:
                return await self._logs.create(name, grace_us=self._config.grace_us)
            except LogExistsError:
                await rounds.again()  # another client has just created it

    async def _take_over(
        self, ref: LogRef, given_up: Collection[LedgerId], wait: OwnerWait | None
    ) -> LogWriter:
        owner = new_owner(self._environment, self._config.owner_name)
        epoch = None
        if wait is not None:
            current = self._current_owner(ref, owner)
            epoch = await current.ended(hand_over=wait.hand_over, limit_s=wait.limit_s)
        takeover = await TakeoverRunner(
            ref,
            owner,
            logs=self._logs,
            ledgers=self._ledgers,
            config=self._config,
            given_up=given_up,
            after_epoch=epoch,
        ).run()
        assert takeover.active_ledger is not None
        try:
            queue = AppendQueue(
                self._config,
                self._environment,
                self._turn_end,
                self._budget,
                epoch=takeover.record.epoch,
                log=str(ref),
                last_append_us=last_append_us(takeover.record),
                producers=await self._producers(ref, takeover, given_up),
            )
        except BaseException:
            takeover.active_ledger.detach(LogStoreError(f"the writer of log {ref} was not opened"))
            raise
        maker = LedgerMaker(ref, owner, self._ledgers, self._config)
        rotation = RotationRunner(
            ref,
            takeover,
            queue,
            maker,
            logs=self._logs,
            ledgers=self._ledgers,
            config=self._config,
            tidy=lambda record: self._retention.tidy(ref, record),
            clock=self._clock,
        )
        rotation.over.add_done_callback(lambda _: queue.close())
        rotation.start()
        # A simulated process that is killed closes nothing.
        return LogWriter(ref, owner, queue, rotation, warns=isinstance(self._environment, SystemEnvironment))

    async def _producers(
        self, ref: LogRef, takeover: TakeoverResult, given_up: Collection[LedgerId]
    ) -> Producers | None:
        """What each producer has in the log; None if that cannot be read, which must not stop other appends.

        Source: docs/log-semantics.md#rule-36.
        """
        listed = self._logs.ledger_list(ref, takeover.record)
        try:
            async with asyncio.timeout(_PRODUCERS_S_MAX):
                return await find_producers(
                    self._ledgers,
                    listed,
                    self._config.password,
                    given_up=given_up,
                    last_envelopes=takeover.last_envelopes,
                )
        except (TimeoutError, LogStoreError) as error:
            _no_producers_yet(ref, _why_unread(error))
            return None

    def _explained(self, error: NotEnoughBookiesError) -> NotEnoughBookiesError:
        uri, quorum = self._ledgers.store.uri, self._config.quorum
        bookies = self._ledgers.bookies()
        live, full = len(bookies.writable), len(bookies.read_only)
        if live:
            least = quorum.ack if self._config.degraded is DegradedPolicy.ALLOW else quorum.ensemble
            remedy = f", {full} more {_FULL}, or start" if full else ": start"
            return NotEnoughBookiesError(
                f"a log needs at least {least} writable bookies, and {quorum.ensemble} for all copies, but only {live} "
                f"can be written at {uri}{remedy} more with `bookie start`",
                **error.facts,
            )
        if full:
            return NotEnoughBookiesError(
                f"no bookie can be written at {uri}, {full} {_FULL}, or start more with `bookie start`; "
                "`bookie ls` lists them",
                **error.facts,
            )
        return NotEnoughBookiesError(
            f"no bookie is registered at {uri}: start some with `bookie start`, "
            "or a whole local cluster with `dlog standalone`",
            **error.facts,
        )


def owner_wait(limit_s: float | None, *, hand_over: bool) -> OwnerWait | None:
    """Checked arguments of `open_writer`; None: the owner is not waited for."""
    require_type("hand_over", hand_over, bool)
    if limit_s is None:
        if not hand_over:
            raise ConfigurationError(
                "hand_over=False needs wait_for_current_owner: without it the current writer is not waited for, but "
                "fenced; pass seconds, or math.inf to wait until it ends"
            )
        return None
    if limit_s != math.inf:
        require_type("wait_for_current_owner", limit_s, float)
    if not limit_s >= 0:
        raise ConfigurationError(f"wait_for_current_owner must be 0 or more seconds, got {limit_s}")
    return OwnerWait(limit_s, hand_over)


def _why_unread(error: TimeoutError | LogStoreError) -> str:
    if isinstance(error, TimeoutError):
        return f"not read within {_PRODUCERS_S_MAX:g} s; `producer` tries again"
    if isinstance(error, LedgerNotFoundError):
        return f"{error}; {way_out_of_loss(error.ledger_id, sealed=False)}"
    if isinstance(error, MetadataFormatError) and is_damaged_ledger(error):
        return f"{error}; or {GIVE_UP.format(error.key)}"
    return str(error)


def _no_producers_yet(ref: LogRef, why: str) -> None:
    _log.warning("log %s: its producers cannot append yet: their state cannot be read: %s", ref, why)


def require_ledger_ids(given_up: Collection[LedgerId]) -> None:
    """Check the ids of ledgers that a caller gives up."""
    require_type("given_up", given_up, list, tuple, set, frozenset)
    for ledger_id in given_up:
        require_type("a ledger id in given_up", ledger_id, int)
