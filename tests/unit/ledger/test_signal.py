"""Waiting for a signal beside other things."""

from __future__ import annotations

import asyncio

from ledger.signal import Signal


async def test_all_waiters_are_woken_by_the_next_set() -> None:
    signal = Signal()
    waiting = [signal.future(), signal.future()]
    assert not any(future.done() for future in waiting)
    signal.set()
    assert all(future.done() for future in waiting) and signal.is_set()


async def test_a_signal_that_is_set_is_not_waited_for_until_it_is_cleared() -> None:
    signal = Signal()
    signal.set()
    assert signal.future().done()
    signal.clear()
    assert not signal.is_set() and not signal.future().done()


async def test_a_cancelled_waiter_is_not_kept() -> None:
    signal = Signal()
    first = signal.future()
    for _ in range(1000):
        signal.future().cancel()
    assert len(signal._waiting) <= 2
    signal.set()
    await asyncio.wait_for(first, 1)
