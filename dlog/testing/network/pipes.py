"""One direction of one connection: bytes in order, after a delay, cut where the seed says.

Invariant: what was pushed and not lost with a reset arrives once, in order, before the end. A pipe holds no more than
its window, which stands for the buffers of both kernels; more stays with the sender's transport.

While a pipe is *quiet* (cut, clogged, stalled, its host powered off) bytes stay in it and nothing arrives.
"""

from __future__ import annotations

from collections import deque
from contextvars import Context
from enum import Enum
from math import inf
from random import Random
from typing import Protocol

from dlog.testing.kernel.scheduler import Scheduler
from dlog.testing.network.links import Link

READ_BYTES_MAX = 256 * 1024
"""One read takes so much at the most, as in asyncio."""
RESENT_FOR_S = 924.6
"""How long Linux retransmits unacknowledged bytes before it reports an error to the program (tcp_retries2 = 15)."""
_SPLIT = 0.05
"""How often a read ends at a place chosen by the seed, before all that has arrived."""


class End(Enum):
    FIN = "end of stream"
    RESET = "reset"


class PipeEnd(Protocol):
    """The transport at one end."""

    context: Context

    @property
    def wants_room(self) -> bool: ...
    def room_made(self) -> None: ...
    def arrived(self) -> None: ...
    def timed_out(self) -> None: ...


class Pipe:
    """From `sender` to `receiver`; `back` is the other direction of the same connection."""

    sender: PipeEnd
    receiver: PipeEnd
    back: Pipe

    def __init__(self, loop: Scheduler, link: Link, window_bytes: int, chance: Random) -> None:
        self.link = link
        self.quiet_until = link.quiet_until
        self.reset_at = inf
        """When the reset on its way arrives."""
        self._loop = loop
        self._window_bytes = window_bytes
        self._random = chance.random
        self._queue: deque[tuple[float, bytes | End]] = deque()
        self._unacked_bytes = 0
        self._unsent_acks_bytes = 0
        self._last_arrival = 0.0
        self._pushed_at = 0.0
        self._stalled_until = 0.0
        self._resent_at = 0.0
        self._unheard_since: float | None = None
        """Since when something was sent in vain."""
        self._room_due = False
        self._ended = False
        self._lost = False
        self._host_down = False
        self._nobody = False
        """The receiving socket is closed, and its kernel answers so."""
        self._reset_owed = False
        link.pipes[self] = None

    # ---- the sender's side

    @property
    def room_bytes(self) -> int:
        return self._window_bytes - self._unacked_bytes

    def push(self, data: bytes) -> None:
        """Send; the sender keeps within `room_bytes`."""
        self._unacked_bytes += len(data)
        if self._nobody:
            self._answer_with_reset()
        elif not self._lost:
            self._put(data)
        if self.quiet_until == inf:
            self._sent_in_vain()

    def finish(self) -> None:
        """Everything was sent: the end of the stream follows it."""
        if not self._ended and not self._nobody and not self._lost:
            self._ended = True
            self._put(End.FIN)

    def reset(self, delay_s: float = 0.0) -> bool:
        """End the stream by force; of what is on its way the seed loses a part. Lost itself on a cut link."""
        if self.reset_at < inf or self._nobody or self.quiet_until == inf:
            return False
        now, queue = self._loop.now, self._queue
        arrived = sum(1 for arrival, _ in queue if arrival <= now)
        for _ in range(int((len(queue) - arrived + 1) * self._random())):
            queue.pop()
        arrival = max(now + delay_s + self.link.delay(), self.quiet_until, queue[-1][0] if queue else 0.0)
        self._ended = True
        self.reset_at = self._last_arrival = arrival
        self._pushed_at = now
        queue.append((arrival, End.RESET))
        self._wake_receiver(arrival)
        return True

    def _sent_in_vain(self) -> None:
        if self._unheard_since is None and self._unacked_bytes:
            self._unheard_since = self._loop.now
            self._loop.call_later(RESENT_FOR_S, self._give_up, context=self.sender.context)

    def _give_up(self) -> None:
        if self._unheard_since is None:
            return
        due = self._unheard_since + RESENT_FOR_S
        if self._loop.now < due:  # heard in between, and then no more
            self._loop.at(due, self._give_up, context=self.sender.context)
        else:
            self.sender.timed_out()

    def _put(self, item: bytes | End) -> None:
        now = self._loop.now
        if now != self._pushed_at:  # else it travels with what was sent at the same instant
            self._pushed_at = now
            arrival = now + self.link.delay()
            if arrival > self._last_arrival:
                self._last_arrival = arrival
            self.link.arrives(self._last_arrival)
            self._wake_receiver(self._last_arrival)
        self._queue.append((self._last_arrival, item))

    def _wake_receiver(self, when: float) -> None:
        receiver = self.receiver
        self._loop.at(when, receiver.arrived, context=receiver.context)

    # ---- the receiver's side

    def has_arrived(self, now: float) -> bool:
        """Whether there is something to read. If not because the pipe is quiet, the receiver is woken then."""
        if not self._queue or self._queue[0][0] > now:
            return False
        if now < self.quiet_until:
            if self.quiet_until < inf:
                self._wake_receiver(self.quiet_until)
            return False
        return True

    def take(self, now: float, bytes_max: int) -> bytes | End:
        """What one read gets of that which has arrived: bytes, or the end."""
        queue = self._queue
        item = queue.popleft()[1]
        if isinstance(item, End):
            return item
        if queue and queue[0][0] <= now and len(item) < bytes_max:
            item = self._joined(item, now, bytes_max)
        stop, chance = bytes_max, self._random()
        if chance < _SPLIT:
            stop = min(stop, 1 + int(len(item) * chance / _SPLIT))
        if stop < len(item):
            queue.appendleft((now, item[stop:]))
            item = item[:stop]
        self._acknowledge(len(item))
        return item

    def _joined(self, first: bytes, now: float, bytes_max: int) -> bytes:
        parts, size, queue = [first], len(first), self._queue
        while queue and size < bytes_max:
            arrival, item = queue[0]
            if arrival > now or isinstance(item, End):
                break
            parts.append(item)
            size += len(item)
            queue.popleft()
        return b"".join(parts)

    def _acknowledge(self, byte_count: int) -> None:
        if self.back.quiet_until == inf:
            self._unsent_acks_bytes += byte_count
            return
        self._unacked_bytes -= byte_count
        if not self._room_due and self.sender.wants_room:
            self._room_due = True
            when = max(self._loop.now + self.back.link.delay(), self.back.quiet_until)
            self._loop.at(when, self._room, context=self.sender.context)

    def _room(self) -> None:
        self._room_due = False
        self.sender.room_made()

    def close_receiver(self) -> bool:
        """The receiving socket is closed. True if something had arrived that it never read."""
        now = self._loop.now
        unread = any(arrival <= now and not isinstance(item, End) for arrival, item in self._queue)
        coming = any(arrival > now and not isinstance(item, End) for arrival, item in self._queue)
        self._nobody = True
        self._queue.clear()
        if coming:
            self._answer_with_reset()
        return unread

    def _answer_with_reset(self) -> None:
        """Bytes for a socket that does not exist."""
        if self.quiet_until == inf or self.back.quiet_until == inf:
            self._reset_owed = True
        else:
            self.back.reset(max(0.0, self.quiet_until - self._loop.now) + self.link.delay())

    # ---- what the network does to it

    def disturbed(self) -> None:
        """Find out anew how long nothing arrives; what waits arrives then."""
        if self._lost or self._host_down:
            self.quiet_until = inf
        else:
            self.quiet_until = max(self.link.quiet_until, self._stalled_until, self._resent_at)
        if self.quiet_until == inf:
            self._sent_in_vain()
            return
        self._unheard_since = None
        if self._queue:
            self._wake_receiver(max(self.quiet_until, self._queue[0][0]))

    def healed(self, resent_after_s: float) -> None:
        """Bytes pass again, those that have waited after so long."""
        if self._queue or self._reset_owed:
            self._resent_at = self._loop.now + resent_after_s
        self.disturbed()
        self._settle()
        self.back._settle()

    def _settle(self) -> None:
        """Send what could not be sent while one of both directions was quiet: acknowledgements, a reset."""
        if self._reset_owed and self.quiet_until < inf and self.back.quiet_until < inf:
            self._reset_owed = False
            self._answer_with_reset()
        owed, self._unsent_acks_bytes = self._unsent_acks_bytes, 0
        if owed:
            self._acknowledge(owed)

    def stall(self, until: float) -> None:
        """Let nothing arrive before then."""
        self._stalled_until = max(self._stalled_until, until)
        self.disturbed()

    def lose(self) -> None:
        """Let nothing arrive any more, without notifying either end."""
        self._lost = True
        self._queue.clear()
        self.disturbed()

    def host_lost(self) -> None:
        """The receiver's host has lost its power: no reset is sent."""
        self._host_down = True
        self.disturbed()

    def host_back(self, resent_after_s: float) -> None:
        """The receiver's host runs again, and knows nothing of this connection."""
        if self._host_down:
            self._host_down = False
            self._nobody = True
            self._queue.clear()
            if self._unacked_bytes:
                self._reset_owed = True
            self.healed(resent_after_s)

    def forget(self) -> None:
        """Both ends are closed: faults of the link no longer concern it."""
        self.link.pipes.pop(self, None)
