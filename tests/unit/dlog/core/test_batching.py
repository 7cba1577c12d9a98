"""When batches are full, when partial ones leave, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlog.core.batching import Batch, Batcher, BatchLimits
from dlog.errors import AppendRejectedError, MessageTooLargeError
from dlog.format.entry import ENTRY_OVERHEAD_BYTES, encode_entry
from dlog.format.message import message_bytes
from ledger.errors import ConfigurationError
from ledger.model import ENTRY_BYTES_MAX

LIMITS = BatchLimits(batch_bytes=1000, batch_count_max=5, linger_s=0.01)


def payloads_of(batch: Batch[int]) -> list[bytes | None]:
    return batch.payloads


def test_a_lone_message_leaves_immediately_when_nothing_is_in_flight() -> None:
    """An idle writer does not wait for company."""
    batcher = Batcher[int](LIMITS)
    assert batcher.add(b"a", None, (), 0, now=1.0) == ()
    batch = batcher.due(1.0, in_flight=False)
    assert batch is not None and batch.payloads == [b"a"] and batch.tokens == [0]
    assert batcher.deadline() is None


def test_a_partial_batch_lingers_while_others_are_in_flight() -> None:
    """It leaves `linger_s` after its first message, not after its last."""
    batcher = Batcher[int](LIMITS)
    batcher.add(b"a", None, (), 0, now=1.0)
    batcher.add(b"b", None, (), 1, now=1.009)
    assert batcher.due(1.009, in_flight=True) is None
    assert batcher.deadline() == 1.01
    batch = batcher.due(1.01, in_flight=True)
    assert batch is not None and payloads_of(batch) == [b"a", b"b"]


def test_a_batch_full_by_count_leaves_immediately() -> None:
    """The message that fills it is in it."""
    batcher = Batcher[int](LIMITS)
    left = [batcher.add(b"x", None, (), index, now=0.0) for index in range(5)]
    assert [len(batches) for batches in left] == [0, 0, 0, 0, 1]
    assert left[-1][0].tokens == [0, 1, 2, 3, 4]
    assert batcher.take() is None


def test_a_batch_full_by_bytes_leaves_immediately() -> None:
    """The same by bytes."""
    batcher = Batcher[int](LIMITS)
    assert batcher.add(b"x" * 600, None, (), 0, now=0.0) == ()
    (batch,) = batcher.add(b"x" * 600, None, (), 1, now=0.0)
    assert batch.count == 2


def test_a_message_that_does_not_fit_any_more_sends_the_batch_before_it() -> None:
    """No entry exceeds entry_bytes_max; order is kept."""
    limits = BatchLimits(entry_bytes_max=ENTRY_OVERHEAD_BYTES + 1024, batch_bytes=1000)
    batcher = Batcher[int](limits)
    batcher.add(b"x" * 500, None, (), 0, now=0.0)
    first, second = batcher.add(b"y" * 1010, None, (), 1, now=0.0)
    assert (first.tokens, second.tokens) == ([0], [1])


def test_messages_that_fill_an_entry_exactly_leave_in_one() -> None:
    limits = BatchLimits(entry_bytes_max=4096)
    batcher = Batcher[int](limits)
    batcher.add(b"x" * 1000, None, (), 0, now=0.0)
    rest = limits.body_bytes_max - batcher.open_bytes
    payload = b"y" * (rest - message_bytes(None, b"y" * 1000, []) + 1000)
    assert batcher.add(payload, None, (), 1, now=0.0) == ()
    assert batcher.open_bytes == limits.body_bytes_max


def test_a_batch_of_exactly_its_bytes_is_full() -> None:
    size = message_bytes(None, b"x" * 100, [])
    batcher = Batcher[int](BatchLimits(batch_bytes=2 * size))
    assert batcher.add(b"x" * 100, None, (), 0, now=0.0) == ()
    assert [batch.tokens for batch in batcher.add(b"x" * 100, None, (), 1, now=0.0)] == [[0, 1]]


def test_a_message_above_the_limit_is_refused_and_changes_nothing() -> None:
    """Both numbers are named; what waits goes on waiting."""
    limits = BatchLimits(entry_bytes_max=4096)
    batcher = Batcher[int](limits)
    batcher.add(b"a", None, (), 0, now=0.0)
    largest = 4096 - ENTRY_OVERHEAD_BYTES - message_bytes(None, b"", []) - 1
    with pytest.raises(MessageTooLargeError, match=r"entry of 4097 bytes, .* is 4096") as caught:
        batcher.add(b"x" * (largest + 1), None, (), 1, now=0.0)
    assert (caught.value.entry_bytes, caught.value.entry_bytes_max) == (4097, 4096)
    assert batcher.open_count == 1
    assert [batch.tokens for batch in batcher.add(b"x" * largest, None, (), 2, now=0.0)] == [[0]]


def test_append_many_is_one_entry_or_an_error() -> None:
    """Empty, unequal or too large: refused whole."""
    assert Batch.of(LIMITS, [b"a", None]).payloads == [b"a", None]
    assert Batch.of(LIMITS, [b"a"], keys=[b"k"], headers=[[(b"h", b"v")]]).headers == [(b"h", b"v")]
    with pytest.raises(AppendRejectedError, match="at least one"):
        Batch.of(LIMITS, [])
    with pytest.raises(ConfigurationError, match="as many keys"):
        Batch.of(LIMITS, [b"a"], keys=[b"k", b"l"])
    with pytest.raises(ConfigurationError, match="headers"):
        Batch.of(LIMITS, [b"a"], headers=5)  # type: ignore[arg-type]  # what no type checker saw
    with pytest.raises(MessageTooLargeError, match="batch of 2000 messages"):
        Batch.of(LIMITS, [b"x" * 1000] * 2000)


def test_append_many_fills_an_entry_to_its_last_byte() -> None:
    limits = BatchLimits(entry_bytes_max=4096)
    largest = 4096 - ENTRY_OVERHEAD_BYTES - message_bytes(None, b"", []) - 1
    assert Batch.of(limits, [b"x" * largest]).body_bytes == limits.body_bytes_max
    with pytest.raises(MessageTooLargeError):
        Batch.of(limits, [b"x" * (largest + 1)])


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("entry_bytes_max", ENTRY_BYTES_MAX, ENTRY_BYTES_MAX + 1),
        ("entry_bytes_max", ENTRY_OVERHEAD_BYTES + 1024, ENTRY_OVERHEAD_BYTES + 1023),
        ("batch_bytes", 1, 0),
        ("batch_count_max", 1, 0),
        ("linger_s", 0.0, -0.001),
        ("linger_s", 59.9, 60.0),
    ],
)
def test_limits_are_checked(name: str, allowed: float, refused: float) -> None:
    """Bounds and what was given are named."""
    assert getattr(BatchLimits(**{name: allowed}), name) == allowed  # type: ignore[arg-type]  # one of several types
    with pytest.raises(ConfigurationError, match=rf"{name}.* {refused}"):
        BatchLimits(**{name: refused})  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 1500), max_size=200), st.integers(1, 3000), st.integers(1, 20))
def test_nothing_is_lost_doubled_or_reordered(sizes: list[int], batch_bytes: int, count_max: int) -> None:
    """Whatever the sizes, tokens come out in order, and each batch fits its limits and its own arithmetic."""
    limits = BatchLimits(entry_bytes_max=3000, batch_bytes=batch_bytes, batch_count_max=count_max)
    batcher = Batcher[int](limits)
    batches: list[Batch[int]] = []
    for token, size in enumerate(sizes):
        batches += batcher.add(b"x" * size, None, (), token, now=0.0)
    rest = batcher.take()
    batches += [rest] if rest else []
    assert [token for batch in batches for token in batch.tokens] == list(range(len(sizes)))
    for batch in batches:
        _, body = encode_entry(batch.columns, epoch=1, append_time_us=1)
        assert batch.body_bytes == len(body) <= limits.body_bytes_max
        assert batch.count <= count_max
