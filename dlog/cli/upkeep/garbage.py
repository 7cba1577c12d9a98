"""What `dlog gc` does: trims by retention, sweeps orphans, deletes what waits for deletion or is left of a log."""

from __future__ import annotations

from collections.abc import Iterator

from dlog.client import LogClient
from dlog.errors import HistoryPageError, LogNotFoundError
from dlog.inspection.ledgers import deletable_ledgers
from dlog.log_retention import RetentionPlan
from ledger.errors import CorruptionError, LayoutMismatchError, LogStoreError
from ledger.printing import counted


class Collection:
    """One run over the logs of a namespace. A damaged log does not keep the others from being collected."""

    def __init__(self, age_s: float, *, dry_run: bool) -> None:
        """`age_s`: younger orphans are left alone. With `dry_run` nothing is changed."""
        self._age_s = age_s
        self._dry_run = dry_run
        self.damaged: list[LogStoreError] = []
        self._trimmed: dict[str, RetentionPlan] = {}
        self._deleted = 0

    async def run(self, client: LogClient) -> None:
        if not self._dry_run:
            await client.admin.remove_left_records()
            # The sweep comes first: an orphan that it can only exclude from its log is then due for deletion below.
            self._deleted += len(await client.admin.sweep(age_s=self._age_s))
        for log in await client.list():
            for step in (self._trim, self._collect):
                try:
                    await step(client, log)
                except CorruptionError as error:
                    self.damaged.append(error)
                except LayoutMismatchError as error:
                    if error.log is None:
                        raise  # of the store, not of this log's record
                    self.damaged.append(error)
                except LogNotFoundError:
                    break  # another client has finished its deletion

    async def _trim(self, client: LogClient, log: str) -> None:
        plan = await (client.plan_retention(log) if self._dry_run else client.apply_retention(log))
        if plan.before is not None:
            self._trimmed[log] = plan

    async def _collect(self, client: LogClient, log: str) -> None:
        if self._dry_run:
            return
        try:
            waiting = await deletable_ledgers(client, log)
        except HistoryPageError:
            waiting = 0  # a part of them is in a lost page, which the collection may pass over
        left = await client.collect(log)
        self._deleted += max(0, waiting - (0 if left is None else await deletable_ledgers(client, log)))

    def lines(self) -> Iterator[str]:
        """What was done, for people."""
        verb = "would trim" if self._dry_run else "trimmed"
        for log, plan in self._trimmed.items():
            yield f"{verb} {log} before {plan.before}: {counted(plan.ledgers, 'ledger')}, {counted(plan.bytes, 'byte')}"
        if self._dry_run:
            yield f"{counted(sum(plan.ledgers for plan in self._trimmed.values()), 'ledger')} would be trimmed"
        else:
            yield f"{counted(self._deleted, 'ledger')} deleted"
