"""A deterministic event loop: virtual time, one thread, every choice made by a seed.

Each node is a process with a ready queue of its own, kept in order as asyncio keeps it. Something to do for an
idle node begins a *turn* of it a few seeded microseconds later, and a turn costs the node seeded time; so which of
several ready nodes goes first is chosen by the seed, and interleavings spread. A turn runs what was ready when it
began, or a seeded part of that, so that a kill can fall between any two callbacks.

When nothing is ready, time jumps to what comes next.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from logging import LogRecord
from typing import Any, TypeVar, TypeVarTuple, cast

from dlog.testing.errors import DeadlockError, Problem, UncaughtProblemsError, is_unexpected
from dlog.testing.kernel.clocks import HostClock
from dlog.testing.kernel.garbage_collector import collecting_on_request
from dlog.testing.kernel.handles import (
    KernelTimer,
    SimulatedFuture,
    SimulatedHandle,
    SimulatedTask,
    SimulatedTimer,
)
from dlog.testing.kernel.limits import Limits
from dlog.testing.kernel.nodes import (
    NODE,
    Node,
    State,
    TimerHeap,
    by_clock_of,
    context_of,
    in_node,
    pending_tasks_of,
)
from dlog.testing.kernel.scheduler import Scheduler
from dlog.testing.kernel.seeds import Seeds
from dlog.testing.kernel.teardown import close_leftovers
from dlog.testing.kernel.trace import Trace
from dlog.testing.network.connecting_loop import ConnectingLoop
from dlog.testing.network.network import Network

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
ExceptionHandler = Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object]

START_S = 1000.0
"""Time at which a run begins: not zero, since programs take that for "never"."""
_TURN_S = 4e-6
"""What a turn costs, at the most, besides its callbacks; also how late one begins."""
_CALLBACK_S = 2e-6
"""What a callback costs, on average."""
_PART_OF_A_TURN = 0.25
"""How often a turn ends before all that was ready has run."""
_COLLECT_EVERY = 200_000
"""Steps between two runs of the garbage collector."""
_CANCELLED_MAX = 200


class SimulatedLoop(ConnectingLoop, Scheduler):
    """An event loop on which any number of simulated processes run.

    Equal seeds and equal programs give equal runs, whatever PYTHONHASHSEED is. Programs must not iterate over sets
    of their own objects: those are ordered by memory address. Tasks, futures and timers of this loop may be.
    """

    def __init__(self, seeds: Seeds, limits: Limits | None = None) -> None:
        self.now = START_S
        """The time of the simulation, which no clock of a node changes; what the simulator itself goes by."""
        self._limits = limits or Limits()
        self._until = START_S + self._limits.virtual_s_max
        self._random = seeds.stream("schedule").random
        self._heap: TimerHeap = []
        self._sequence = 0
        self._cancelled = 0
        self._number = 0
        self._schedule = 0
        self._running = self._stopping = self._closed = self._closing = False
        self._clocks_differ = False
        self._handler: ExceptionHandler | None = None
        self._nodes: dict[str, Node] = {}
        self._all_nodes: list[Node] = []
        self.steps = 0
        self.problems: list[Problem] = []
        """Exceptions that were not caught, of nodes that were alive."""
        self.explained: dict[str, Callable[[LogRecord], bool]] = {}
        """By name of a node: whether a fault is the reason for this error that it has logged."""
        self.seeds = seeds
        self.trace = Trace(lambda: self.now)
        self.trace.sources.append(lambda: (self.now, self.steps, self._schedule))
        self.network = Network(self, seeds, self.trace)
        self.world = self.boot("world")
        """The node of whatever runs outside of the simulated processes; it never fails."""

    # ---- nodes

    def boot(self, name: str) -> Node:
        """A new process: the first of this name, or the next incarnation of one that is dead."""
        before = self._nodes.get(name)
        if before is not None and before.alive:
            raise ValueError(f"node {name} is {before.state.value}: kill it before starting it again")
        node = Node(
            name,
            before.clock if before else HostClock(self.now, self.seeds.stream(f"clock {name}")),
            number=1 if before is None else before.number + 1,
            address=before.address if before else self.network.new_address(),
        )
        node.serial = len(self._all_nodes)
        self._nodes[name] = node
        self._all_nodes.append(node)
        self.network.booted(node)
        self.trace.note("node.boot", node.label, node.address)
        return node

    @property
    def node(self) -> Node:
        """The node that runs now."""
        return NODE.get(self.world)

    def node_named(self, name: str) -> Node:
        """The latest incarnation."""
        return self._nodes[name]

    def nodes(self) -> list[Node]:
        """The latest incarnation of each, in the order in which their names appeared. The world is the first."""
        return list(self._nodes.values())

    def in_node(self, node: Node) -> AbstractContextManager[Node]:
        """What is scheduled inside belongs to the node."""
        return in_node(node)

    def kernel_context(self) -> Context:
        return context_of(self.world)

    def create_task_on(
        self, node: Node, coroutine: Coroutine[Any, Any, T], *, name: str | None = None
    ) -> asyncio.Task[T]:
        """Run the coroutine in the node."""
        return self.create_task(coroutine, name=name, context=context_of(node))

    def kill(self, node: Node, *, host_too: bool = False, because: str = "") -> None:
        """End the node as kill -9 does, between two of its callbacks (or when it awaits next, if it runs now).

        Nothing of it runs again: no timer, no `finally`, no done-callback. Its kernel ends its connections; with
        `host_too` the host is powered off as well, and peers hear nothing until the next incarnation boots. A process
        that exits by itself says `because` of what; that is no fault.
        """
        self._require_process(node)
        if node.alive:
            node.state, node.stopped = State.DEAD, True
            if host_too:
                node.clock.restarted(self.now)
            self.network.killed(node, host_too)
            kind = "node.exit" if because else "fault.power_off" if host_too else "fault.kill"
            self.trace.note(kind, node.label, because)

    def pause(self, node: Node) -> None:
        """Stop the node as SIGSTOP does: nothing of it runs, while time goes on and its kernel still receives."""
        self._require_process(node)
        if node.state is State.RUNNING:
            node.state, node.stopped = State.PAUSED, True
            self.trace.note("fault.pause", node.label, "")

    def resume(self, node: Node) -> None:
        """Go on, with everything that has become due in the meantime."""
        if node.state is State.PAUSED:
            node.state, node.stopped = State.RUNNING, False
            self.trace.note("node.resume", node.label, "")
            if node.ready and not node.turn_due:
                self._begin_turn(node)

    def _require_process(self, node: Node) -> None:
        if node is self.world:
            raise ValueError(
                "the test itself cannot be killed or paused: boot a node and run the program there"
            )

    def run_clock_at(self, node: Node, rate: float) -> None:
        """A fault: the clocks of the node's host run `rate` times as fast from now on, and so do its timers."""
        self._require_process(node)
        self._clocks_differ = True
        node.clock.run_at(rate, self.now)
        self._heap[:] = by_clock_of(node, self._heap)
        heapify(self._heap)
        self.trace.note("fault.clock_rate", node.label, f"{rate:g}")

    # ---- scheduling

    def time(self) -> float:
        return self.node.clock.local(self.now) if self._clocks_differ else self.now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            self._require_not_closed()
        if context is None:
            context = copy_context()
        handle = SimulatedHandle(callback, args, context)
        node = context.get(NODE, self.world)
        node.ready.append(handle)
        if not node.turn_due and not node.stopped:
            self._begin_turn(node)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """There is one thread: the same as call_soon."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self._closed:
            self._require_not_closed()
        if context is None:
            context = copy_context()
        node = context.get(NODE, self.world)
        when = due = self.now + delay
        if self._clocks_differ:
            due = node.clock.local(self.now) + delay
            when = node.clock.shows_at(due)
        self._sequence = number = self._sequence + 1
        timer = SimulatedTimer(due, number, callback, args, context, self)
        heappush(self._heap, (when, number, node, timer))
        return timer

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self._closed:
            self._require_not_closed()
        if context is None:
            context = copy_context()
        node, due = context.get(NODE, self.world), when
        if self._clocks_differ:
            when = node.clock.shows_at(due)
        self._sequence = number = self._sequence + 1
        timer = SimulatedTimer(due, number, callback, args, context, self)
        heappush(self._heap, (when, number, node, timer))
        return timer

    def at(self, when: float, callback: Callable[[], object], *, context: Context) -> None:
        self._sequence = number = self._sequence + 1
        timer = KernelTimer(when, number, callback, (), context, self)
        heappush(self._heap, (when, number, context.get(NODE, self.world), timer))

    def create_future(self) -> asyncio.Future[Any]:
        return SimulatedFuture(loop=self)

    def next_number(self) -> int:
        """For a task or a future that is hashed for the first time."""
        self._number += 1
        return self._number

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        if name is None:
            name = f"task-{self._number}"
        task = SimulatedTask(coro, loop=self, name=str(name), context=context)
        node = NODE.get(self.world) if context is None else context.get(NODE, self.world)
        node.keep(task)
        return task

    def _begin_turn(self, node: Node) -> None:
        """Something has become ready in an idle node."""
        node.turn_due = True
        now, free = self.now, node.busy_until
        when = (free if free > now else now) + _TURN_S * self._random()
        self._sequence = number = self._sequence + 1
        heappush(self._heap, (when, number, node, None))

    def timer_cancelled(self) -> None:
        """One more timer in the heap will never fire."""
        self._cancelled += 1
        if self._cancelled > _CANCELLED_MAX and 2 * self._cancelled > len(self._heap):
            # In place: the loop that runs holds the same list.
            self._heap[:] = [each for each in self._heap if each[3] is None or each[3].callback is not None]
            heapify(self._heap)
            self._cancelled = 0

    # ---- running

    def run_forever(self) -> None:
        if self._running:
            raise RuntimeError("this event loop is already running")
        if self._closed:
            raise RuntimeError("Event loop is closed")
        self._running = True
        hooks, outer = sys.get_asyncgen_hooks(), asyncio._get_running_loop()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._end_generator)
        asyncio._set_running_loop(self)
        try:
            with collecting_on_request():
                self._run()
                for node in self._all_nodes:
                    if node.alive:
                        node.forget_done_tasks()
                gc.collect()
        finally:
            asyncio._set_running_loop(outer)
            sys.set_asyncgen_hooks(*hooks)
            self._running = self._stopping = False

    def run_until_complete(self, future: Awaitable[T] | Generator[Any, None, T]) -> T:
        """Run until it is done. A coroutine runs in the world.

        DeadlockError, LimitReachedError.
        """
        main: asyncio.Future[T] = asyncio.ensure_future(cast(Any, future), loop=self)
        main.add_done_callback(self._main_is_done)
        try:
            self.run_forever()
        finally:
            main.remove_done_callback(self._main_is_done)
        if not main.done():
            raise RuntimeError("Event loop stopped before Future completed.")
        return main.result()

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine to its end; also fail if an exception was lost anywhere (UncaughtProblemsError)."""
        try:
            result = self.run_until_complete(main)
        except BaseException as error:
            for problem in self.problems:
                error.add_note(f"an earlier exception that was not caught: {problem}")
            raise
        if self.problems:
            raise UncaughtProblemsError(self.problems)
        return result

    def _main_is_done(self, _: asyncio.Future[Any]) -> None:
        self._stopping = True

    def _run(self) -> None:
        heap, random = self._heap, self._random
        pause_at = min(self.steps + _COLLECT_EVERY, self._limits.steps_max)
        while not self._stopping:
            if not heap:
                raise DeadlockError(
                    f"deadlock after {self.now - START_S:.6f} s: no event is left; waiting tasks:",
                    waiting=self.waiting(),
                )
            when, _, node, timer = heappop(heap)
            if timer is not None:
                if timer.callback is None:
                    self._cancelled -= 1
                    continue
                if when > self.now:
                    self.now = when
                node.ready.append(timer)
                if node.turn_due or node.stopped:
                    continue
                node.turn_due = True
                when = max(self.now, node.busy_until) + _TURN_S * random()
                if heap and heap[0][0] <= when:
                    self._sequence = number = self._sequence + 1
                    heappush(heap, (when, number, node, None))
                    continue
            elif node.stopped:
                node.turn_due = False
                continue
            if when > self.now:
                self.now = when
            self._take_turns(node, pause_at)
            if self.steps >= pause_at or self.now > self._until:
                pause_at = min(self.steps + _COLLECT_EVERY, self._limits.steps_max)
                self._limits.require(self.steps, self.now - START_S, self.waiting)
                gc.collect()

    def _take_turns(self, node: Node, pause_at: int) -> None:
        """Let the node take a turn, and more of them as long as nothing else comes before the next."""
        heap, random, ready = self._heap, self._random, node.ready
        handle: SimulatedHandle | SimulatedTimer | None
        while True:
            chance, count, done = random(), len(ready), 0
            if count > 1 and chance < _PART_OF_A_TURN:
                count = 1 + int(chance * count / _PART_OF_A_TURN)
            while done < count:
                handle = ready.popleft()
                done += 1
                callback = handle.callback
                if callback is None:
                    continue
                try:
                    handle.context.run(callback, *handle.args)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # noqa: BLE001  # as asyncio's own: the loop outlives any callback
                    self._callback_failed(node, callback, error)
                if node.stopped:
                    break
            # The traceback of a task's error may keep this frame, and so the task, which would not report the error.
            handle = callback = None
            self.steps += done
            now = self.now
            self._schedule = hash((self._schedule, now, node.serial, done))
            node.busy_until = free = now + done * _CALLBACK_S * (0.5 + chance)
            if not ready or node.stopped:
                node.turn_due = False
                return
            when = free + _TURN_S * random()
            if self._stopping or self.steps >= pause_at or (heap and heap[0][0] <= when):
                self._sequence = number = self._sequence + 1
                heappush(heap, (when, number, node, None))
                return
            self.now = when

    def waiting(self) -> list[str]:
        """One line for each pending task of a living node: what it awaits."""
        return pending_tasks_of(self._all_nodes)

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End the simulation: what is left of it goes away without a trace."""
        if self._running:
            raise RuntimeError("Cannot close a running event loop")
        if not self._closed:
            self._closed = self._closing = True
            self.trace.digest()
            self.trace.end()
            close_leftovers(self, self._all_nodes)
            self._heap.clear()
            for node in self._all_nodes:
                node.ready.clear()
            self._closing = False

    def _require_not_closed(self) -> None:
        if not self._closing:
            raise RuntimeError("Event loop is closed")

    def _end_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._closed and self.node.alive:
            self.create_task(generator.aclose())

    # ---- lost exceptions

    def _callback_failed(self, node: Node, callback: Callable[..., object], error: BaseException) -> None:
        if node.alive or is_unexpected(error):  # else it died in this very callback, and of it
            message = f"exception in callback {getattr(callback, '__qualname__', callback)}"
            with in_node(node):
                self.call_exception_handler({"message": message, "exception": error})

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._closed:
            return
        if self._handler is not None:
            self._handler(self, context)
        else:
            self.default_exception_handler(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep it in `problems`: the run fails because of it."""
        subject = context.get("task") or context.get("future")
        message = str(context.get("message", "a problem without a message"))
        error = context.get("exception")
        # Without the subject and what the error says: both may show a memory address.
        self.trace.note("problem", self.node.label, f"{message} {type(error).__name__ if error else ''}")
        if subject is not None:
            message += f" ({subject!r})"
        self.problems.append(Problem(self.node.label, message, error))

    def set_exception_handler(self, handler: ExceptionHandler | None) -> None:
        self._handler = handler

    def get_exception_handler(self) -> ExceptionHandler | None:
        return self._handler

    def failed_tasks(self) -> list[Problem]:
        """Each unexpected exception that ended a task of any process, also of a dead one, with the first such task."""
        found: dict[int, Problem] = {}
        for node in self._all_nodes:
            for problem in node.failed_tasks():
                found.setdefault(id(problem.error), problem)
        return list(found.values())
