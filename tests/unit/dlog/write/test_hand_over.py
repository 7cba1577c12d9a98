"""A log that is handed over instead of being taken, and an owner that is asked to rotate.

Source: docs/log-semantics.md#rule-22, #rule-22b.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from dlog.client import LogClient
from dlog.config import LogConfig
from dlog.core import metadata_keys
from dlog.core.metadata_update import Applied, NotOurs
from dlog.core.rotation_triggers import RotationLimits
from dlog.errors import (
    LogNotFoundError,
    LogSealedError,
    OwnerUnresponsiveError,
    RotationFailedError,
    TakeoverLostError,
    WriterDeposedError,
)
from dlog.metadata.log_ref import LogRef
from dlog.model import LogMetadata, MessageId, OwnerRequest, RequestKind, RequestState
from dlog.testing import SimulatedCluster, simulate
from dlog.write.current_owner import is_released
from dlog.write.takeover_runner import new_owner
from dlog.write.writer import LogWriter
from ledger.errors import ConfigurationError, LogStoreError, MetadataUnavailableError
from tests.helpers.ledger.scripted_bookies import GUARD_S, until
from tests.helpers.log.scripted_log import scripted_log
from tests.helpers.log.scripted_writer import current, entries, fence, settled_writer

LOG = "orders"
ANSWER_S = LogConfig().owner_answer_s
SEEDS = range(5)
Scene = Callable[[SimulatedCluster, LogClient, "Writing"], Awaitable[None]]


class Writing:
    """A process that appends all the time, with many appends in flight."""

    def __init__(self) -> None:
        self.pause_s = 0.002
        self.writer: LogWriter | None = None
        self.ended: dict[str, int] = Counter()
        self.acked: list[MessageId] = []
        self.under_way = asyncio.Event()

    async def run(self, client: LogClient) -> None:
        self.writer = await client.open_writer(LOG, create=True)
        async with asyncio.TaskGroup() as group:
            while self.writer.active:
                for _ in range(5):
                    group.create_task(self._append(self.writer))
                await asyncio.sleep(self.pause_s)

    async def _append(self, writer: LogWriter) -> None:
        try:
            self.acked.append(await writer.append(b"x" * 100))
            if len(self.acked) == 20:
                self.under_way.set()
        except LogStoreError as error:
            self.ended[type(error).__name__] += 1


def play(scene: Scene, *, seed: int = 1, config: LogConfig | None = None) -> None:
    """The scene while another process, `owner`, writes the log."""

    async def main(cluster: SimulatedCluster) -> None:
        writing = Writing()

        async def owner() -> None:
            async with await cluster.client(config=config) as client:
                await writing.run(client)

        cluster.run("owner", owner)
        async with await cluster.client() as client:
            await writing.under_way.wait()
            await scene(cluster, client, writing)

    simulate(main, seed=seed)


def now() -> float:
    return asyncio.get_running_loop().time()


async def texts(client: LogClient) -> list[MessageId]:
    async with client.reader(LOG, until="latest") as reader:
        return [message.id async for message in reader]


@pytest.mark.parametrize("seed", SEEDS)
def test_an_owner_that_is_asked_settles_everything_and_ends(seed: int) -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        begun = now()
        async with client.open_writer(LOG, wait_for_current_owner=30) as writer:
            assert now() - begun < 0.5
            acked = list(writing.acked)
            assert writer.epoch == 2
            first = await writer.append(b"next")
            await asyncio.sleep(1)
            assert writing.acked == acked
            assert set(writing.ended) <= {"WriterDeposedError"}
            assert writing.writer is not None
            assert isinstance(writing.writer.refusal, WriterDeposedError)
            assert f"was handed over to {writer.owner.instance}" in str(writing.writer.refusal)
            assert writing.writer.refusal.owner == writer.owner
            assert await texts(client) == [*acked, first]

    play(scene, seed=seed)


@pytest.mark.parametrize("hand_over", [True, False])
def test_an_owner_that_does_not_run_is_fenced_as_soon_as_that_is_seen(hand_over: bool) -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        cluster.kill("owner")
        begun = now()
        async with client.open_writer(LOG, wait_for_current_owner=3600, hand_over=hand_over) as writer:
            assert ANSWER_S < now() - begun < 2 * ANSWER_S
            await writer.append(b"next")
            assert set(writing.acked) <= set(await texts(client))

    play(scene)


def test_several_that_wait_for_an_owner_that_does_not_run_leave_the_record_alone() -> None:
    """One request is open at a time, and each change of the record wakes all who wait."""

    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        cluster.kill("owner")
        before = (await client.describe(LOG)).version
        waiting = []
        for _ in range(3):
            opening = client.open_writer(LOG, wait_for_current_owner=30, on_takeover_lost="retry")
            waiting.append(asyncio.create_task(opening))
            await asyncio.sleep(ANSWER_S / 10)
        await asyncio.sleep(ANSWER_S / 3)
        assert (await client.describe(LOG)).version - before <= len(waiting)
        assert sorted([(await one).epoch for one in waiting]) == [2, 3, 4]

    play(scene)


def test_an_owner_that_keeps_its_log_is_fenced_when_the_time_is_over() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        begun = now()
        async with client.open_writer(LOG, wait_for_current_owner=7) as writer:
            assert 7 < now() - begun < 8
            await writer.append(b"next")
            await asyncio.sleep(5)
            assert writing.writer is not None
            assert f"was taken over by {writer.owner.instance}" in str(writing.writer.refusal)

    play(scene, config=LogConfig(hands_over=False))


def test_an_owner_that_was_asked_by_a_call_that_was_cancelled_goes_on() -> None:
    """It does not run while it is asked. When it goes on, it has not to end: the client does not wait any more."""

    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        assert writing.writer is not None
        cluster.pause("owner")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(client.open_writer(LOG, wait_for_current_owner=30), 1)
        writing.pause_s = 0.1
        cluster.resume("owner")
        await asyncio.sleep(60)
        assert writing.writer.active
        assert not writing.ended

    play(scene)


def test_a_standby_takes_over_when_the_owner_closes() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        waiting = asyncio.create_task(
            client.open_writer(LOG, wait_for_current_owner=math.inf, hand_over=False)
        )
        writing.pause_s = 0.1
        await asyncio.sleep(20)
        assert not waiting.done()
        assert writing.writer is not None
        assert writing.writer.active
        begun = now()
        await writing.writer.close()
        async with await waiting as writer:
            assert now() - begun < 0.5
            await writer.append(b"next")
            assert set(writing.acked) <= set(await texts(client))

    play(scene)


def test_a_standby_notices_that_the_owner_has_died() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        waiting = asyncio.create_task(
            client.open_writer(LOG, wait_for_current_owner=math.inf, hand_over=False)
        )
        writing.pause_s = 0.1
        await asyncio.sleep(20)
        cluster.kill("owner")
        begun = now()
        async with await waiting as writer:
            assert now() - begun < 3 * ANSWER_S
            await writer.append(b"next")

    play(scene)


@pytest.mark.parametrize("on_lost", ["fail", "retry"])
@pytest.mark.parametrize(("end", "what"), [("seal", "was sealed by"), ("delete", "is being deleted by")])
def test_a_standby_and_the_owner_learn_that_the_log_has_ended(end: str, what: str, on_lost: str) -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        waiting = asyncio.create_task(
            client.open_writer(
                LOG, wait_for_current_owner=math.inf, hand_over=False, on_takeover_lost=on_lost
            )
        )
        await asyncio.sleep(1)
        async with await cluster.client() as administrator:
            await (administrator.seal(LOG) if end == "seal" else administrator.delete(LOG))
        with pytest.raises(LogSealedError, match="accepts no writer"):
            await waiting
        await asyncio.sleep(5)
        assert writing.writer is not None
        assert isinstance(writing.writer.refusal, WriterDeposedError)
        assert f"log default/{LOG} {what} " in str(writing.writer.refusal)

    play(scene)


def test_a_standby_outlasts_an_outage_of_the_store() -> None:
    """While no client reaches it, an owner cannot answer: that says nothing about the owner."""

    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        waiting = asyncio.create_task(
            client.open_writer(LOG, wait_for_current_owner=math.inf, hand_over=False)
        )
        writing.pause_s = 0.1
        await asyncio.sleep(10)
        names = [cluster.loop.node.name, "owner"]
        for name in names:
            cluster.metadata.partition(name)
        await asyncio.sleep(20)
        for name in names:
            cluster.metadata.heal(name)
        await asyncio.sleep(20)
        assert not waiting.done()
        assert writing.writer is not None
        assert writing.writer.active
        waiting.cancel()

    play(scene)


@pytest.mark.parametrize("seed", SEEDS)
def test_of_two_that_ask_one_gets_it_and_the_other_fails_or_asks_again(seed: int) -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        opening = [asyncio.create_task(client.open_writer(LOG, wait_for_current_owner=30)) for _ in range(3)]
        done = await asyncio.gather(*opening, return_exceptions=True)
        won = [one for one in done if isinstance(one, LogWriter)]
        assert len(won) == 1
        assert [type(one) for one in done if one is not won[0]] == [TakeoverLostError] * 2
        assert won[0].epoch == 2
        assert set(writing.ended) <= {"WriterDeposedError"}
        again = [
            asyncio.create_task(client.open_writer(LOG, wait_for_current_owner=30, on_takeover_lost="retry"))
            for _ in range(3)
        ]
        epochs = sorted([(await one).epoch for one in again])
        assert epochs == [3, 4, 5]

    play(scene, seed=seed)


def test_a_log_that_is_not_written_is_not_waited_for() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            await client.create(LOG)
            for epoch in (1, 2):
                begun = now()
                async with client.open_writer(LOG, wait_for_current_owner=30) as writer:
                    assert writer.epoch == epoch
                    assert now() - begun < 0.1
                    await writer.append(b"one")
            with pytest.raises(LogNotFoundError):
                await client.open_writer("absent", wait_for_current_owner=30)

    simulate(main)


def test_wrong_arguments_are_refused() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            for wait in (-1, math.nan, -math.inf, "1"):
                with pytest.raises(ConfigurationError, match="wait_for_current_owner"):
                    client.open_writer(LOG, wait_for_current_owner=wait)  # type: ignore[arg-type]
            with pytest.raises(ConfigurationError, match="hand_over must be True or False"):
                client.open_writer(LOG, hand_over="yes")  # type: ignore[arg-type]
            with pytest.raises(ConfigurationError, match="hand_over=False needs wait_for_current_owner"):
                client.open_writer(LOG, hand_over=False)
            with pytest.raises(ConfigurationError, match="on_takeover_lost must be one of fail, retry"):
                client.open_writer(LOG, on_takeover_lost="wait")

    simulate(main)


# ---- requests


def asked(epoch: int, kind: RequestKind = RequestKind.HAND_OVER) -> Callable[[LogClient], OwnerRequest]:
    def make(client: LogClient) -> OwnerRequest:
        environment = client.ledgers.environment
        return OwnerRequest(
            kind=kind, epoch=epoch, nonce=environment.token(), requester=new_owner(environment, "test")
        )

    return make


def test_a_request_to_an_earlier_owner_is_ignored() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        ref = (await client.describe(LOG)).ref
        writing.pause_s = 0.1
        for epoch in (0, 2):
            request = asked(epoch)(client)
            assert await client.logs.requests.ask(ref, request) == request
            await client.logs.touch(ref)
            await asyncio.sleep(10)
            assert await client.logs.requests.read(ref) == request
            assert writing.writer is not None
            assert writing.writer.active

    play(scene)


def test_a_request_whose_client_died_before_it_woke_the_owner_is_found_at_a_check() -> None:
    config = LogConfig(rotation=RotationLimits(idle_s=60))

    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        writing.pause_s = 5
        ref = (await client.describe(LOG)).ref
        request = asked(1, RequestKind.ROTATE)(client)
        assert await client.logs.requests.ask(ref, request) == request
        before = (await client.describe(LOG)).record
        await asyncio.sleep(130)
        assert await client.logs.requests.read(ref) == replace(request, state=RequestState.DONE)
        after = (await client.describe(LOG)).record
        assert (after.epoch, len(after.ledgers)) == (1, len(before.ledgers) + 1)

    play(scene, config=config)


def test_an_open_request_to_the_same_owner_is_not_replaced() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        cluster.kill("owner")
        ref = (await client.describe(LOG)).ref
        requests = client.logs.requests
        first, second, newer = asked(1)(client), asked(1)(client), asked(2)(client)
        assert await requests.ask(ref, first) == first
        assert await requests.ask(ref, second) == first
        assert not await requests.answer(ref, second, RequestState.SEEN)
        assert await requests.answer(ref, first, RequestState.FAILED, "no " * 1000)
        assert await requests.ask(ref, second) == second
        assert await requests.ask(ref, newer) == newer
        assert await requests.answer(ref, newer, RequestState.SEEN)
        assert await requests.read(ref) == replace(newer, state=RequestState.SEEN)

    play(scene)


def test_a_damaged_request_is_replaced() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        ref = (await client.describe(LOG)).ref
        key = metadata_keys.request_key(ref.root, ref.name, ref.log_uuid)
        await client.ledgers.store.create_record(key, b"damaged")
        assert await client.logs.requests.read(ref) is None
        async with client.open_writer(LOG, wait_for_current_owner=30):
            assert set(writing.ended) <= {"WriterDeposedError"}

    play(scene)


@pytest.mark.parametrize("kind", [RequestKind.ROTATE, RequestKind.HAND_OVER])
async def test_an_owner_that_rotates_just_before_it_is_woken_sees_the_request(kind: RequestKind) -> None:
    """Its own rotation does not make it read what it is asked (dlog/write/record_watch.py)."""
    async with scripted_log() as log, log.client() as client, log.client() as other:
        writer = await settled_writer(client, LOG)
        change = other.logs.compare_and_set

        async def late(
            ref: LogRef, record: LogMetadata, version: int, *, limit_s: float | None = None
        ) -> Applied | NotOurs:
            other.logs.compare_and_set = change  # type: ignore[method-assign]
            await writer.append(b"one")
            await writer.rotate()
            return await change(ref, record, version, limit_s=limit_s)

        other.logs.compare_and_set = late  # type: ignore[method-assign]
        if kind is RequestKind.ROTATE:
            await other.rotate(LOG)
            return
        async with other.open_writer(LOG, wait_for_current_owner=GUARD_S):
            assert "was handed over" in str(writer.refusal)


@pytest.mark.parametrize("kind", [RequestKind.ROTATE, RequestKind.HAND_OVER])
async def test_a_deposed_writer_does_not_answer_for_its_successor(kind: RequestKind) -> None:
    """It sees its successor's record while a change of its own is under way, and is not deposed before that is refused.

    The successor would take the answered request for one that it has executed.
    """
    async with scripted_log() as log, log.client() as client, log.client() as other:
        writer = await settled_writer(client, LOG)
        await writer.append(b"one")
        change, is_sent, may_arrive = client.logs.compare_and_set, asyncio.Event(), asyncio.Event()

        async def late(
            ref: LogRef, record: LogMetadata, version: int, *, limit_s: float | None = None
        ) -> Applied | NotOurs:
            is_sent.set()
            await may_arrive.wait()
            return await change(ref, record, version, limit_s=limit_s)

        client.logs.compare_and_set = late  # type: ignore[method-assign]
        rotating = asyncio.create_task(writer.rotate())
        await is_sent.wait()
        (await other.open_writer(LOG)).abort()
        ref = (await other.describe(LOG)).ref
        request = asked(2, kind)(other)
        assert await other.logs.requests.ask(ref, request) == request
        await other.logs.touch(ref)
        await asyncio.sleep(0.05)
        assert await other.logs.requests.read(ref) == request
        may_arrive.set()
        with pytest.raises(WriterDeposedError, match="was taken over by"):
            await rotating


async def test_a_writer_whose_ledger_fails_while_it_closes_leaves_a_log_that_no_client_waits_for() -> None:
    """A repair tool has sealed its ledger with the append in flight, so that it needs no other one.

    Source: docs/log-semantics.md#rule-22b.
    """
    async with scripted_log() as log, log.client() as client, log.client() as other:
        writer = await settled_writer(client, LOG)
        await writer.append(b"one")
        for bookie in log.bookies:
            bookie.late = lambda what: what == "add 1"
        [future] = await entries(writer, b"two")
        await until(lambda: all("add 1" in bookie.log for bookie in log.bookies))
        for bookie in log.bookies:
            bookie.late = lambda what: False
        assert await fence(other, current(writer)) == 1
        closing = asyncio.create_task(writer.close())
        for bookie in log.bookies:
            bookie.go_away()
            await bookie.listen()
        async with asyncio.timeout(GUARD_S):
            await closing
        assert future.result().entry_id == 1
        assert is_released((await other.describe(LOG)).record)


# ---- rotation


@pytest.mark.parametrize("seed", SEEDS)
def test_a_live_writer_rotates_when_asked_and_goes_on(seed: int) -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        before = (await client.describe(LOG)).record
        after = (await client.rotate(LOG)).record
        assert (after.epoch, after.owner) == (before.epoch, before.owner)
        assert after.ledger_ids[: len(before.ledger_ids)] == before.ledger_ids
        assert len(after.ledger_ids) == len(before.ledger_ids) + 1
        await asyncio.gather(*(client.rotate(LOG) for _ in range(3)))
        record = (await client.describe(LOG)).record
        assert record.epoch == 1
        assert 1 <= len(record.ledger_ids) - len(after.ledger_ids) <= 3
        await asyncio.sleep(1)
        assert not writing.ended
        assert writing.acked[-1].ledger_id == record.ledger_ids[-1]

    play(scene, seed=seed)


def test_a_writer_that_rotates_all_the_time_sees_each_request() -> None:
    config = LogConfig(rotation=RotationLimits(entries_max=30, interval_min_s=0.001))

    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        for _ in range(100):
            await client.rotate(LOG)
        async with client.open_writer(LOG, wait_for_current_owner=30):
            assert writing.writer is not None
            assert "was handed over" in str(writing.writer.refusal)

    play(scene, config=config)


def test_an_empty_ledger_and_a_closed_log_are_left_as_they_are() -> None:
    async def main(cluster: SimulatedCluster) -> None:
        async with await cluster.client() as client:
            await client.create(LOG)
            created = (await client.describe(LOG)).record
            assert (await client.rotate(LOG)).record == created
            async with client.open_writer(LOG) as writer:
                assert (await client.rotate(LOG)).record.ledger_ids == writer.record.ledger_ids
                await writer.append(b"one")
            closed = (await client.describe(LOG)).record
            assert (await client.rotate(LOG)).record == closed
            with pytest.raises(LogNotFoundError):
                await client.rotate("absent")

    simulate(main)


def test_a_writer_that_does_not_run_is_deposed_only_with_force() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        writing.pause_s = 0.1
        cluster.pause("owner")
        with pytest.raises(OwnerUnresponsiveError, match=r"has not answered within 2 s.*--force"):
            await client.rotate(LOG)
        assert (await client.describe(LOG)).record.epoch == 1
        record = (await client.rotate(LOG, force=True)).record
        assert record.epoch == 2
        assert record.ledgers[-1].seal is not None
        cluster.resume("owner")
        await asyncio.sleep(10)
        assert writing.writer is not None
        assert not writing.writer.active

    play(scene)


def test_a_writer_that_cannot_rotate_says_why() -> None:
    config = LogConfig(hold_limit_s=600)

    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        writing.pause_s = 0.1
        for number in (0, 1):
            cluster.kill_bookie(number)
        await asyncio.sleep(30)
        with pytest.raises(RotationFailedError, match="could not rotate log default/orders"):
            await client.rotate(LOG)
        for number in (0, 1):
            cluster.start_bookie(number)
        await asyncio.sleep(30)
        before = (await client.describe(LOG)).record
        after = (await client.rotate(LOG)).record
        assert after.epoch == before.epoch == 1
        assert after.ledger_ids[-1] > before.ledger_ids[-1]

    play(scene, config=config)


def test_asking_reports_that_the_store_cannot_be_reached() -> None:
    async def scene(cluster: SimulatedCluster, client: LogClient, writing: Writing) -> None:
        cluster.metadata.partition(cluster.loop.node.name)
        for call in (
            client.rotate(LOG),
            client.rotate(LOG, force=True),
            client.open_writer(LOG, wait_for_current_owner=30),
        ):
            with pytest.raises(MetadataUnavailableError):
                await call
        cluster.metadata.heal(cluster.loop.node.name)

    play(scene)
