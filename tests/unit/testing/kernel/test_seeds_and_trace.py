"""Streams of chance by purpose, and the record of a run."""

from __future__ import annotations

from dlog.testing.kernel.seeds import Seeds
from dlog.testing.kernel.trace import Trace


def test_a_purpose_has_one_stream_whatever_others_draw() -> None:
    one, other = Seeds(7), Seeds(7)
    other.stream("network").random()
    assert one.stream("disk") is one.stream("disk")
    assert [one.stream("disk").random() for _ in range(5)] == [
        other.stream("disk").random() for _ in range(5)
    ]
    assert Seeds(7).stream("disk").random() != Seeds(8).stream("disk").random()
    assert Seeds(7).stream("disk").random() != Seeds(7).stream("network").random()


def test_streams_are_the_same_in_every_version() -> None:
    """Kept seeds must go on meaning what they meant."""
    assert Seeds(1).stream("network").getrandbits(32) == 3267717521


def trace_of(*texts: str, remembered_max: int = 100) -> Trace:
    time = iter(range(10_000))
    trace = Trace(lambda: next(time) / 2, remembered_max)
    for text in texts:
        trace.note("fault.reset", "bookie-1", text)
    return trace


def test_the_digest_covers_every_note_and_its_order() -> None:
    many = [str(number) for number in range(1000)]
    assert trace_of(*many).digest() == trace_of(*many).digest()
    assert trace_of(*many).digest() != trace_of(*many[1:], "0").digest()
    assert trace_of("a", "b").digest() != trace_of("b", "a").digest()


def test_the_timeline_remembers_the_last_notes_and_the_counts_all() -> None:
    trace = trace_of(*map(str, range(10)), remembered_max=3)
    assert trace.counts["fault.reset"] == 10
    assert trace.timeline().splitlines() == [
        "    4.000000  bookie-1  !! reset  7",
        "    4.500000  bookie-1  !! reset  8",
        "    5.000000  bookie-1  !! reset  9",
    ]
    assert trace.timeline(last=1).endswith("!! reset  9")
    assert trace.timeline(last=0) == ""


def test_details_show_in_the_timeline_and_never_in_the_digest() -> None:
    plain, detailed = trace_of("a"), trace_of("a")
    plain.detail("net.send", "x", "5 bytes")
    detailed.detailed = True
    detailed.detail("net.send", "x", "5 bytes")
    assert detailed.digest() == plain.digest()
    assert "5 bytes" in detailed.timeline() and "5 bytes" not in plain.timeline()


def test_columns_are_as_wide_as_what_is_in_them() -> None:
    trace = trace_of("a")
    trace.with_events = True
    trace.event("-> bookie-1", "writer", "ADD 3:0")
    assert trace.timeline().splitlines() == [
        "    0.500000  bookie-1  !! reset     a",
        "    1.000000  writer    -> bookie-1  ADD 3:0",
    ]


def test_effects_on_disks_are_in_the_digest_and_only_with_details_in_the_timeline() -> None:
    plain, detailed = trace_of("a"), trace_of("a")
    detailed.detailed = True
    for trace in (plain, detailed):
        trace.note("disk.write", "bookie-1", "12 bytes")
    assert detailed.digest() == plain.digest() != trace_of("a").digest()
    assert "12 bytes" in detailed.timeline() and "12 bytes" not in plain.timeline()


def test_a_sealed_trace_takes_nothing_more() -> None:
    trace = trace_of("a")
    before = trace.digest()
    trace.end()
    trace.note("late", "x", "")
    assert trace.digest() == before
