"""The background loop: outcomes cross threads, interrupts cancel first, and wrong use is refused."""

from __future__ import annotations

import _thread
import asyncio
import signal
import threading
import time

import pytest

from dlog.blocking.deadline import Deadline
from dlog.blocking.loop_thread import LoopThread
from dlog.blocking.pending import Board
from ledger.errors import ConfigurationError


def test_results_and_errors_cross() -> None:
    """What the coroutine returns or raises, the caller gets; calls run on the loop's thread."""
    thread = LoopThread("test")

    async def divide(a: int, b: int) -> float:
        return a / b

    assert thread.run(divide, 6, 3) == 2
    with pytest.raises(ZeroDivisionError):
        thread.run(divide, 1, 0)
    assert thread.call(threading.current_thread).name == "test"
    thread.close()
    thread.close()
    assert thread.closed


def test_an_interrupt_cancels_first() -> None:
    """The coroutine has ended, clean-up included, before the caller sees KeyboardInterrupt."""
    thread = LoopThread("test")
    main = threading.main_thread().ident
    assert main is not None
    ended: list[str] = []

    async def wait_for_ever() -> None:
        asyncio.get_running_loop().call_soon(signal.pthread_kill, main, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            ended.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        thread.run(wait_for_ever)
    assert ended == ["cleaned up"]
    thread.close()


def test_an_interrupt_without_a_waiter_is_delivered_all_the_same() -> None:
    """As a signal that arrives just before the wait begins: its handler is due, and the lock is not disturbed."""
    thread = LoopThread("test")

    woke: list[str] = []

    async def wait_long() -> None:
        asyncio.get_running_loop().call_later(0.1, _thread.interrupt_main)
        await asyncio.sleep(20)
        woke.append("only now")

    with pytest.raises(KeyboardInterrupt):
        thread.run(wait_long)
    assert woke == []
    thread.close()


def test_a_timeout_error_of_the_coroutine_is_no_reason_to_wait_on() -> None:
    thread = LoopThread("test")

    async def too_late() -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        thread.run(too_late)
    thread.close()


def test_a_thread_that_waits_for_an_append_hears_such_an_interrupt_too() -> None:
    thread = LoopThread("test")
    board = Board(thread)
    thread.loop.call_soon_threadsafe(thread.loop.call_later, 0.1, _thread.interrupt_main)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        board.wait_until(lambda: time.monotonic() - began > 20)
    assert not board.wait_until(lambda: False, Deadline(0.01))
    thread.close()


def test_wrong_use_is_refused() -> None:
    """After close, and from the loop itself, where waiting would never end."""
    thread = LoopThread("test")

    async def nothing() -> None:
        return

    def on_the_loop() -> str:
        with pytest.raises(ConfigurationError, match=r"use dlog\.aio"):
            thread.run(nothing)
        return "refused"

    assert thread.call(on_the_loop) == "refused"
    thread.close()
    with pytest.raises(ConfigurationError, match="connect again"):
        thread.run(nothing)


def test_the_loop_refuses_to_wait_for_itself_also_while_it_is_closed() -> None:
    """A callback of an append may run after another thread has begun to close the client."""
    thread = LoopThread("test")
    board = Board(thread)
    inside, closing = threading.Event(), threading.Event()
    refused: list[str] = []

    def on_the_loop() -> None:
        inside.set()
        closing.wait(20)
        for wait in (thread.close, lambda: board.wait_until(lambda: False)):
            try:
                wait()
            except ConfigurationError as error:
                refused.append(str(error))

    thread.post(on_the_loop)
    assert inside.wait(5)
    closer = threading.Thread(target=thread.close, daemon=True)
    closer.start()
    while not thread.closed:
        time.sleep(0.001)
    closing.set()
    closer.join(20)
    assert not closer.is_alive()
    assert len(refused) == 2 and all("use dlog.aio" in each for each in refused)


def test_close_cancels_what_still_runs() -> None:
    """A task that nobody waits for ends with the loop, and its clean-up runs."""
    thread = LoopThread("test")
    ended = threading.Event()
    begun = threading.Event()
    tasks: list[asyncio.Task[None]] = []

    async def run() -> None:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    thread.post(lambda: tasks.append(thread.loop.create_task(run())))
    assert begun.wait(5)
    thread.close()
    assert ended.is_set()
