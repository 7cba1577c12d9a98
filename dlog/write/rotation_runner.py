"""Carries out the decisions about a writer's ledgers (dlog/core/rotation.py), and brings it what happens to them.

It listens to the handles of at most two ledgers, delivers acks by the run, and runs one short task for each
request to the store or to the bookies. Acks are delivered only while the epoch was confirmed recently enough
(docs/log-semantics.md#rule-25).

Pitfall: docs/pitfalls.md#append-sent-again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import assert_never

from dlog.config import LogConfig
from dlog.core import rotation_commands as to
from dlog.core.metadata_update import Applied, same_ownership
from dlog.core.rotation import Phase, Rotation
from dlog.core.rotation_commands import Command
from dlog.core.takeover import describe_owner
from dlog.errors import AppendAbortedError, LogNotFoundError, RecordTooLargeError, WriterDeposedError
from dlog.metadata.grace import deletions_are_durable
from dlog.metadata.store import LogRef, LogStore
from dlog.model import NO_MESSAGE, LogRecord, MessageId
from dlog.write.active_ledger import Lane
from dlog.write.append_deadline import AppendDeadline
from dlog.write.append_queue import AppendQueue
from dlog.write.epoch_guard import EpochGuard
from dlog.write.ledger_creation import LedgerMaker
from dlog.write.ledger_recovery import last_message
from dlog.write.rotation_monitor import FullnessWatch
from dlog.write.takeover_runner import Claim
from dlog.write.task_scope import Chores
from ledger.client import LedgerClient
from ledger.errors import (
    ConfigurationError,
    LedgerFencedError,
    LedgerNotFoundError,
    LogStoreError,
    MetadataUnavailableError,
)
from ledger.model import LedgerId, Versioned
from ledger.write_handle import WriteHandle

_log = logging.getLogger(__name__)

_RETRY_FIRST_S = 0.05
_RETRY_MAX_S = 5.0
_DRAIN_PATIENCE_S = 0.05
"""A drain that takes longer has the store probed, so that appends go on if the store is away."""


class Succession:
    """The ledgers of one writer, from its takeover on."""

    def __init__(
        self,
        ref: LogRef,
        claim: Claim,
        queue: AppendQueue,
        maker: LedgerMaker,
        *,
        logs: LogStore,
        ledgers: LedgerClient,
        config: LogConfig,
        collect: Callable[[], Awaitable[object]],
    ) -> None:
        assert claim.lane is not None
        self._ref = ref
        self._queue = queue
        self._maker = maker
        self._logs = logs
        self._ledgers = ledgers
        self._config = config
        self._collect = collect
        self._environment = ledgers.environment
        self._loop = asyncio.get_running_loop()
        self._machine = Rotation(claim.record, claim.version, claim.lane.ledger_id)
        self._lanes: dict[LedgerId, Lane] = {}
        self._draining: LedgerId | None = None
        self._commands: deque[Command] = deque()
        self._carrying_out = False
        self._chores = Chores(self._on_fault)
        self._stall: asyncio.TimerHandle | None = None
        self._deadline = AppendDeadline(
            config.hold_limit_s,
            oldest=self._oldest_pending,
            on_slow=self._on_slow,
            on_overdue=self._on_overdue,
        )
        queue.deadline = self._deadline
        self._guard = EpochGuard(
            ledgers.environment, lambda: self._machine.record.grace_us / 1e6, claim.confirmed_at
        )
        self._fullness = FullnessWatch(
            config,
            ledgers.bookies,
            self._chores,
            on_due=lambda: self._apply(self._machine.on_rotation_due()),
            on_hard_limit=lambda: self._apply(self._machine.on_hard_limit()),
        )
        self._looking = False
        self._look_again = False
        self._over_error: LogStoreError | None = None
        self._trouble: LogStoreError | None = None
        """What has last stood in the way of a ledger that takes appends, for whoever waits for one in vain."""
        self._warned = ""
        self._rotated: list[asyncio.Future[LedgerId]] = []
        self.over: asyncio.Future[None] = self._loop.create_future()
        """Done when the writer is closed, deposed or has given up, and every append is settled."""
        self._add_lane(claim.lane)
        self._unwatch = logs.watch(ref, self._look_again_at_record)

    # ---- facts

    @property
    def record(self) -> LogRecord:
        return self._machine.record

    @property
    def phase(self) -> Phase:
        return self._machine.phase

    @property
    def current(self) -> Lane | None:
        current = self._machine.current
        return None if current is None else self._lanes.get(current)

    # ---- what the writer asks

    def start(self) -> None:
        self._apply(self._machine.start())
        self._look_again_at_record()  # what changed before the watch was there went unnoticed
        lane = self.current
        if lane is not None and lane.handle.failed is not None:
            self.on_failure(lane.handle, lane.handle.failed)

    def rotate(self) -> asyncio.Future[LedgerId]:
        """Replace the ledger in use, empty ones excepted; the future gets the ledger in use afterwards."""
        done: asyncio.Future[LedgerId] = self._loop.create_future()
        if self.over.done():
            assert self._over_error is not None
            done.set_exception(type(self._over_error)(str(self._over_error), **self._over_error.facts))
            return done
        lane = self.current
        if lane is not None and not lane.use.entries_taken and self._machine.phase is Phase.STEADY:
            done.set_result(lane.ledger_id)
            return done
        self._rotated.append(done)
        self._apply(self._machine.on_rotation_due())
        return done

    def close(self) -> None:
        """Settle everything accepted, seal the last ledger and record it; then `over` is done."""
        self._apply(self._machine.on_close_requested(left=self._queue.holding))

    def give_up(self, error: LogStoreError) -> None:
        """Stop at once: in-flight appends end indeterminate, held ones absent."""
        if self.over.done():
            return
        self._machine.give_up()
        self._queue.fail_held(error)
        self._end(error)

    async def last_sealed_message(self) -> MessageId:
        """The last message in the log's sealed ledgers, NO_MESSAGE if there is none."""
        for listed in reversed(self._machine.record.ledgers):
            if listed.seal is not None and listed.seal.last_entry >= 0:
                return await last_message(self._ledgers, listed.ledger_id, self._config.password)
        return NO_MESSAGE

    # ---- what the handles tell (WriteListener)

    def on_progress(self, handle: WriteHandle, done_through: int) -> None:
        """Entries are durable and visible; called once for a whole run of them."""
        lane = self._lanes.get(handle.ledger_id)
        if lane is not None and lane.released and not lane.detached:
            self._deliver(lane, done_through)
            self._fullness.look()

    def on_failure(self, handle: WriteHandle, error: LogStoreError) -> None:
        lane = self._lanes.get(handle.ledger_id)
        if lane is None or lane.detached:
            return
        if self._machine.over:
            self._queue.fail_indeterminate(lane, self._over_error or error)
            return
        self._warn(f"ledger {lane.ledger_id} takes no more appends: {error}")
        self._trouble = error
        self._apply(self._machine.on_failed(lane.ledger_id, fenced=isinstance(error, LedgerFencedError)))

    def _deliver(self, lane: Lane, through: int) -> None:
        if self._guard.stale and not deletions_are_durable([lane.handle.metadata], self._ledgers.bookies()):
            if self._machine.over:
                self._queue.fail_indeterminate(lane, self._over_error or _unconfirmed(self._ref))
            else:
                self._look_again_at_record()
            return
        entries, size = lane.deliver(through)
        if entries:
            self._queue.on_acked(entries, size)
        if self._draining == lane.ledger_id:
            self._check_drained()

    def _check_drained(self) -> None:
        lane = None if self._draining is None else self._lanes.get(self._draining)
        if lane is not None and not lane.in_flight and lane.handle.failed is None:
            self._draining = None
            self._apply(self._machine.on_drained(lane.ledger_id))

    # ---- carrying out

    def _apply(self, commands: list[Command]) -> None:
        """Carry out in order; what a command brings about at once is carried out behind the rest."""
        self._commands.extend(commands)
        if self._carrying_out:
            return
        self._carrying_out = True
        try:
            while self._commands:
                self._do(self._commands.popleft())
        finally:
            self._carrying_out = False
        self._watch_for_stall()

    def _do(self, command: Command) -> None:
        match command:
            case to.SubmitTo(ledger_id):
                self._queue.submit_to(self._lanes[ledger_id])
            case to.Hold():
                self._queue.hold()
            case to.Release(ledger_id):
                self._release(self._lanes[ledger_id])
            case to.CreateLedger():
                self._chores.spawn(self._create())
            case to.DiscardLedger(ledger_id):
                self._chores.spawn(self._discard(ledger_id))
            case to.WriteRecord(record, version):
                self._chores.spawn(self._write(record, version))
            case to.ReadRecord():
                self._chores.spawn(self._reread())
            case to.Drain(ledger_id):
                self._drain(ledger_id)
            case to.CloseLedger(ledger_id):
                self._chores.spawn(self._close_ledger(self._lanes[ledger_id]))
            case to.Settle(ledger_ids):
                self._chores.spawn(self._settle([self._lanes[one] for one in ledger_ids]))
            case to.Retry(attempt):
                self._chores.later(self._pause_s(attempt), self._retry)
            case to.ProbeStore():
                self._chores.spawn(self._probe())
            case to.WaitForCandidate():
                wait_s = self._config.candidate_wait_s * self._environment.chance.uniform(0.75, 1.25)
                self._chores.later(wait_s, lambda: self._apply(self._machine.on_waited()))
            case to.Depose(found):
                self._depose(found)
            case to.Finished():
                self._end(AppendAbortedError(f"the writer of log {self._ref} is closed"))
            case _:
                assert_never(command)

    def _release(self, lane: Lane) -> None:
        """The ledger is the one in use: deliver what it has, and let go of the one before."""
        if lane.use.degraded:
            _log.warning(
                "log %s: ledger %s has fewer bookies than configured; a full ensemble follows once there is one",
                self._ref,
                lane.ledger_id,
            )
        self._trouble = None
        self._warned = ""
        lane.released = True
        for ledger_id in [one for one in self._lanes if one < lane.ledger_id]:
            del self._lanes[ledger_id]
        self._deliver(lane, lane.handle.done_through)
        self._fullness.follow(lane.use)
        if self._machine.record.pending_delete:
            self._chores.spawn(self._collect_garbage())
        waiting, self._rotated = self._rotated, []
        for future in waiting:
            if not future.done():
                future.set_result(lane.ledger_id)

    def _drain(self, ledger_id: LedgerId) -> None:
        self._draining = ledger_id
        if self._machine.phase is Phase.DRAINING:
            self._chores.later(_DRAIN_PATIENCE_S, lambda: self._probe_store(ledger_id))
        self._check_drained()

    def _probe_store(self, ledger_id: LedgerId) -> None:
        if self._draining == ledger_id and self._machine.phase is Phase.DRAINING:
            self._chores.spawn(self._probe())

    def _retry(self) -> None:
        self._apply(self._machine.on_retry(self._environment.wall_us(), self._environment.token()))

    def _pause_s(self, attempt: int) -> float:
        bound = min(_RETRY_MAX_S, _RETRY_FIRST_S * 2.0 ** min(attempt, 20)) if attempt else 0.0
        return self._environment.chance.uniform(bound / 2, bound)

    # ---- requests: each ends in one event

    async def _create(self) -> None:
        try:
            lane = await self._maker.create(self._machine.record.epoch)
        except LogStoreError as error:
            self._warn(f"no new ledger could be created: {error}")
            self._trouble = error
            self._fail_rotations(error)
            self._apply(self._machine.on_create_failed())
            return
        self._add_lane(lane)
        now_us, nonce = self._environment.wall_us(), self._environment.token()
        self._apply(self._machine.on_ledger_created(lane.ledger_id, now_us, nonce))

    async def _discard(self, ledger_id: LedgerId) -> None:
        lane = self._lanes.pop(ledger_id, None)
        if lane is not None:
            lane.detach(LogStoreError(f"ledger {ledger_id} was never listed"))
        try:
            await self._ledgers.delete(ledger_id)
        except LogStoreError:
            return  # an orphan; the sweep finds it by its tags

    async def _write(self, record: LogRecord, version: int) -> None:
        asked_at = self._guard.now()
        try:
            answer = await self._logs.compare_and_set(self._ref, record, version)
        except (MetadataUnavailableError, RecordTooLargeError) as error:
            self._warn(f"its record could not be changed: {error}")
            self._trouble = error
            self._fail_rotations(error)
            self._apply(self._machine.on_store_unavailable())
            return
        if isinstance(answer, Applied):
            self._guard.confirm(asked_at)
        now_us, nonce = self._environment.wall_us(), self._environment.token()
        self._apply(self._machine.on_answer(answer, now_us, nonce))

    async def _read(self) -> Versioned[LogRecord] | None:
        """The record, however long it takes; None if it is gone."""
        attempt = 0
        while True:
            asked_at = self._guard.now()
            try:
                read = await self._logs.read(self._ref)
            except LogNotFoundError:
                return None
            except MetadataUnavailableError:
                attempt += 1
                await asyncio.sleep(self._pause_s(attempt))
                continue
            if same_ownership(self._machine.record, read.value):
                self._guard.confirm(asked_at)
            return read

    async def _reread(self) -> None:
        self._apply(self._machine.on_record(await self._read()))

    async def _look_at_record(self) -> None:
        while self._look_again:
            self._look_again = False
            self._apply(self._machine.on_record_seen(await self._read()))
        self._looking = False
        for lane in list(self._lanes.values()):
            if lane.released and not lane.detached:
                self._deliver(lane, lane.handle.done_through)

    async def _probe(self) -> None:
        try:
            async with asyncio.timeout(self._config.store_probe_s):
                await self._logs.read(self._ref)
        except (TimeoutError, MetadataUnavailableError):
            self._apply(self._machine.on_store_unreachable())
        except LogNotFoundError:
            self._apply(self._machine.on_store_reachable())  # the close will tell
        else:
            self._apply(self._machine.on_store_reachable())

    async def _collect_garbage(self) -> None:
        """Delete what left the list and is due; whoever owns the log next tries again."""
        with suppress(LogStoreError):
            await self._collect()

    async def _close_ledger(self, lane: Lane) -> None:
        try:
            metadata = await lane.handle.close()
        except LedgerFencedError:
            if not lane.detached:
                self._apply(self._machine.on_failed(lane.ledger_id, fenced=True))
        except LedgerNotFoundError:
            self._apply(self._machine.on_ledger_gone())
        except LogStoreError:
            if not lane.detached:
                self._apply(self._machine.on_close_undecided())
        else:
            nonce = self._environment.token()
            self._apply(self._machine.on_closed(lane.ledger_id, lane.seal_facts(metadata), nonce))

    async def _settle(self, lanes: list[Lane]) -> None:
        """Recover own ledgers in list order; only then decide the appends that were in flight in them."""
        for lane in lanes:
            # First of all: our own fence must not look like somebody's takeover.
            lane.detach(LogStoreError(f"ledger {lane.ledger_id} is being recovered by its own writer"))
        ends = []
        for lane in lanes:
            try:
                handle = await self._ledgers.open_with_recovery(lane.ledger_id, self._config.password)
            except LedgerNotFoundError:
                self._apply(self._machine.on_ledger_gone())
                return
            except ConfigurationError as error:
                # As when bookies refuse this client: trying again changes nothing.
                if not self._machine.over:
                    why = f"log {self._ref} cannot be written: {error}"
                    self.give_up(AppendAbortedError(why, log=str(self._ref)))
                return
            except LogStoreError as error:
                self._warn(f"ledger {lane.ledger_id} is not settled yet: {error}")
                self._trouble = error
                self._apply(self._machine.on_settle_failed())
                return
            ends.append(handle.metadata)
        if self._machine.over:
            return
        left = []
        seals = {}
        for lane, metadata in zip(lanes, ends, strict=True):
            self._queue.on_acked(*lane.deliver(metadata.last_entry))
            left += lane.take_back()
            seals[lane.ledger_id] = lane.seal_facts(metadata)
        self._queue.take_back(left)
        self._apply(self._machine.on_settled(seals, left=self._queue.holding))

    # ---- the record

    def _look_again_at_record(self) -> None:
        self._look_again = True
        if not self._looking and not self._machine.over:
            self._looking = True
            self._chores.spawn(self._look_at_record())

    # ---- appends that wait

    def _oldest_pending(self) -> float | None:
        """When the oldest append without an outcome was accepted, in loop time."""
        accepted = [lane.oldest_at for lane in self._lanes.values()]
        accepted.append(self._queue.oldest_held_at)
        return min((at for at in accepted if at is not None), default=None)

    def _on_slow(self, waited_s: float) -> None:
        _log.warning(
            "log %s: an append has waited %.0f s, still trying up to %g s: %s",
            self._ref,
            waited_s,
            self._config.hold_limit_s,
            self._why_slow(),
        )

    def _on_overdue(self) -> None:
        """In-flight appends end indeterminate, held ones rejected; nothing waits for longer.

        Source: docs/log-semantics.md#rule-19.
        """
        if self._machine.over:
            return  # deposed or closed: its appends are about to be settled
        self.give_up(
            AppendAbortedError(
                f"log {self._ref}: an append was not acknowledged within {self._config.hold_limit_s:g} s "
                f"({self._why_slow()}); restore its bookies and the metadata store, then open a new writer, or raise "
                "hold_limit_s (`dlog append --timeout`)",
                log=str(self._ref),
            )
        )

    def _why_slow(self) -> str:
        """Who does not do what appends need, by name."""
        found = [
            f"ledger {lane.ledger_id}: {', '.join(troubles)}"
            for lane in self._lanes.values()
            if not lane.detached and (troubles := lane.handle.troubles())
        ]
        if self._trouble is not None:
            found.append(str(self._trouble))
        return "; ".join(found) or "its bookies respond slowly"

    def _warn(self, text: str) -> None:
        """Once, until something else is the matter or all is well: what is tried again fails again the same way."""
        if text != self._warned:
            self._warned = text
            _log.warning("log %s: %s", self._ref, text)

    # ---- the end

    def _watch_for_stall(self) -> None:
        """Appends that wait for a ledger, and a close that waits for the store, have the hard limit.

        Source: docs/log-semantics.md#rule-19.
        """
        machine, queue = self._machine, self._queue
        stuck = queue.lane is None or machine.phase in (Phase.CLOSING, Phase.SETTLING)
        stuck = (stuck and not machine.merely_full) or (machine.closing and not queue.in_flight)
        stalled = stuck and not machine.over
        if not stalled and self._stall is not None:
            self._chores.cancel(self._stall)
            self._stall = None
        elif stalled and self._stall is None:
            self._stall = self._chores.later(self._config.hold_limit_s, self._on_stall)

    def _on_stall(self) -> None:
        because = "" if self._trouble is None else f" ({self._trouble})"
        self.give_up(
            AppendAbortedError(
                f"log {self._ref} could not be written for {self._config.hold_limit_s} s{because}; "
                "open a new writer once its bookies and the metadata store are back",
                log=str(self._ref),
            )
        )

    def _depose(self, found: LogRecord | None) -> None:
        """Terminal: what was held is absent; what is in flight may yet succeed, for a little while."""
        known = "" if found is None else f" by {describe_owner(found.owner)} in epoch {found.epoch}"
        error = WriterDeposedError(
            f"log {self._ref} was taken over{known}; this writer takes no more appends",
            log=str(self._ref),
            epoch=None if found is None else found.epoch,
            owner=None if found is None else found.owner,
        )
        _log.warning("%s", error)
        self._over_error = error
        self._queue.fail_held(error)
        waiting = False
        for lane in self._lanes.values():
            if lane.released and not lane.detached and lane.handle.failed is None and lane.in_flight:
                waiting = True
            else:
                self._queue.fail_indeterminate(lane, error)
        self._chores.later(self._config.late_success_s if waiting else 0, lambda: self._end(error))

    def _end(self, error: LogStoreError) -> None:
        if self.over.done():
            return
        self._over_error = error
        self._queue.refuse(error)
        for lane in self._lanes.values():
            lane.detach(error)
            self._queue.fail_indeterminate(lane, error)
        self._fail_rotations(error)
        self._deadline.stop()
        self._unwatch()
        self._chores.stop()
        self.over.set_result(None)

    def _fail_rotations(self, error: LogStoreError) -> None:
        waiting, self._rotated = self._rotated, []
        for future in waiting:
            if not future.done():
                future.set_exception(type(error)(str(error), **error.facts))

    # ---- parts

    def _add_lane(self, lane: Lane) -> None:
        self._lanes[lane.ledger_id] = lane
        lane.handle.listener = self

    def _on_fault(self, error: BaseException) -> None:
        """An error that no event stands for ends the writer instead of leaving it half alive."""
        if isinstance(error, LogStoreError):
            self.give_up(error)
            return
        self.give_up(LogStoreError(f"the writer of log {self._ref} stopped by a fault of its own: {error!r}"))
        raise error


def _unconfirmed(ref: LogRef) -> LogStoreError:
    return AppendAbortedError(f"the ownership of log {ref} could not be confirmed in time", log=str(ref))
