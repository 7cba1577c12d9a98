"""Executes the decisions about a writer's ledgers (dlog/core/rotation.py), and reports events to them.

It listens to the handles of at most two ledgers, delivers acks by the run, and runs one short task for each
request to the store or to the bookies. Acks are delivered only while the epoch was confirmed recently enough
(docs/log-semantics.md#rule-25).

Pitfall: docs/pitfalls.md#append-sent-again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import assert_never

from dlog.config import LogConfig
from dlog.core import commands as to
from dlog.core.commands import RotationCommand as Command
from dlog.core.metadata_update import Applied, same_ownership
from dlog.core.rotation import Phase, Rotation
from dlog.core.takeover import describe_loss, describe_owner
from dlog.errors import (
    AppendAbortedError,
    DataLossError,
    LogNotFoundError,
    RecordTooLargeError,
    WriterDeposedError,
)
from dlog.ledger_list.ledger_list import LedgerList
from dlog.metadata.fresh_record import GIVE_UP, with_fresh_record
from dlog.metadata.grace import EpochGuard, deletions_are_durable
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import NO_MESSAGE, LogMetadata, MessageId, Owner
from dlog.write.active_ledger import ActiveLedger, LedgerMaker
from dlog.write.append_deadline import DeadlineClock
from dlog.write.append_queue import AppendQueue
from dlog.write.hold_limit import HoldLimit
from dlog.write.ledger_recovery import last_message
from dlog.write.own_takeover import OwnTakeover
from dlog.write.owner_inbox import OwnerInbox
from dlog.write.producer_recovery import Producers, find_producers
from dlog.write.record_watch import RecordWatch
from dlog.write.rotation_monitor import RotationMonitor
from dlog.write.takeover_runner import TakeoverResult
from dlog.write.task_scope import TaskScope
from dlog.write.tidying import Tidy, Tidying
from ledger.client import LedgerClient
from ledger.errors import (
    ConfigurationError,
    LedgerFencedError,
    LedgerNotFoundError,
    LogStoreError,
    MetadataUnavailableError,
)
from ledger.model import LedgerId, Versioned
from ledger.writing.write_handle import WriteHandle

_log = logging.getLogger(__name__)

_RETRY_FIRST_S = 0.05
_RETRY_MAX_S = 5.0
_DRAIN_PATIENCE_S = 0.05
"""If a drain takes longer, the store is probed, so that appends continue if it is unavailable."""
_FIRST_APPEND_S = 0.005
"""A new ledger's first append waits for nothing that can wait as long as this."""
_PROBE_S_MAX = 5.0
"""Longest time that a probe waits for a store that was slow before: a drain may hold appends for as long."""


class RotationRunner:
    """The ledgers of one writer, from its takeover to its end."""

    __slots__ = (
        "_active_ledgers",
        "_carrying_out",
        "_commands",
        "_config",
        "_draining",
        "_environment",
        "_fullness",
        "_guard",
        "_handed_over",
        "_inbox",
        "_ledgers",
        "_logs",
        "_loop",
        "_machine",
        "_maker",
        "_over_error",
        "_probe_s",
        "_queue",
        "_ref",
        "_rotated",
        "_tasks",
        "_tidying",
        "_waits",
        "_watch",
        "over",
    )

    def __init__(
        self,
        ref: LogRef,
        takeover: TakeoverResult,
        queue: AppendQueue,
        maker: LedgerMaker,
        *,
        logs: LogMetadataStore,
        ledgers: LedgerClient,
        config: LogConfig,
        tidy: Tidy,
        clock: DeadlineClock,
    ) -> None:
        assert takeover.active_ledger is not None
        self._ref = ref
        self._queue = queue
        self._maker = maker
        self._logs = logs
        self._ledgers = ledgers
        self._config = config
        self._environment = ledgers.environment
        self._loop = asyncio.get_running_loop()
        self._machine = Rotation(takeover.record, takeover.version, takeover.active_ledger.ledger_id)
        self._active_ledgers: dict[LedgerId, ActiveLedger] = {}
        self._draining: LedgerId | None = None
        self._probe_s = config.store_probe_s  # how long the next probe waits for the store
        self._commands: deque[Command] = deque()
        self._carrying_out = False
        self._tasks = TaskScope(self._on_fault)
        self._tidying = Tidying(ref, self._tasks, tidy)
        self._waits = HoldLimit(
            ref, config, self._tasks, self._machine, queue, self._active_ledgers, clock, give_up=self.give_up
        )
        self._guard = EpochGuard(ledgers.environment, self._grace_s, takeover.confirmed_at)
        self._fullness = RotationMonitor(
            config,
            ledgers.bookies,
            self._tasks,
            on_due=lambda: self._apply(self._machine.on_rotation_due()),
            on_hard_limit=lambda: self._apply(self._machine.on_hard_limit()),
            on_check=lambda: self._inbox.on_check(),
        )
        self._watch = RecordWatch(
            logs,
            ref,
            self._guard,
            self._tasks,
            ours=lambda: self._machine.record,
            pause_s=self._pause_s,
            on_seen=self._on_record_seen,
            on_confirmed=self._deliver_confirmed,
        )
        self._inbox = OwnerInbox(logs.requests, ref, self._tasks, self._pause_s, self.rotate, self._hand_over)
        self._handed_over: WriterDeposedError | None = None
        self._over_error: LogStoreError | None = None
        self._rotated: list[asyncio.Future[LedgerId]] = []
        self.over: asyncio.Future[None] = self._loop.create_future()
        """Done when the writer is closed, deposed or has given up, and every append has its outcome."""
        self._add_active_ledger(takeover.active_ledger)

    # ---- facts

    @property
    def record(self) -> LogMetadata:
        return self._machine.record

    @property
    def phase(self) -> Phase:
        return self._machine.phase

    @property
    def current(self) -> ActiveLedger | None:
        current = self._machine.current
        return None if current is None else self._active_ledgers.get(current)

    # ---- what the writer asks

    def start(self) -> None:
        self._apply(self._machine.start())
        # A change before the watch was set went unnoticed.
        self._tasks.later(_FIRST_APPEND_S, self._watch.read_again)
        self._report_failed()

    def rotate(self) -> asyncio.Future[LedgerId]:
        """Replace the active ledger unless it is empty; the future gets the id of the ledger then active."""
        done: asyncio.Future[LedgerId] = self._loop.create_future()
        if self.over.done():
            assert self._over_error is not None
            done.set_exception(self._over_error.copy())
            return done
        active_ledger = self.current
        if (
            active_ledger is not None
            and not active_ledger.use.entries_taken
            and self._machine.phase is Phase.STEADY
        ):
            done.set_result(active_ledger.ledger_id)
            return done
        self._rotated.append(done)
        self._apply(self._machine.on_rotation_due())
        return done

    def close(self) -> None:
        """Wait for every outcome, seal the last ledger and record the seal; then `over` is done."""
        self._apply(self._machine.on_close_requested(holding=self._queue.holding))
        # From then on only the store is waited for, perhaps by a request that was sent before: no event follows.
        self._queue.flushed().add_done_callback(lambda _: self._waits.update())

    def give_up(self, error: LogStoreError) -> None:
        """Stop immediately: appends in flight end indeterminate, held ones absent."""
        if self.over.done():
            return
        self._machine.give_up()
        self._queue.fail_held(error)
        self._end(error)

    def _hand_over(self, requester: Owner) -> None:
        """End as `close` does, for another client, unless that is not wanted (docs/log-semantics.md#rule-22b)."""
        if not self._config.hands_over or self._machine.over:
            return
        if self._handed_over is None:
            self._handed_over = WriterDeposedError(
                f"log {self._ref} was handed over to {describe_owner(requester)}, which asked for it: this writer "
                "accepts no more appends",
                log=str(self._ref),
                owner=requester,
            )
            _log.info("%s", self._handed_over)
        self._queue.flush()
        self._queue.refuse(self._handed_over)
        self.close()

    async def last_sealed_message(self) -> MessageId:
        """The last message in the log's sealed ledgers, NO_MESSAGE if there is none, also after a trim.

        Raises:
            DataLossError: its ledger is listed and does not exist.
            ReadError, MetadataUnavailableError: it cannot be read now.
            LogNotFoundError: the log was deleted.
        """

        async def look(ledgers: LedgerList) -> MessageId:
            async for listed in ledgers.walk_back():
                if listed.seal is not None and listed.seal.last_entry >= 0:
                    return await last_message(self._ledgers, listed.ledger_id, self._config.password)
            return NO_MESSAGE

        return await with_fresh_record(self._logs, self._ref, self._environment, look, "the last message")

    async def learn_producers(self) -> None:
        """Read what the log's producers have appended, if that was not possible when the log was taken over.

        Raises:
            ConfigurationError: as of `ProducerRegistry.learn`.
            DataLossError: it is lost.
            ReadError, MetadataUnavailableError: it cannot be read now.
            LogNotFoundError: the log was deleted.
        """
        producers = self._queue.producers
        if not producers.known:

            async def look(ledgers: LedgerList) -> Producers:
                return await find_producers(self._ledgers, ledgers, self._config.password)

            what = "what the producers have appended"
            producers.learn(
                await with_fresh_record(self._logs, self._ref, self._environment, look, what, without=GIVE_UP)
            )

    # ---- events of the handles (WriteListener)

    def on_progress(self, handle: WriteHandle, done_through: int) -> None:
        """Entries are durable and visible; called once for a whole run of them."""
        active_ledger = self._active_ledgers.get(handle.ledger_id)
        if active_ledger is not None and active_ledger.released and not active_ledger.detached:
            self._deliver(active_ledger, done_through)
            self._fullness.on_acks()

    def on_failure(self, handle: WriteHandle, error: LogStoreError) -> None:
        active_ledger = self._active_ledgers.get(handle.ledger_id)
        if active_ledger is None or active_ledger.detached:
            return
        if self._machine.over:
            self._queue.fail_indeterminate(active_ledger, self._over_error or error)
            return
        self._waits.report(f"ledger {active_ledger.ledger_id} takes no more appends", error)
        self._apply(
            self._machine.on_failed(active_ledger.ledger_id, fenced=isinstance(error, LedgerFencedError))
        )

    def _deliver(self, active_ledger: ActiveLedger, through: int) -> None:
        if self._guard.stale and not deletions_are_durable(
            [active_ledger.handle.metadata], self._ledgers.bookies()
        ):
            if self._machine.over:
                assert self._over_error is not None, "the command that ends the machine ends the writer"
                self._queue.fail_indeterminate(active_ledger, self._over_error)
            else:
                self._watch.read_again()
            return
        entries, size = active_ledger.deliver(through)
        if entries:
            self._queue.on_acked(entries, size)
        if self._draining == active_ledger.ledger_id:
            self._check_drained()

    def _deliver_confirmed(self) -> None:
        for active_ledger in list(self._active_ledgers.values()):
            if active_ledger.released and not active_ledger.detached:
                self._deliver(active_ledger, active_ledger.handle.done_through)

    def _check_drained(self) -> None:
        active_ledger = None if self._draining is None else self._active_ledgers.get(self._draining)
        if active_ledger is not None and not active_ledger.in_flight and active_ledger.handle.failed is None:
            self._draining = None
            self._apply(self._machine.on_drained(active_ledger.ledger_id))

    # ---- commands

    def _apply(self, commands: list[Command]) -> None:
        """Execute commands in order; commands caused by a command are appended to the queue."""
        self._commands.extend(commands)
        if self._carrying_out:
            return
        self._carrying_out = True
        try:
            while self._commands:
                self._do(self._commands.popleft())
        finally:
            self._carrying_out = False
        self._waits.update()

    def _do(self, command: Command) -> None:
        match command:
            case to.SubmitTo(ledger_id):
                self._queue.submit_to(self._active_ledgers[ledger_id])
            case to.Hold():
                self._queue.hold()
            case to.Release(ledger_id):
                self._release(self._active_ledgers[ledger_id])
            case to.CreateLedger(epoch):
                self._tasks.spawn(self._create(epoch))
            case to.DiscardLedger(ledger_id):
                self._tasks.spawn(self._discard(ledger_id))
            case to.WriteRecord(record, version):
                self._tasks.spawn(self._write(record, version))
            case to.Drain(ledger_id):
                self._drain(ledger_id)
            case to.CloseLedger(ledger_id):
                self._tasks.spawn(self._close_ledger(self._active_ledgers[ledger_id]))
            case to.Recover(fenced):
                self._tasks.spawn(self._recover(fenced=fenced))
            case to.Retry(attempt):
                self._tasks.later(self._pause_s(attempt), self._retry)
            case to.ProbeStore():
                self._tasks.spawn(self._probe())
            case to.Depose(found):
                self._depose(found)
            case to.Finished():
                closed = AppendAbortedError(f"the writer of log {self._ref} is closed", log=str(self._ref))
                self._end(self._handed_over or closed)
            case _:
                assert_never(command)

    def _release(self, active_ledger: ActiveLedger) -> None:
        """This ledger is the active one: deliver its acks and drop the one before."""
        if active_ledger.use.degraded:
            _log.warning(
                "log %s: ledger %s has fewer bookies than configured; a full ensemble follows once there is one",
                self._ref,
                active_ledger.ledger_id,
            )
        self._waits.on_progress()
        active_ledger.released = True
        for ledger_id in [one for one in self._active_ledgers if one < active_ledger.ledger_id]:
            del self._active_ledgers[ledger_id]
        self._deliver(active_ledger, active_ledger.handle.done_through)
        self._fullness.follow(active_ledger.use)
        self._tasks.later(_FIRST_APPEND_S, lambda: self._tidying.start(self._machine.record))
        waiting, self._rotated = self._rotated, []
        for future in waiting:
            if not future.done():
                future.set_result(active_ledger.ledger_id)

    def _drain(self, ledger_id: LedgerId) -> None:
        self._draining = ledger_id
        if self._machine.phase is Phase.DRAINING:
            self._tasks.later(_DRAIN_PATIENCE_S, lambda: self._probe_store(ledger_id))
        self._check_drained()

    def _probe_store(self, ledger_id: LedgerId) -> None:
        if self._draining == ledger_id and self._machine.phase is Phase.DRAINING:
            self._tasks.spawn(self._probe())

    def _retry(self) -> None:
        self._apply(self._machine.on_retry(self._environment.wall_us(), self._environment.token()))

    def _grace_s(self) -> float:
        return self._machine.record.grace_us / 1e6

    def _pause_s(self, attempt: int) -> float:
        bound = min(_RETRY_MAX_S, _RETRY_FIRST_S * 2.0 ** min(attempt, 20)) if attempt else 0.0
        return self._environment.rng.uniform(bound / 2, bound)

    # ---- requests: each ends in one event

    async def _create(self, epoch: int) -> None:
        try:
            active_ledger = await self._maker.create(epoch)
        except LogStoreError as error:
            self._on_delay("no new ledger could be created", error)
            self._apply(self._machine.on_create_failed())
            return
        self._add_active_ledger(active_ledger)
        now_us, nonce = self._environment.wall_us(), self._environment.token()
        self._apply(self._machine.on_ledger_created(active_ledger.ledger_id, now_us, nonce))

    async def _discard(self, ledger_id: LedgerId) -> None:
        active_ledger = self._active_ledgers.pop(ledger_id, None)
        if active_ledger is not None:
            active_ledger.detach(LogStoreError(f"ledger {ledger_id} was never listed"))
        try:
            await self._ledgers.delete(ledger_id)
        except LogStoreError:
            return  # an orphan; the sweep finds it by its tags

    async def _write(self, record: LogMetadata, version: int) -> None:
        asked_at = self._guard.now()
        try:
            answer = await self._logs.compare_and_set(self._ref, record, version)
        except (MetadataUnavailableError, RecordTooLargeError) as error:
            self._on_delay("its record could not be changed", error)
            self._apply(self._machine.on_store_unavailable())
            return
        if isinstance(answer, Applied):
            self._guard.confirm(asked_at)
            self._watch.own_change(version, answer.version)
        now_us, nonce = self._environment.wall_us(), self._environment.token()
        self._apply(self._machine.on_answer(answer, now_us, nonce))

    async def _probe(self) -> None:
        """Find out whether the store answers. After a timeout the next probe waits twice as long.

        Otherwise a full ledger would never be replaced on a store that is always slower than the first probe.
        """
        began = self._loop.time()
        try:
            async with asyncio.timeout(self._probe_s):
                await self._logs.read(self._ref)
        except TimeoutError:
            self._expect_answer_in(2 * self._probe_s)
            self._apply(self._machine.on_store_unreachable())
            return
        except MetadataUnavailableError:
            self._apply(self._machine.on_store_unreachable())
            return
        except LogNotFoundError:
            pass  # the close will report it
        self._expect_answer_in(2 * (self._loop.time() - began))
        self._apply(self._machine.on_store_reachable())

    def _expect_answer_in(self, seconds: float) -> None:
        longest_s = min(_PROBE_S_MAX, self._config.hold_limit_s / 4)
        self._probe_s = max(self._config.store_probe_s, min(seconds, longest_s))

    async def _close_ledger(self, active_ledger: ActiveLedger) -> None:
        try:
            metadata = await active_ledger.handle.close()
        except LedgerFencedError:
            if not active_ledger.detached:
                self._apply(self._machine.on_failed(active_ledger.ledger_id, fenced=True))
        except LedgerNotFoundError:
            # The log was deleted, or only the ledger's metadata is lost: taking the log over shows which.
            if not active_ledger.detached:
                self._apply(self._machine.on_failed(active_ledger.ledger_id, fenced=False))
        except LogStoreError:
            if not active_ledger.detached:
                self._apply(self._machine.on_close_undecided())
        else:
            nonce = self._environment.token()
            self._apply(
                self._machine.on_closed(active_ledger.ledger_id, active_ledger.seal_facts(metadata), nonce)
            )

    async def _recover(self, *, fenced: bool) -> None:
        takeover = OwnTakeover(
            self._ref,
            self._machine,
            self._queue,
            self._active_ledgers,
            logs=self._logs,
            ledgers=self._ledgers,
            config=self._config,
            pause_s=self._pause_s,
            on_delay=self._on_delay,
        )
        try:
            outcome = await takeover.run(fenced=fenced)
        except (ConfigurationError, DataLossError) as error:
            # For example, bookies refuse this client: a retry would fail, too.
            if not self._machine.over:
                self.give_up(self._unwritable(error))
            return
        if outcome is not None:
            self._on_recovered(outcome)

    def _on_recovered(self, outcome: TakeoverResult | to.Depose) -> None:
        if isinstance(outcome, to.Depose):
            self._apply(self._machine.on_lost(outcome.found))
            return
        self._guard.confirm(outcome.confirmed_at)
        new = outcome.active_ledger
        if new is not None:
            self._add_active_ledger(new)
        ledger_id, nonce = None if new is None else new.ledger_id, self._environment.token()
        self._apply(self._machine.on_recovered(outcome.record, outcome.version, ledger_id, nonce))
        self._report_failed()

    def _on_record_seen(self, read: Versioned[LogMetadata] | None) -> None:
        self._apply(self._machine.on_record_seen(read))
        # Another owner's is seen, too, before a change of ours that is under way is refused.
        ours = self._machine.record
        if read is not None and not self._machine.over and same_ownership(ours, read.value):
            self._inbox.on_record(read)

    # ---- the end

    def _depose(self, found: LogMetadata | None) -> None:
        """Terminal: held appends are absent; those in flight may still be acknowledged for `late_success_s`."""
        what = "was taken over or deleted" if found is None else describe_loss(found)
        error = WriterDeposedError(
            f"log {self._ref} {what}: this writer accepts no more appends",
            log=str(self._ref),
            epoch=None if found is None else found.epoch,
            owner=None if found is None else found.owner,
        )
        _log.warning("%s", error)
        self._over_error = error
        self._queue.fail_held(error)
        waiting = False
        for active_ledger in self._active_ledgers.values():
            if (
                active_ledger.released
                and not active_ledger.detached
                and active_ledger.handle.failed is None
                and active_ledger.in_flight
            ):
                waiting = True
            else:
                self._queue.fail_indeterminate(active_ledger, error)
        self._tasks.later(self._config.late_success_s if waiting else 0, lambda: self._end(error))

    def _end(self, error: LogStoreError) -> None:
        if self.over.done():
            return
        self._over_error = error
        self._queue.refuse(error)
        for active_ledger in self._active_ledgers.values():
            active_ledger.detach(error)
            self._queue.fail_indeterminate(active_ledger, error)
        self._fail_rotations(error)
        self._waits.stop()
        self._watch.stop()
        self._tasks.stop()
        self.over.set_result(None)

    def _on_delay(self, what: str, error: LogStoreError) -> None:
        """A request failed that will be made again; callers of `rotate` are told."""
        self._waits.report(what, error)
        self._fail_rotations(error)

    def _fail_rotations(self, error: LogStoreError) -> None:
        waiting, self._rotated = self._rotated, []
        for future in waiting:
            if not future.done():
                future.set_exception(error.copy())

    # ---- parts

    def _report_failed(self) -> None:
        """A ledger that failed before its handle was listened to."""
        active_ledger = self.current
        if active_ledger is not None and active_ledger.handle.failed is not None:
            self.on_failure(active_ledger.handle, active_ledger.handle.failed)

    def _add_active_ledger(self, active_ledger: ActiveLedger) -> None:
        self._active_ledgers[active_ledger.ledger_id] = active_ledger
        active_ledger.handle.listener = self

    def _on_fault(self, error: BaseException) -> None:
        """An error that no event covers ends the writer instead of leaving it half working."""
        if isinstance(error, LogStoreError):
            self.give_up(self._unwritable(error))
            return
        why = f"the writer of log {self._ref} stopped because of an internal error: {error!r}"
        self.give_up(AppendAbortedError(why, log=str(self._ref)))
        raise error

    def _unwritable(self, error: LogStoreError) -> AppendAbortedError:
        """What was not sent is certainly absent, whatever the class of the reason states."""
        aborted = AppendAbortedError(f"log {self._ref} cannot be written: {error}", log=str(self._ref))
        aborted.__cause__ = error
        return aborted
