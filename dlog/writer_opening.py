"""Opening a writer: find or create the log, take it over, and put the writer together."""

from __future__ import annotations

from collections.abc import Collection

from dlog.admin import LogAdmin
from dlog.config import LogConfig
from dlog.core.degraded import DegradedPolicy
from dlog.errors import LogExistsError, LogNotFoundError
from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogMetadata, LogName
from dlog.write.active_ledger import LedgerMaker
from dlog.write.append_queue import AppendQueue
from dlog.write.rotation_runner import RotationRunner
from dlog.write.takeover_runner import TakeoverRunner, new_owner
from dlog.write.writer import LogWriter
from ledger.arguments import require_type
from ledger.client import LedgerClient
from ledger.environment import SystemEnvironment
from ledger.errors import NotEnoughBookiesError
from ledger.metadata.rounds import Rounds
from ledger.model import LedgerId


class WriterOpening:
    """Opens the writers of one client."""

    def __init__(
        self, logs: LogMetadataStore, ledgers: LedgerClient, admin: LogAdmin, config: LogConfig
    ) -> None:
        self._logs = logs
        self._ledgers = ledgers
        self._admin = admin
        self._config = config
        self._environment = ledgers.environment

    async def open(
        self, name: LogName, *, create: bool = False, given_up: Collection[LedgerId] = ()
    ) -> LogWriter:
        """Take the log over; `LogClient.open_writer` says what holds on return, and what it raises."""
        _require_ledger_ids(given_up)
        ref = await self._find_or_create(name) if create else await self._find(name)
        try:
            return await self._take_over(ref, given_up)
        except NotEnoughBookiesError as error:
            raise self._explained(error) from error

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

    async def _take_over(self, ref: LogRef, given_up: Collection[LedgerId]) -> LogWriter:
        owner = new_owner(self._environment, self._config.owner_name)
        takeover = await TakeoverRunner(
            ref, owner, logs=self._logs, ledgers=self._ledgers, config=self._config, given_up=given_up
        ).run()
        queue = AppendQueue(
            self._config,
            self._environment,
            epoch=takeover.record.epoch,
            last_append_us=_last_append_us(takeover.record),
        )
        maker = LedgerMaker(ref, owner, self._ledgers, self._config)
        rotation = RotationRunner(
            ref,
            takeover,
            queue,
            maker,
            logs=self._logs,
            ledgers=self._ledgers,
            config=self._config,
            collect=lambda: self._admin.collect_ref(ref),
        )
        rotation.start()
        # A simulated process that is killed closes nothing.
        return LogWriter(ref, owner, queue, rotation, warns=isinstance(self._environment, SystemEnvironment))

    def _explained(self, error: NotEnoughBookiesError) -> NotEnoughBookiesError:
        uri, quorum = self._ledgers.store.uri, self._config.quorum
        if live := len(self._ledgers.bookies().writable):
            least = quorum.ack if self._config.degraded is DegradedPolicy.ALLOW else quorum.ensemble
            return NotEnoughBookiesError(
                f"a log needs at least {least} writable bookies, and {quorum.ensemble} for all copies, but only {live} "
                f"can be written at {uri}: start more with `bookie start`",
                **error.facts,
            )
        return NotEnoughBookiesError(
            f"no bookie is registered at {uri}: start some with `bookie start`, "
            "or a whole local cluster with `dlog standalone`",
            **error.facts,
        )


def _require_ledger_ids(given_up: Collection[LedgerId]) -> None:
    require_type("given_up", given_up, list, tuple, set, frozenset)
    for ledger_id in given_up:
        require_type("a ledger id in given_up", ledger_id, int)


def _last_append_us(record: LogMetadata) -> int:
    """The newest append time recorded: the next entry's is not below it, whatever the clock says.

    Of a ledger whose last entry could not be read when it was sealed only the creation time is known.
    """
    recent = (max(one.created_us, one.seal.last_append_us) for one in record.ledgers if one.seal is not None)
    return max((*recent, *(page.last_append_us for page in record.pages)), default=0)
