"""What every scenario needs: a cluster, a recorded history, and an end at which everything is read and checked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from dlog.client import LogClient
from dlog.errors import LogNotFoundError, LogSealedError, TrimmedError
from dlog.inspection.ledgers import listed_ledgers
from dlog.model import MessageId
from dlog.testing.checks.checks import findings, first_findings
from dlog.testing.checks.copies import audit
from dlog.testing.checks.recorder import Recorder
from dlog.testing.checks.registers import c16_registers_are_linearizable
from dlog.testing.checks.transitions import c13_ledger_metadata_moves_legally, c13_log_records_move_legally
from dlog.testing.cluster import SimulatedCluster
from dlog.testing.swarm.plan import Plan
from dlog.testing.swarm.processes.writers import outcome_of
from dlog.write.writer import LogWriter
from ledger.errors import OutcomeUnknownError, OwnershipLostError, UnavailableError

LOG = "scenario"
_AGAIN_S = 0.2
_ANY_AGE_S = -3600.0
"""The clocks of two hosts differ."""
_CONFIG = replace(Plan(seed=0).log_config(), candidate_wait_s=0.3)


class Stage:
    """One play. Writers append under names of their own; `sent` payloads are unlike one another."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.recorder = Recorder(cluster.loop.time)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[LogClient]:
        """Of the process that asks."""
        client = await self._connect()
        try:
            yield client
        finally:
            await client.close()

    async def _connect(self) -> LogClient:
        while True:
            try:
                return await self.cluster.client(config=_CONFIG)
            except UnavailableError:
                await asyncio.sleep(_AGAIN_S)

    async def take_over(self, client: LogClient, name: str) -> LogWriter:
        self.recorder.asked_for(name)
        writer = await client.open_writer(LOG, create=True)
        self.recorder.takeover(name, writer.epoch)
        return writer

    async def append(self, writer: LogWriter, name: str) -> MessageId | None:
        """Its id, if it was acknowledged."""
        payload = b"%s:%d" % (name.encode(), self.recorder.new_payload())
        number = self.recorder.invoke(name, payload)
        outcome, message_id = await outcome_of(writer.append(payload))
        self.recorder.end(name, number, outcome, message_id)
        return message_id

    async def write_until_lost(self, name: str, every_s: float = 0.004, most: int = 30) -> None:
        """Take the log over and append, whatever becomes of it."""
        async with self.client() as client:
            try:
                writer = await self.take_over(client, name)
            except (
                UnavailableError,
                OutcomeUnknownError,
                OwnershipLostError,
                LogSealedError,
                LogNotFoundError,
            ):
                return
            appends = []
            while writer.active and most:
                appends.append(asyncio.ensure_future(self.append(writer, name)))
                await asyncio.sleep(every_s)
                most -= 1
            await asyncio.gather(*appends)
            await writer.close()

    async def tail(self) -> None:
        """Read everything, and what comes, for as long as the process lives."""
        async with self.client() as client:
            while True:
                with suppress(UnavailableError, LogNotFoundError, TrimmedError):
                    async with client.reader(LOG, on_trimmed="skip") as messages:
                        name = f"tailer {id(messages)}"
                        self.recorder.may_skip(name)
                        async for message in messages:
                            assert message.payload is not None, "no writer appends tombstones"
                            self.recorder.returned(name, message.id, message.payload)
                await asyncio.sleep(_AGAIN_S)

    async def shrink_to(self, client: LogClient, before: MessageId) -> None:
        """Read what is to be trimmed first, so that the checks know it."""
        shadow = []
        async with client.reader(LOG, self.recorder.shadowed, until=before) as messages:
            async for message in messages:
                shadow.append((message.id, message.payload or b""))
        number = self.recorder.trim(before, shadow)
        await client.shrink(LOG, before)
        self.recorder.trimmed(number)

    # ---- the end

    async def write_again(self, name: str) -> None:
        """Whatever was left behind, somebody can take the log over and append."""
        async with self.client() as client:
            while True:
                try:
                    writer = await self.take_over(client, name)
                    if await self.append(writer, name) is not None:
                        await writer.close()
                        return
                    writer.abort()
                except (UnavailableError, OutcomeUnknownError, OwnershipLostError):
                    pass
                await asyncio.sleep(_AGAIN_S)

    async def judge(self) -> list[str]:
        """Read all of it, look at every copy and at every change of metadata."""
        async with self.client() as client:
            history = self.recorder.history()
            async with client.reader(LOG, until="latest", on_trimmed="skip") as reader:
                history.final = [(message.id, message.payload or b"") async for message in reader]
            record = (await client.describe(LOG)).record
            history.trimmed_before = record.trim_before
            wrong = findings(history)
            listed = [each.ledger_id for each in await listed_ledgers(client, LOG)]
            wrong += await audit(client.ledgers, listed)
            wrong += await self._nothing_is_left(client)
        return wrong + self.metadata_findings()

    def metadata_findings(self) -> list[str]:
        """C13 and C16."""
        register = self.cluster.metadata.history
        checks = (
            c13_ledger_metadata_moves_legally,
            c13_log_records_move_legally,
            c16_registers_are_linearizable,
        )
        return [found for check in checks for found in first_findings(check.__name__, check(register))]

    async def _nothing_is_left(self, client: LogClient) -> list[str]:
        """No listed ledger is deleted, every other one of the log is (docs/log-semantics.md#i13)."""
        await client.admin.sweep(age_s=_ANY_AGE_S)
        await client.collect(LOG)
        record = (await client.describe(LOG)).record
        listed = {each.ledger_id for each in await listed_ledgers(client, LOG)}
        waiting = {each.ledger_id for each in record.pending_delete}
        there = {ledger_id async for ledger_id in client.ledgers.store.ledger_ids()} - waiting
        return [f"I13: ledgers {sorted(there)} are there, {sorted(listed)} are listed"] * (there != listed)
