from __future__ import annotations

import asyncio
import signal

import pytest

from ledger import whole_loop


def test_an_interrupt_while_a_loop_is_made_comes_when_it_is_whole() -> None:
    """Half a loop would write a traceback when it is collected."""
    made: list[asyncio.AbstractEventLoop] = []

    def interrupted() -> asyncio.AbstractEventLoop:
        signal.raise_signal(signal.SIGINT)
        made.append(asyncio.new_event_loop())
        return made[0]

    with pytest.raises(KeyboardInterrupt):
        whole_loop.whole(interrupted)
    assert made[0].is_closed()


def test_what_handles_an_interrupt_stays() -> None:
    before = signal.getsignal(signal.SIGINT)
    assert whole_loop.run(asyncio.sleep(0, 7)) == 7
    assert signal.getsignal(signal.SIGINT) is before
