"""A writer executes each request to it once, also if it does not learn whether its answer was stored.

Source: docs/log-semantics.md#rule-22b.
"""

from __future__ import annotations

import asyncio

import pytest

from dlog.metadata.log_ref import LogRef
from dlog.metadata.store import LogMetadataStore
from dlog.model import LogName, Owner, OwnerRequest, RequestKind, RequestState
from dlog.write.owner_inbox import OwnerInbox
from dlog.write.takeover_runner import new_owner
from dlog.write.task_scope import TaskScope
from ledger.environment import SystemEnvironment
from ledger.metadata.drivers import open_store
from ledger.model import LedgerId
from tests.helpers.ledger.scripted_bookies import until
from tests.helpers.log.unsure_store import APPLIED, DROPPED, UnsureStore

ENVIRONMENT = SystemEnvironment()


class Owned:
    """A log in epoch 0, and what its owner was asked to do."""

    def __init__(self, store: UnsureStore, logs: LogMetadataStore, ref: LogRef) -> None:
        self.store = store
        self.logs = logs
        self.ref = ref
        self.rotations: list[asyncio.Future[LedgerId]] = []
        self.handed_over: list[Owner] = []
        self.faults: list[BaseException] = []
        self.inbox = OwnerInbox(
            logs.requests,
            ref,
            TaskScope(self.faults.append),
            lambda _: 0.0,
            self._rotate,
            self.handed_over.append,
        )

    def _rotate(self) -> asyncio.Future[LedgerId]:
        self.rotations.append(asyncio.get_running_loop().create_future())
        return self.rotations[-1]

    async def ask(self, kind: RequestKind) -> OwnerRequest:
        owner = new_owner(ENVIRONMENT, "test")
        request = OwnerRequest(kind=kind, epoch=0, nonce=ENVIRONMENT.token(), requester=owner)
        return await self.logs.requests.ask(self.ref, request)

    async def wake(self) -> None:
        await self.logs.touch(self.ref)
        self.inbox.on_record(await self.logs.read(self.ref))

    async def state(self) -> RequestState | None:
        request = await self.logs.requests.read(self.ref)
        return None if request is None else request.state


async def owned(name: str) -> Owned:
    inner = await open_store(f"memory:{name}")
    await inner.init_cluster()
    store = UnsureStore(inner)
    logs = LogMetadataStore(store, ENVIRONMENT)
    return Owned(store, logs, await logs.create(LogName(namespace="default", name="orders")))


def lose_the_next_answer(owned: Owned, fault: str) -> None:
    """The store cannot be reached afterwards, until it has been asked once."""

    async def stop() -> None:
        owned.store.before_fault = None
        owned.store.reads_away = 1

    owned.store.faults, owned.store.before_fault = [fault], stop


async def turns() -> None:
    """More turns of the loop than the inbox needs for a request."""
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.mark.parametrize("fault", [APPLIED, DROPPED])
async def test_a_rotation_is_executed_once_although_an_answer_was_lost(fault: str) -> None:
    log = await owned(f"inbox-rotation-{fault}")
    await log.ask(RequestKind.ROTATE)
    await log.wake()
    lose_the_next_answer(log, fault)
    await until(lambda: len(log.rotations) == 1)
    assert await log.state() is RequestState.SEEN
    await log.wake()
    await turns()
    [rotation] = log.rotations
    rotation.set_result(LedgerId(1))
    await turns()
    assert await log.state() is RequestState.DONE
    await log.ask(RequestKind.ROTATE)
    await log.wake()
    await until(lambda: len(log.rotations) == 2)
    assert not log.faults


@pytest.mark.parametrize("fault", [APPLIED, DROPPED])
async def test_a_log_is_handed_over_once_although_an_answer_was_lost(fault: str) -> None:
    log = await owned(f"inbox-hand-over-{fault}")
    request = await log.ask(RequestKind.HAND_OVER)
    await log.wake()
    lose_the_next_answer(log, fault)
    await until(lambda: bool(log.handed_over))
    await log.wake()
    await turns()
    assert log.handed_over == [request.requester]
    assert not log.faults
