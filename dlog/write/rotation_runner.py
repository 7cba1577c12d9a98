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
from dlog.metadata.store import LogMetadataStore, LogRef
from dlog.model import NO_MESSAGE, LogMetadata, MessageId
from dlog.write.active_ledger import ActiveLedger
from dlog.write.append_deadline import AppendDeadline
from dlog.write.append_queue import AppendQueue
from dlog.write.epoch_guard import EpochGuard
from dlog.write.ledger_creation import LedgerMaker
from dlog.write.ledger_recovery import last_message
from dlog.write.rotation_monitor import RotationMonitor
from dlog.write.takeover_runner import TakeoverResult
from dlog.write.task_scope import TaskScope
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


class RotationRunner:
    """The ledgers of one writer, from its takeover to its end."""

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
        collect: Callable[[], Awaitable[object]],
    ) -> None:
        assert takeover.active_ledger is not None
        self._ref = ref
        self._queue = queue
        self._maker = maker
        self._logs = logs
        self._ledgers = ledgers
        self._config = config
        self._collect = collect
        self._environment = ledgers.environment
        self._loop = asyncio.get_running_loop()
        self._machine = Rotation(takeover.record, takeover.version, takeover.active_ledger.ledger_id)
        self._active_ledgers: dict[LedgerId, ActiveLedger] = {}
        self._draining: LedgerId | None = None
        self._commands: deque[Command] = deque()
        self._carrying_out = False
        self._tasks = TaskScope(self._on_fault)
        self._stall: asyncio.TimerHandle | None = None
        self._deadline = AppendDeadline(
            config.hold_limit_s,
            oldest=self._oldest_pending,
            on_slow=self._on_slow,
            on_overdue=self._on_overdue,
        )
        queue.deadline = self._deadline
        self._guard = EpochGuard(
            ledgers.environment, lambda: self._machine.record.grace_us / 1e6, takeover.confirmed_at
        )
        self._fullness = RotationMonitor(
            config,
            ledgers.bookies,
            self._tasks,
            on_due=lambda: self._apply(self._machine.on_rotation_due()),
            on_hard_limit=lambda: self._apply(self._machine.on_hard_limit()),
        )
        self._looking = False
        self._look_again = False
        self._over_error: LogStoreError | None = None
        self._trouble: LogStoreError | None = None
        """The last error that kept a ledger from taking appends; named to callers that wait."""
        self._warned = ""
        self._rotated: list[asyncio.Future[LedgerId]] = []
        self.over: asyncio.Future[None] = self._loop.create_future()
        """Done when the writer is closed, deposed or has given up, and every append has its outcome."""
        self._add_active_ledger(takeover.active_ledger)
        self._unwatch = logs.watch(ref, self._look_again_at_record)

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
        self._look_again_at_record()  # a change before the watch was set went unnoticed
        active_ledger = self.current
        if active_ledger is not None and active_ledger.handle.failed is not None:
            self.on_failure(active_ledger.handle, active_ledger.handle.failed)

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
        self._apply(self._machine.on_close_requested(left=self._queue.holding))

    def give_up(self, error: LogStoreError) -> None:
        """Stop immediately: appends in flight end indeterminate, held ones absent."""
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

    # ---- events of the handles (WriteListener)

    def on_progress(self, handle: WriteHandle, done_through: int) -> None:
        """Entries are durable and visible; called once for a whole run of them."""
        active_ledger = self._active_ledgers.get(handle.ledger_id)
        if active_ledger is not None and active_ledger.released and not active_ledger.detached:
            self._deliver(active_ledger, done_through)
            self._fullness.look()

    def on_failure(self, handle: WriteHandle, error: LogStoreError) -> None:
        active_ledger = self._active_ledgers.get(handle.ledger_id)
        if active_ledger is None or active_ledger.detached:
            return
        if self._machine.over:
            self._queue.fail_indeterminate(active_ledger, self._over_error or error)
            return
        self._warn(f"ledger {active_ledger.ledger_id} takes no more appends: {error}")
        self._trouble = error
        self._apply(
            self._machine.on_failed(active_ledger.ledger_id, fenced=isinstance(error, LedgerFencedError))
        )

    def _deliver(self, active_ledger: ActiveLedger, through: int) -> None:
        if self._guard.stale and not deletions_are_durable(
            [active_ledger.handle.metadata], self._ledgers.bookies()
        ):
            if self._machine.over:
                self._queue.fail_indeterminate(active_ledger, self._over_error or _unconfirmed(self._ref))
            else:
                self._look_again_at_record()
            return
        entries, size = active_ledger.deliver(through)
        if entries:
            self._queue.on_acked(entries, size)
        if self._draining == active_ledger.ledger_id:
            self._check_drained()

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
        self._watch_for_stall()

    def _do(self, command: Command) -> None:
        match command:
            case to.SubmitTo(ledger_id):
                self._queue.submit_to(self._active_ledgers[ledger_id])
            case to.Hold():
                self._queue.hold()
            case to.Release(ledger_id):
                self._release(self._active_ledgers[ledger_id])
            case to.CreateLedger():
                self._tasks.spawn(self._create())
            case to.DiscardLedger(ledger_id):
                self._tasks.spawn(self._discard(ledger_id))
            case to.WriteRecord(record, version):
                self._tasks.spawn(self._write(record, version))
            case to.ReadRecord():
                self._tasks.spawn(self._reread())
            case to.Drain(ledger_id):
                self._drain(ledger_id)
            case to.CloseLedger(ledger_id):
                self._tasks.spawn(self._close_ledger(self._active_ledgers[ledger_id]))
            case to.Settle(ledger_ids):
                self._tasks.spawn(self._settle([self._active_ledgers[one] for one in ledger_ids]))
            case to.Retry(attempt):
                self._tasks.later(self._pause_s(attempt), self._retry)
            case to.ProbeStore():
                self._tasks.spawn(self._probe())
            case to.WaitForCandidate():
                wait_s = self._config.candidate_wait_s * self._environment.chance.uniform(0.75, 1.25)
                self._tasks.later(wait_s, lambda: self._apply(self._machine.on_waited()))
            case to.Depose(found):
                self._depose(found)
            case to.Finished():
                self._end(AppendAbortedError(f"the writer of log {self._ref} is closed"))
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
        self._trouble = None
        self._warned = ""
        active_ledger.released = True
        for ledger_id in [one for one in self._active_ledgers if one < active_ledger.ledger_id]:
            del self._active_ledgers[ledger_id]
        self._deliver(active_ledger, active_ledger.handle.done_through)
        self._fullness.follow(active_ledger.use)
        if self._machine.record.pending_delete:
            self._tasks.spawn(self._collect_garbage())
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

    def _pause_s(self, attempt: int) -> float:
        bound = min(_RETRY_MAX_S, _RETRY_FIRST_S * 2.0 ** min(attempt, 20)) if attempt else 0.0
        return self._environment.chance.uniform(bound / 2, bound)

    # ---- requests: each ends in one event

    async def _create(self) -> None:
        try:
            active_ledger = await self._maker.create(self._machine.record.epoch)
        except LogStoreError as error:
            self._warn(f"no new ledger could be created: {error}")
            self._trouble = error
            self._fail_rotations(error)
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
            self._warn(f"its record could not be changed: {error}")
            self._trouble = error
            self._fail_rotations(error)
            self._apply(self._machine.on_store_unavailable())
            return
        if isinstance(answer, Applied):
            self._guard.confirm(asked_at)
        now_us, nonce = self._environment.wall_us(), self._environment.token()
        self._apply(self._machine.on_answer(answer, now_us, nonce))

    async def _read(self) -> Versioned[LogMetadata] | None:
        """The record, however long it takes; None if it does not exist."""
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
        for active_ledger in list(self._active_ledgers.values()):
            if active_ledger.released and not active_ledger.detached:
                self._deliver(active_ledger, active_ledger.handle.done_through)

    async def _probe(self) -> None:
        try:
            async with asyncio.timeout(self._config.store_probe_s):
                await self._logs.read(self._ref)
        except (TimeoutError, MetadataUnavailableError):
            self._apply(self._machine.on_store_unreachable())
        except LogNotFoundError:
            self._apply(self._machine.on_store_reachable())  # the close will report it
        else:
            self._apply(self._machine.on_store_reachable())

    async def _collect_garbage(self) -> None:
        """Delete unlisted ledgers that are due; on failure the next owner tries again."""
        with suppress(LogStoreError):
            await self._collect()

    async def _close_ledger(self, active_ledger: ActiveLedger) -> None:
        try:
            metadata = await active_ledger.handle.close()
        except LedgerFencedError:
            if not active_ledger.detached:
                self._apply(self._machine.on_failed(active_ledger.ledger_id, fenced=True))
        except LedgerNotFoundError:
            self._apply(self._machine.on_ledger_gone())
        except LogStoreError:
            if not active_ledger.detached:
                self._apply(self._machine.on_close_undecided())
        else:
            nonce = self._environment.token()
            self._apply(
                self._machine.on_closed(active_ledger.ledger_id, active_ledger.seal_facts(metadata), nonce)
            )

    async def _settle(self, active_ledgers: list[ActiveLedger]) -> None:
        """Recover own ledgers in list order; only then decide the appends that were in flight in them."""
        for active_ledger in active_ledgers:
            # First, so that our own fence is not taken for another client's takeover.
            active_ledger.detach(
                LogStoreError(f"ledger {active_ledger.ledger_id} is being recovered by its own writer")
            )
        ends = []
        for active_ledger in active_ledgers:
            try:
                handle = await self._ledgers.open_with_recovery(
                    active_ledger.ledger_id, self._config.password
                )
            except LedgerNotFoundError:
                self._apply(self._machine.on_ledger_gone())
                return
            except ConfigurationError as error:
                # Bookies refuse this client, for example: trying again changes nothing.
                if not self._machine.over:
                    why = f"log {self._ref} cannot be written: {error}"
                    self.give_up(AppendAbortedError(why, log=str(self._ref)))
                return
            except LogStoreError as error:
                self._warn(f"ledger {active_ledger.ledger_id} is not settled yet: {error}")
                self._trouble = error
                self._apply(self._machine.on_settle_failed())
                return
            ends.append(handle.metadata)
        if self._machine.over:
            return
        left = []
        seals = {}
        for active_ledger, metadata in zip(active_ledgers, ends, strict=True):
            self._queue.on_acked(*active_ledger.deliver(metadata.last_entry))
            left += active_ledger.take_back()
            seals[active_ledger.ledger_id] = active_ledger.seal_facts(metadata)
        self._queue.take_back(left)
        self._apply(self._machine.on_settled(seals, left=self._queue.holding))

    # ---- the record

    def _look_again_at_record(self) -> None:
        self._look_again = True
        if not self._looking and not self._machine.over:
            self._looking = True
            self._tasks.spawn(self._look_at_record())

    # ---- appends that wait

    def _oldest_pending(self) -> float | None:
        """When the oldest append without an outcome was accepted, in loop time."""
        accepted = [active_ledger.oldest_at for active_ledger in self._active_ledgers.values()]
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
            return  # deposed or closed: its appends get their outcome anyway
        self.give_up(
            AppendAbortedError(
                f"log {self._ref}: an append was not acknowledged within {self._config.hold_limit_s:g} s "
                f"({self._why_slow()}); restore its bookies and the metadata store, then open a new writer, or raise "
                "hold_limit_s (`dlog append --timeout`)",
                log=str(self._ref),
            )
        )

    def _why_slow(self) -> str:
        """What keeps appends waiting: members that do not respond, and the last error."""
        found = [
            f"ledger {active_ledger.ledger_id}: {', '.join(troubles)}"
            for active_ledger in self._active_ledgers.values()
            if not active_ledger.detached and (troubles := active_ledger.handle.troubles())
        ]
        if self._trouble is not None:
            found.append(str(self._trouble))
        return "; ".join(found) or "its bookies respond slowly"

    def _warn(self, text: str) -> None:
        """Log a warning once, until the text changes or a ledger takes appends again."""
        if text != self._warned:
            self._warned = text
            _log.warning("log %s: %s", self._ref, text)

    # ---- the end

    def _watch_for_stall(self) -> None:
        """Limit the time that appends wait for a ledger, and that a close waits for the store, by `hold_limit_s`.

        Source: docs/log-semantics.md#rule-19.
        """
        machine, queue = self._machine, self._queue
        stuck = queue.active_ledger is None or machine.phase in (Phase.CLOSING, Phase.SETTLING)
        stuck = (stuck and not machine.merely_full) or (machine.closing and not queue.in_flight)
        stalled = stuck and not machine.over
        if not stalled and self._stall is not None:
            self._tasks.cancel(self._stall)
            self._stall = None
        elif stalled and self._stall is None:
            self._stall = self._tasks.later(self._config.hold_limit_s, self._on_stall)

    def _on_stall(self) -> None:
        because = "" if self._trouble is None else f" ({self._trouble})"
        self.give_up(
            AppendAbortedError(
                f"log {self._ref} could not be written for {self._config.hold_limit_s} s{because}; "
                "open a new writer once its bookies and the metadata store are back",
                log=str(self._ref),
            )
        )

    def _depose(self, found: LogMetadata | None) -> None:
        """Terminal: held appends are absent; those in flight may still be acknowledged for `late_success_s`."""
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
        self._deadline.stop()
        self._unwatch()
        self._tasks.stop()
        self.over.set_result(None)

    def _fail_rotations(self, error: LogStoreError) -> None:
        waiting, self._rotated = self._rotated, []
        for future in waiting:
            if not future.done():
                future.set_exception(error.copy())

    # ---- parts

    def _add_active_ledger(self, active_ledger: ActiveLedger) -> None:
        self._active_ledgers[active_ledger.ledger_id] = active_ledger
        active_ledger.handle.listener = self

    def _on_fault(self, error: BaseException) -> None:
        """An error that no event covers ends the writer instead of leaving it half working."""
        if isinstance(error, LogStoreError):
            self.give_up(error)
            return
        self.give_up(LogStoreError(f"the writer of log {self._ref} stopped by a fault of its own: {error!r}"))
        raise error


def _unconfirmed(ref: LogRef) -> LogStoreError:
    return AppendAbortedError(f"the ownership of log {ref} could not be confirmed in time", log=str(ref))
