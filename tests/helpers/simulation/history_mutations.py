"""Ways to make any right history wrong. Each reports whether it found something to change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from random import Random
from typing import Any, TypeVar

from dlog.model import MessageId
from dlog.testing.checks.history import Append, History, Observation, Outcome, Resolved

T = TypeVar("T")
Logged = tuple[MessageId, bytes]
Mutation = Callable[[History, Random], bool]


def _one_of(random: Random, found: Sequence[T]) -> T | None:
    return random.choice(found) if found else None


def _change(history: History, append: Append, **fields: Any) -> None:
    history.appends[history.appends.index(append)] = replace(append, **fields)


def _set_log(history: History, log: list[Logged]) -> None:
    """The shadows and the end are cut out of it anew."""
    history.final[:] = [each for each in log if each[0] >= history.trimmed_before]
    start = MessageId(0, 0, 0)
    for index, trim in enumerate(history.trims):
        shadow = tuple(each for each in log if start <= each[0] < trim.before)
        history.trims[index] = replace(trim, shadow=shadow)
        start = max(start, trim.before)


def _unseen(history: History) -> None:
    """No reader gives the change away."""
    history.readers.clear()
    history.whole_reads.clear()
    history.resolutions.clear()


def _survivors(history: History) -> list[Append]:
    present = {payload for _, payload in history.log}
    return [append for append in history.appends if append.payload in present]


# ---- messages


def lose_an_acknowledged_message(history: History, random: Random) -> bool:
    lost = _one_of(random, [each for each in history.appends if each.outcome is Outcome.ACKED])
    if lost is not None:
        _set_log(history, [each for each in history.log if each[1] != lost.payload])
        _unseen(history)
    return lost is not None


def lose_a_message_that_a_reader_returned(history: History, random: Random) -> bool:
    seen = {each.message_id for observations in history.readers.values() for each in observations}
    lost = _one_of(random, sorted(seen))
    if lost is not None:
        _set_log(history, [each for each in history.log if each[0] != lost])
    return lost is not None


def lose_a_message_before_a_survivor(history: History, random: Random) -> bool:
    """Of the same handle."""
    certain = [each for each in _survivors(history) if each.outcome is not Outcome.CANCELLED]
    last = {each.writer: each.payload for each in certain}
    lost = _one_of(random, [each for each in certain if each.payload != last[each.writer]])
    if lost is not None:
        _set_log(history, [each for each in history.log if each[1] != lost.payload])
        _unseen(history)
    return lost is not None


def swap_two_messages(history: History, random: Random) -> bool:
    log = list(history.log)
    if len(log) > 1:
        first, second = random.sample(range(len(log)), 2)
        log[first], log[second] = (log[first][0], log[second][1]), (log[second][0], log[first][1])
        _set_log(history, log)
        _unseen(history)
    return len(log) > 1


def repeat_a_message(history: History, random: Random) -> bool:
    log = history.log
    repeated = _one_of(random, log)
    if repeated is not None:
        after = log[-1][0]
        history.final.append((after._replace(entry_id=after.entry_id + 1), repeated[1]))
    return repeated is not None


def invent_a_message(history: History, random: Random) -> bool:
    log = list(history.log)
    place = random.randint(0, len(log))
    if place:
        before = log[place - 1][0]
        log.insert(place, (before._replace(batch_index=before.batch_index + 100), b"invented"))
        _set_log(history, log)
        _unseen(history)
    return place > 0


def commit_a_rejected_message(history: History, random: Random) -> bool:
    rejected = _one_of(random, [each for each in history.appends if each.outcome is Outcome.REJECTED])
    if rejected is not None:
        history.final.append((MessageId(1000, 0, 0), rejected.payload))
    return rejected is not None


def commit_an_append_of_a_deposed_handle(history: History, random: Random) -> bool:
    """After everything else, or after what the handle itself has left."""
    deposed = _one_of(random, history.takeovers[:-1])
    if deposed is not None:
        now = max(append.invoked for append in history.appends) if history.appends else 0.0
        late = Append(deposed.writer, 1000, b"late", now + 1000, inf, Outcome.INDETERMINATE)
        history.appends.append(late)
        own = [place for place, payload in history.log if payload.startswith(deposed.writer.encode() + b":")]
        after = random.choice([MessageId(1000, 0, 0), *own[-1:]])
        _set_log(history, sorted([*history.log, (after._replace(batch_index=100), b"late")]))
        _unseen(history)
    return deposed is not None


def move_a_message_across_a_takeover(history: History, random: Random) -> bool:
    """To the end, after messages of a later handle."""
    log = list(history.log)
    last = next((each.writer for each in history.appends if log and each.payload == log[-1][1]), None)
    moved = _one_of(random, [each for each in _survivors(history) if each.writer != last])
    if moved is not None:
        log = [each for each in log if each[1] != moved.payload]
        _set_log(history, [*log, (MessageId(1000, 0, 0), moved.payload)])
        _unseen(history)
    return moved is not None


# ---- appends


def lose_part_of_a_batch(history: History, random: Random) -> bool:
    batched = [each for each in _survivors(history) if each.batch is not None]
    lost = _one_of(random, [each for each in batched if each.number != each.batch])
    if lost is not None:
        _set_log(history, [each for each in history.log if each[1] != lost.payload])
        _unseen(history)
    return lost is not None


def give_two_appends_the_same_id(history: History, random: Random) -> bool:
    known = [each for each in history.appends if each.message_id is not None]
    if len(known) > 1:
        first, second = random.sample(known, 2)
        _change(history, first, message_id=second.message_id)
    return len(known) > 1


def acknowledge_another_id(history: History, random: Random) -> bool:
    acked = _one_of(random, [each for each in history.appends if each.outcome is Outcome.ACKED])
    if acked is not None and acked.message_id is not None:
        later = acked.message_id._replace(entry_id=acked.message_id.entry_id + 1)
        _change(history, acked, message_id=later)
    return acked is not None


def expect_an_indeterminate_message_elsewhere(history: History, random: Random) -> bool:
    known = [each for each in _survivors(history) if each.outcome is Outcome.INDETERMINATE]
    found = _one_of(random, [each for each in known if each.message_id is not None])
    if found is not None:
        _change(history, found, message_id=MessageId(1000, 0, 0))
    return found is not None


def resolve_the_opposite(history: History, random: Random) -> bool:
    opposite = {"committed": "absent", "absent": "committed"}
    answers = [each for each in history.resolutions if each.answer in opposite]
    if answers:
        found: Resolved = random.choice(answers)
        index = history.resolutions.index(found)
        history.resolutions[index] = replace(found, answer=opposite[found.answer])
    return bool(answers)


def acknowledge_before_and_invoke_after(history: History, random: Random) -> bool:
    """A survivor was invoked only after a message behind it had been acknowledged."""
    acked = [each for each in history.appends if each.outcome is Outcome.ACKED]
    behind = _one_of(random, [each for each in acked if each.message_id != history.log[0][0]])
    if behind is not None:
        place_of = {payload: place for place, payload in history.log}
        place = place_of[behind.payload]
        before = [each for each in _survivors(history) if place_of[each.payload] < place]
        _change(history, random.choice(before), invoked=behind.returned + 0.5)
        _unseen(history)
    return behind is not None


def take_over_with_an_epoch_that_was_used(history: History, random: Random) -> bool:
    if len(history.takeovers) > 1:
        first, second = sorted(random.sample(range(len(history.takeovers)), 2))
        history.takeovers[second] = replace(history.takeovers[second], epoch=history.takeovers[first].epoch)
    return len(history.takeovers) > 1


# ---- readers


def _reader(history: History, random: Random, least: int) -> list[Observation] | None:
    return _one_of(random, [found for found in history.readers.values() if len(found) >= least])


def skip_a_message(history: History, random: Random) -> bool:
    found = _reader(history, random, 3)
    if found is not None:
        del found[random.randrange(1, len(found) - 1)]
    return found is not None


def return_messages_in_another_order(history: History, random: Random) -> bool:
    found = _reader(history, random, 2)
    if found is not None:
        index = random.randrange(len(found) - 1)
        found[index : index + 2] = reversed(found[index : index + 2])
    return found is not None


def return_a_message_again(history: History, random: Random) -> bool:
    found = _reader(history, random, 1)
    if found is not None:
        found.append(random.choice(found))
    return found is not None


def return_other_bytes(history: History, random: Random) -> bool:
    found = _reader(history, random, 1)
    if found is not None:
        index = random.randrange(len(found))
        found[index] = replace(found[index], payload=b"other")
    return found is not None


def return_a_message_before_it_is_appended(history: History, random: Random) -> bool:
    found = _reader(history, random, 1)
    if found is not None:
        found[0] = replace(found[0], at=-1.0)
    return found is not None


def read_beyond_the_tail(history: History, random: Random) -> bool:
    found = _reader(history, random, 0)
    if found is not None:
        found.append(Observation(MessageId(1000, 0, 0), b"other", inf))
    return found is not None


def leave_a_message_out_of_a_whole_read(history: History, random: Random) -> bool:
    """Any but the last, since the tail is where the reader finds it."""
    reads = [index for index, read in enumerate(history.whole_reads) if len(read.message_ids) > 1]
    index = _one_of(random, reads)
    if index is not None:
        read = history.whole_reads[index]
        floor = history.trim_asked_until(read.ended)
        left_out = random.choice(sorted(read.message_ids)[:-1])
        if left_out < floor:  # it may have been trimmed before the reader got there
            return False
        history.whole_reads[index] = replace(read, message_ids=read.message_ids - {left_out})
    return index is not None


def end_a_whole_read_before_what_was_acknowledged(history: History, random: Random) -> bool:
    acked = [each for each in history.appends if each.outcome is Outcome.ACKED and each.message_id]
    reads = [
        (index, append.message_id)
        for index, read in enumerate(history.whole_reads)
        for append in acked
        if append.returned < read.opened
        and append.message_id is not None
        and append.message_id >= max(read.start, history.trim_asked_until(read.ended))
    ]
    found = _one_of(random, reads) if history.strict else None
    if found is not None:
        index, place = found
        kept = frozenset(each for each in history.whole_reads[index].message_ids if each < place)
        history.whole_reads[index] = replace(history.whole_reads[index], message_ids=kept)
    return found is not None


# ---- trims


def trim_more_than_was_asked_for(history: History, random: Random) -> bool:
    history.trimmed_before = history.trim_asked_until(inf)._replace(batch_index=random.randint(1, 5) + 100)
    history.final[:] = [each for each in history.final if each[0] >= history.trimmed_before]
    return True


def lose_a_message_before_it_is_trimmed(history: History, random: Random) -> bool:
    acked = {each.payload for each in history.appends if each.outcome is Outcome.ACKED}
    below = [each for each in history.log if each[0] < history.trimmed_before and each[1] in acked]
    lost = _one_of(random, below)
    if lost is not None:
        _set_log(history, [each for each in history.log if each != lost])
        _unseen(history)
    return lost is not None


MUTATIONS: tuple[Mutation, ...] = (
    lose_an_acknowledged_message,
    lose_a_message_that_a_reader_returned,
    lose_a_message_before_a_survivor,
    swap_two_messages,
    repeat_a_message,
    invent_a_message,
    commit_a_rejected_message,
    commit_an_append_of_a_deposed_handle,
    move_a_message_across_a_takeover,
    lose_part_of_a_batch,
    give_two_appends_the_same_id,
    acknowledge_another_id,
    expect_an_indeterminate_message_elsewhere,
    resolve_the_opposite,
    acknowledge_before_and_invoke_after,
    take_over_with_an_epoch_that_was_used,
    skip_a_message,
    return_messages_in_another_order,
    return_a_message_again,
    return_other_bytes,
    return_a_message_before_it_is_appended,
    read_beyond_the_tail,
    leave_a_message_out_of_a_whole_read,
    end_a_whole_read_before_what_was_acknowledged,
    trim_more_than_was_asked_for,
    lose_a_message_before_it_is_trimmed,
)
