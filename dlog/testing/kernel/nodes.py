"""Who runs: each simulated process is a node, and everything on the loop belongs to one.

A callback, timer or task belongs to the node in whose context it was scheduled. asyncio carries contexts along, so
a future of one node that another completes wakes its waiter on the waiter's node.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from typing import Any

from dlog.testing.background_tasks import has_lost_its_error
from dlog.testing.errors import Problem, is_unexpected, origin_of
from dlog.testing.kernel.clocks import HostClock
from dlog.testing.kernel.handles import KernelTimer, SimulatedHandle, SimulatedTask, SimulatedTimer

_PRUNED_AT = 64


class State(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    """Stopped as by SIGSTOP: its timers fire late, what is sent to it queues."""
    DEAD = "dead"
    """Gone as by kill -9. It stays as it was at that instant until the simulation ends."""


class Node:
    """One process: a name that outlives it, a number for each incarnation, and the address and clock of its host."""

    def __init__(self, name: str, clock: HostClock, *, number: int = 1, address: str = "") -> None:
        self.name = name
        self.number = number
        self.address = address
        self.clock = clock
        self.serial = 0
        """Its place among all nodes of the run."""
        self.state = State.RUNNING
        self.context = copy_context()
        """A context to run in on behalf of the node; copy it for anything that lasts."""
        self.context.run(NODE.set, self)

        # The loop's own, read at each step.
        self.ready: deque[SimulatedHandle | SimulatedTimer] = deque()
        self.turn_due = False
        self.busy_until = 0.0
        self.stopped = False
        """Whether its handles stay where they are: paused or dead."""
        self._tasks: list[SimulatedTask[Any]] = []
        self._failed: list[Problem] = []
        self._pruned_at = _PRUNED_AT

    def __repr__(self) -> str:
        return f"<Node {self.label} {self.state.value}>"

    @property
    def label(self) -> str:
        """The name as traces show it: with the number from the second incarnation on."""
        return self.name if self.number == 1 else f"{self.name}#{self.number}"

    @property
    def alive(self) -> bool:
        return self.state is not State.DEAD

    def keep(self, task: SimulatedTask[Any]) -> None:
        """Hold the task until it is done.

        The collector must never end one: that would run its `finally` at a moment which no seed decides, and
        in a node that may be dead.
        """
        self._tasks.append(task)
        if len(self._tasks) >= self._pruned_at and self.alive:
            self.forget_done_tasks()
            self._pruned_at = max(_PRUNED_AT, 2 * len(self._tasks))

    def pending_tasks(self) -> list[SimulatedTask[Any]]:
        """Its tasks that are not done, in the order in which they were made."""
        return [task for task in self._tasks if not task.done()]

    def forget_done_tasks(self) -> None:
        """Release finished tasks, so that one with an unread exception reports it now."""
        self._failed += self._failures_now()
        self._tasks = self.pending_tasks()

    def failed_tasks(self) -> list[Problem]:
        """Its tasks that ended with an exception that is unexpected or that no caller gets (background_tasks.py).

        Whether or not something has retrieved that one. Tasks of a dead process are included: a kill hides no error.
        """
        return self._failed + self._failures_now()

    def _failures_now(self) -> list[Problem]:
        return [
            Problem(self.label, f"{_describe(task)} failed at {origin_of(error)}", error)
            for task in self._tasks
            # Looked at without marking it as retrieved, which would hide it from asyncio.
            if (error := task._exception) is not None
            and (is_unexpected(error) or has_lost_its_error(task.get_coro(), error))
        ]

    def take_tasks(self) -> list[SimulatedTask[Any]]:
        """Hand over all that it held."""
        taken, self._tasks = self._tasks, []
        return taken


NODE: ContextVar[Node] = ContextVar("NODE")
"""The node that runs now. Unset outside of any node; the loop then takes its world."""


@contextmanager
def in_node(node: Node) -> Iterator[Node]:
    """What is scheduled inside belongs to the node."""
    token = NODE.set(node)
    try:
        yield node
    finally:
        NODE.reset(token)


def context_of(node: Node) -> Context:
    """A fresh context for a piece of work of the node."""
    return node.context.copy()


def where_it_waits(task: asyncio.Task[Any]) -> str:
    """The functions that the task is in, outermost first, and the innermost place outside of asyncio."""
    names, place = [], ""
    waiting: Any = task.get_coro()
    while inspect.iscoroutine(waiting):
        names.append(waiting.__qualname__)
        frame = waiting.cr_frame
        if frame is not None and not (place and "/asyncio/" in frame.f_code.co_filename):
            file = "/".join(frame.f_code.co_filename.split("/")[-2:])
            place = f" ({file}:{frame.f_lineno})"
        waiting = waiting.cr_await
    return " > ".join(names) + place


def pending_tasks_of(nodes: Iterable[Node]) -> list[str]:
    """One line for each pending task of a living node: what it awaits."""
    return [
        f"  {node.label}: {task.get_name()} in {where_it_waits(task)}"
        + (" (paused)" if node.state is State.PAUSED else "")
        for node in nodes
        if node.alive
        for task in node.pending_tasks()
    ]


TimerHeap = list[tuple[float, int, Node, SimulatedTimer | None]]
"""Timers and turns that are due: when, a number, on which node, and the timer if it is one."""


def by_clock_of(node: Node, heap: TimerHeap) -> TimerHeap:
    """The same, each timer of the node's host due when its clock, whose rate has changed, shows the timer's time."""
    return [
        (node.clock.shows_at(timer.due), number, owner, timer)
        if timer is not None and owner.clock is node.clock and not isinstance(timer, KernelTimer)
        else (when, number, owner, timer)
        for when, number, owner, timer in heap
    ]


def _describe(task: asyncio.Task[Any]) -> str:
    coroutine = task.get_coro()
    return f"task {task.get_name()} of {getattr(coroutine, '__qualname__', repr(coroutine))}"
