"""Executes a takeover (dlog/core/takeover.py): reads, recovers, creates, compares and sets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import assert_never

from dlog.backoff import Backoff
from dlog.config import LogConfig
from dlog.core.commands import (
    CreateLedger,
    Depose,
    DiscardLedger,
    Fail,
    FenceLedgers,
    ReadRecord,
    TakenOver,
    WaitForCandidate,
    WriteRecord,
)
from dlog.core.commands import (
    TakeoverCommand as Command,
)
from dlog.core.takeover import OwnLog, Stamp, Takeover, deletion_without
from dlog.errors import TakeoverTimeoutError
from dlog.format.entry import Envelope
from dlog.metadata.fresh_record import way_out_of_loss
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogMetadata, LogState, Owner, SealFacts
from dlog.write.active_ledger import ActiveLedger, LedgerMaker
from dlog.write.ledger_recovery import RecoveredLedgers, recover_ledgers
from ledger.buggify import linger
from ledger.client import LedgerClient
from ledger.environment import Environment
from ledger.errors import (
    LedgerRecoveryError,
    LogStoreError,
    MetadataOutcomeUnknownError,
    MetadataUnavailableError,
    OutcomeUnknownError,
    UnavailableError,
)
from ledger.model import LedgerId
from ledger.tasks import start_task

_log = logging.getLogger(__name__)

_STORE_IS_AWAY = (MetadataUnavailableError, MetadataOutcomeUnknownError)


@dataclass(frozen=True, slots=True)
class TakeoverResult:
    """A log that is ours: its record, and the new ledger (None after Seal and Delete, and if none is needed)."""

    record: LogMetadata
    version: int
    active_ledger: ActiveLedger | None
    confirmed_at: float
    """Boot clock just before the compare-and-set that proved our epoch."""
    last_envelopes: Mapping[LedgerId, Envelope]
    """Of the last entries of ledgers that were recovered, as far as they were read."""


def new_owner(environment: Environment, name: str) -> Owner:
    """An identity for one takeover; never the same twice."""
    return Owner(
        instance=environment.new_uuid(),
        name=name,
        host=environment.host_name(),
        process_id=environment.process_id(),
        started_us=environment.wall_us(),
    )


class TakeoverRunner:
    """One candidate. `run` takes the log over, or changes nothing except that an orphan ledger may be left."""

    def __init__(
        self,
        ref: LogRef,
        owner: Owner,
        *,
        logs: LogMetadataStore,
        ledgers: LedgerClient,
        config: LogConfig,
        end: LogState | None = None,
        given_up: Collection[LedgerId] = (),
        own: OwnLog | None = None,
        after_epoch: int | None = None,
        recover: Callable[[tuple[LedgerId, ...]], Awaitable[RecoveredLedgers]] | None = None,
    ) -> None:
        """`end`, `given_up`, `own`, `after_epoch`: as of `Takeover`. `recover`: recovers the ledgers of an own log."""
        self._ref = ref
        self._end = end
        self._given_up = given_up
        self._logs = logs
        self._ledgers = ledgers
        self._config = config
        self._environment = ledgers.environment
        self._maker = LedgerMaker(ref, owner, ledgers, config)
        self._machine = Takeover(
            str(ref),
            owner,
            end=end,
            given_up=given_up,
            grace_us=config.grace_us,
            own=own,
            after_epoch=after_epoch,
        )
        self._recover = recover or self._fence
        self.waited = False
        """Whether a candidate has had its time to win."""
        self._backoff = Backoff(ledgers.environment)
        self._known: dict[LedgerId, SealFacts] = {}
        self._last_envelopes: dict[LedgerId, Envelope] = {}
        self._lost: list[LedgerId] = []
        self._fencing = False
        self._early: asyncio.Task[ActiveLedger] | None = None
        """Creates the new ledger of this round while the old ones are fenced."""
        self._active_ledger: ActiveLedger | None = None
        self._confirmed_at = 0.0

    async def run(self) -> TakeoverResult:
        """Take the log over.

        Raises:
            TakeoverLostError: another client took the log over first.
            TakeoverContendedError: the record changed during every attempt.
            TakeoverTimeoutError: not done within `takeover_timeout_s`; it may have happened.
            LogSealedError: the log is sealed or being deleted.
            LogNotFoundError: the log was deleted.
            DataLossError: a ledger without a recorded seal does not exist and was not given up.
            LedgerRecoveryError: too few bookies respond.
            NotEnoughBookiesError: too few writable bookies for the new ledger.
            UnauthorizedError: the configured password is not that of the log's ledgers.
            MetadataUnavailableError, MetadataOutcomeUnknownError: as the metadata store raises them.

        Source: docs/log-semantics.md#rule-20 to #rule-23.
        """
        try:
            async with asyncio.timeout(self._config.takeover_timeout_s):
                outcome = await self.attempt()
        except TimeoutError as error:
            self._drop_active_ledger()
            raise TakeoverTimeoutError(
                f"the takeover of log {self._ref} did not end within {self._config.takeover_timeout_s:g} s: it may "
                "have happened; open the log again, or raise takeover_timeout_s",
                log=str(self._ref),
            ) from error
        assert isinstance(outcome, TakeoverResult), "only an owner is deposed"
        return outcome

    async def attempt(self) -> TakeoverResult | Depose:
        """The same without a limit of time; Depose if an own log turns out to be another client's."""
        try:
            return await self._run()
        except BaseException as error:
            # Not if the caller is not to wait, or the metadata store is away.
            delete = isinstance(error, LogStoreError) and not isinstance(error, _STORE_IS_AWAY)
            await self._drop_early(delete=delete)
            self._drop_active_ledger()
            raise

    async def _run(self) -> TakeoverResult | Depose:
        todo: list[Command] = self._machine.start()
        while True:
            for command in todo[:-1]:
                await self._do(command)
            match todo[-1]:
                case TakenOver(record, version):
                    self._warn_of_loss(record)
                    return TakeoverResult(
                        record, version, self._active_ledger, self._confirmed_at, self._last_envelopes
                    )
                case Depose() as deposed:
                    self._drop_active_ledger()
                    return deposed
                case last:
                    todo = await self._do(last)

    async def _do(self, command: Command) -> list[Command]:
        match command:
            case ReadRecord(pauses):
                await self._drop_early(delete=True)  # its epoch may have passed
                if pauses:
                    await asyncio.sleep(self._backoff.next_s())
                read = await self._logs.read(self._ref)
                self._known = {one.ledger_id: one.seal for one in read.value.ledgers if one.seal is not None}
                return self._machine.on_record(read)
            case FenceLedgers(ledger_ids):
                self._fencing = True
                try:
                    fenced = await self._recover(ledger_ids)
                finally:
                    self._fencing = False
                self._last_envelopes |= fenced.last_envelopes
                self._lost = fenced.lost
                return self._machine.on_fenced(
                    fenced.seals, fenced.missing, self._stamp(), needs_ledger=fenced.needs_ledger
                )
            case WaitForCandidate():
                await asyncio.sleep(self._config.candidate_wait_s * self._environment.rng.uniform(0.75, 1.25))
                self.waited = True
                return self._machine.on_waited()
            case CreateLedger(epoch):
                early = self._early
                self._active_ledger = await (self._maker.create(epoch) if early is None else early)
                # Not before: a cancellation in the turn in which it is made must still find it.
                self._early = None
                await linger("takeover.slow-candidate")
                return self._machine.on_ledger_created(self._active_ledger.ledger_id, self._stamp())
            case WriteRecord(record, version):
                self._confirmed_at = self._environment.boot_s()
                return self._machine.on_answer(await self._logs.compare_and_set(self._ref, record, version))
            case DiscardLedger(ledger_id):
                self._drop_active_ledger()
                with suppress(UnavailableError, OutcomeUnknownError):
                    await self._ledgers.delete(ledger_id)  # else an orphan: the sweep finds it by its tags
                return []
            case Fail(error):
                raise error
            case TakenOver() | Depose():
                raise AssertionError("ends the takeover")
            case _:
                assert_never(command)

    async def _fence(self, ledger_ids: tuple[LedgerId, ...]) -> RecoveredLedgers:
        deletes = self._end is LogState.DELETING
        try:
            return await recover_ledgers(
                self._ledgers,
                ledger_ids,
                self._known,
                self._config.password,
                self._create_early,
                # A writer, or a seal, would invent the end of such a ledger (docs/log-semantics.md#rule-23).
                unless_recovered=self._given_up if deletes else (),
            )
        except LedgerRecoveryError as error:
            if not deletes:
                raise
            raise LedgerRecoveryError(
                f"{error}; if that is not possible, end the writer of log {self._ref} and delete the log with "
                f"{deletion_without([error.ledger_id])}",
                **error.facts,
            ) from error

    def _create_early(self) -> None:
        """Not before the ledgers are marked, since until then their recovery waits for the metadata store.

        A recovery may outlive this takeover, and call this when no client waits for the ledger any more.
        """
        epoch = self._machine.likely_epoch
        if self._fencing and epoch is not None and self._early is None:
            self._early = start_task(self._maker.create(epoch))

    def _warn_of_loss(self, record: LogMetadata) -> None:
        for ledger_id in self._lost:
            if ledger_id in record.ledger_ids:  # otherwise it was trimmed, or empty
                way_out = way_out_of_loss(ledger_id, sealed=True)
                _log.warning(
                    "log %s: the metadata of ledger %d is missing or damaged, so its messages cannot be read: %s",
                    self._ref,
                    ledger_id,
                    way_out,
                )

    def _stamp(self) -> Stamp:
        return Stamp(nonce=self._environment.token(), now_us=self._environment.wall_us())

    async def _drop_early(self, *, delete: bool) -> None:
        """Give up what was created in vain. If it is not deleted, it is an orphan: the sweep finds it by its tags."""
        early, self._early = self._early, None
        if early is None:
            return
        early.cancel()
        [made] = await asyncio.gather(early, return_exceptions=True)
        if not isinstance(made, ActiveLedger):
            return
        self._active_ledger = made
        if delete:
            await self._do(DiscardLedger(made.ledger_id))

    def _drop_active_ledger(self) -> None:
        if self._active_ledger is not None:
            active_ledger, self._active_ledger = self._active_ledger, None
            active_ledger.detach(LogStoreError(f"the takeover of log {self._ref} did not succeed"))
