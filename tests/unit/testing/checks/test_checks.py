"""Each check finds the fault it is for, and a sound history passes all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from dlog.model import MessageId
from dlog.testing.checks import checks
from dlog.testing.checks.history import Append, History, Observation, Outcome, Takeover, WholeRead


def message_id(number: int) -> MessageId:
    return MessageId(7, number, 0)


def sound() -> History:
    """Writer one appends m0..m2 and is deposed with m3 in flight; writer two goes on with m4 at entry 3."""
    acked = [Append("one", n, b"m%d" % n, n, n + 0.5, Outcome.ACKED, message_id(n)) for n in range(3)]
    lost = Append("one", 3, b"m3", 3, 5, Outcome.INDETERMINATE, message_id(3))
    refused = Append("one", 4, b"m9", 6, 6, Outcome.REJECTED)
    later = Append("two", 0, b"m4", 6, 6.5, Outcome.ACKED, MessageId(8, 0, 0))
    final = [(message_id(n), b"m%d" % n) for n in range(3)] + [(MessageId(8, 0, 0), b"m4")]
    reader = [Observation(found, payload, 9) for found, payload in final]
    return History(
        [*acked, lost, refused, later],
        [Takeover("one", 0), Takeover("two", 5)],
        {"tail": reader},
        final,
        whole_reads=[WholeRead("whole", 7, frozenset(found for found, _ in final))],
        resolutions=[(b"m3", message_id(3), "absent")],
    )


def test_a_sound_history_passes() -> None:
    checks.check(sound())


def lose(history: History) -> None:
    del history.final[1]


def invent(history: History) -> None:
    history.final.append((MessageId(8, 1, 0), b"who?"))


def resurrect(history: History) -> None:
    history.final.append((MessageId(8, 1, 0), b"m9"))


def double(history: History) -> None:
    history.final.append((MessageId(8, 1, 0), b"m4"))


def disagree(history: History) -> None:
    history.readers["tail"][0] = Observation(message_id(0), b"m1", 9)


def reorder(history: History) -> None:
    history.appends[1] = replace(history.appends[1], message_id=MessageId(8, 1, 0))
    history.appends[2] = replace(history.appends[2], message_id=message_id(1))


def ack_after_takeover(history: History) -> None:
    history.appends[3] = replace(history.appends[3], outcome=Outcome.ACKED, invoked=6, returned=6.1)


def leave_a_hole(history: History) -> None:
    history.appends[1] = replace(history.appends[1], outcome=Outcome.INDETERMINATE)
    del history.final[1]


def read_too_early(history: History) -> None:
    history.readers["tail"][3] = replace(history.readers["tail"][3], at=5.5)


def forget(history: History) -> None:
    history.readers["tail"].append(Observation(MessageId(8, 1, 0), b"m3", 9))


def go_back(history: History) -> None:
    history.readers["tail"].append(history.readers["tail"][0])


def skip(history: History) -> None:
    del history.readers["tail"][1]


def misplace(history: History) -> None:
    history.final.append((MessageId(8, 1, 0), b"m3"))


def resolve_wrongly(history: History) -> None:
    history.resolutions.append((b"m3", message_id(3), "committed"))


def overlook(history: History) -> None:
    history.whole_reads.append(WholeRead("blind", 7, frozenset([message_id(0)])))


def overlook_in_a_part(history: History) -> None:
    history.whole_reads.append(WholeRead("blind", 7, frozenset(), start=message_id(0)))


def trim_in_the_middle(history: History) -> None:
    """The first two are gone for good, and so is the third, which is not trimmed."""
    history.trimmed_before = message_id(2)
    del history.final[:3]


@pytest.mark.parametrize(
    ("damage", "found_by"),
    [
        (lose, checks.c1_no_acknowledged_message_is_lost),
        (invent, checks.c2_no_unsent_message),
        (resurrect, checks.c3_no_rejected_message_appears),
        (misplace, checks.c3_an_indeterminate_message_is_at_its_id_or_nowhere),
        (resolve_wrongly, checks.c3_what_was_resolved_stays_so),
        (overlook, checks.c9_what_was_acknowledged_is_seen_by_every_later_reader),
        (overlook_in_a_part, checks.c9_what_was_acknowledged_is_seen_by_every_later_reader),
        (trim_in_the_middle, checks.c1_no_acknowledged_message_is_lost),
        (trim_in_the_middle, checks.c10_once_read_always_readable),
        (double, checks.c4_no_duplicates),
        (disagree, checks.c5_all_readers_agree),
        (reorder, checks.c6_real_time_order),
        (ack_after_takeover, checks.c6_real_time_order),
        (reorder, checks.c7_per_handle_order),
        (leave_a_hole, checks.c8_no_holes),
        (read_too_early, checks.c9_nothing_is_readable_before_it_was_sent),
        (forget, checks.c10_once_read_always_readable),
        (go_back, checks.c11_reader_ids_increase),
        (skip, checks.c11_reader_ids_increase),
    ],
)
def test_a_fault_is_found(damage: Callable[[History], None], found_by: checks.Check) -> None:
    history = sound()
    damage(history)
    assert list(found_by(history))
    with pytest.raises(AssertionError, match=found_by.__name__):
        checks.check(history)


def test_a_reader_that_began_after_a_message_need_not_have_seen_it() -> None:
    history = sound()
    history.whole_reads.append(WholeRead("late", 7, frozenset([MessageId(8, 0, 0)]), start=message_id(3)))
    checks.check(history)


def test_what_was_trimmed_away_is_not_missed() -> None:
    history = sound()
    history.trimmed_before = message_id(2)
    del history.final[:2]
    checks.check(history)


def test_a_log_that_could_not_be_read_to_its_end_must_still_not_show_wrong_bytes() -> None:
    history = sound()
    history.complete = False
    del history.final[1:]
    checks.check(history)
    history.final[0] = (message_id(0), b"m1")
    with pytest.raises(AssertionError, match="c18_what_was_read"):
        checks.check(history)


def test_a_cancelled_append_may_be_there_or_not() -> None:
    history = sound()
    history.appends[1] = replace(history.appends[1], outcome=Outcome.CANCELLED, message_id=None)
    checks.check(history)
    history.readers["tail"] = [each for each in history.readers["tail"] if each.payload != b"m1"]
    history.whole_reads.clear()
    del history.final[1]
    checks.check(history)


def test_what_was_said_to_be_committed_need_not_be_found_in_a_log_that_cannot_be_read_to_its_end() -> None:
    history = sound()
    history.resolutions = [(b"m3", message_id(3), "committed")]
    assert list(checks.c3_what_was_resolved_stays_so(history))
    history.complete = False
    assert not list(checks.c3_what_was_resolved_stays_so(history))
