"""The blocking API against real bookies: the same outcomes, order kept, interrupts clean."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable

import pytest

import dlog
from dlog.errors import AppendAbortedError, AppendIndeterminateError, MessageTooLargeError, WriterDeposedError
from dlog.local.embedded import Standalone
from dlog.model import MessageId
from dlog.read.backlog import Lag
from ledger.errors import ConfigurationError
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.integration


def test_order_is_kept_across_all_ways_to_append(cluster: Standalone, log: str) -> None:
    """submit, append and append_many of one thread: ids rise in the order of the calls."""
    with dlog.connect(cluster.uri) as client:
        with client.open_writer(log, create=True) as writer:
            pending = []
            ids: list[MessageId] = []
            for number in range(300):
                pending.append(writer.submit(b"s%d" % number))
                if number % 100 == 50:
                    many = writer.append_many([b"m%d" % number, b"n%d" % number])
                    ids += [one.result() for one in pending] + list(many)
                    pending.clear()
            ids += [one.result() for one in pending]
            last = writer.append(b"end")
        assert ids == sorted(ids) and last > ids[-1]
        assert [message.id for message in client.reader(log, until="latest")] == [*ids, last]


ENTRIES, EACH = 6, 4


def fill(client: dlog.Client, log: str) -> list[int]:
    with client.open_writer(log, create=True) as writer:
        for first in range(0, ENTRIES * EACH, EACH):
            writer.append_many([b"%d" % number for number in range(first, first + EACH)])
    return list(range(ENTRIES * EACH))


def numbers(payloads: Iterable[bytes | None]) -> list[int]:
    return [int(payload) for payload in payloads if payload is not None]


@pytest.mark.parametrize(
    "take",
    [
        lambda reader: [next(reader).payload],
        lambda reader: [reader.poll(5).payload],
        lambda reader: [next(iter(reader)).payload],
    ],
    ids=["next", "poll", "for"],
)
def test_a_message_that_is_taken_in_a_loop_over_batches_is_followed_by_the_rest_of_its_entry(
    cluster: Standalone, log: str, take: Callable[[dlog.Reader], list[bytes]]
) -> None:
    with dlog.connect(cluster.uri) as client:
        expected, found = fill(client, log), list[int]()
        with client.reader(log, until="latest", cursor="c") as reader:
            for batch in reader.batches():
                found += numbers(batch.payloads)
                if found != expected:
                    found += numbers(take(reader))
            reader.ack()
        assert found == expected


@pytest.mark.parametrize(
    "take",
    [
        lambda reader: next(reader.batches()).payloads,
        lambda reader: next(reader.arrow_batches(["value"], batch_rows=7))["value"].to_pylist(),
        lambda reader: reader.to_arrow()["value"].to_pylist(),
    ],
    ids=["batch", "arrow batch", "table"],
)
def test_what_another_call_took_in_a_loop_over_messages_does_not_come_again(
    cluster: Standalone, log: str, take: Callable[[dlog.Reader], list[bytes]]
) -> None:
    with dlog.connect(cluster.uri) as client:
        expected, found = fill(client, log), list[int]()
        with client.reader(log, until="latest") as reader:
            for message in reader:
                found += numbers([message.payload])
                if len(found) == 1:
                    found += numbers(take(reader))
        assert found == expected


def test_nothing_comes_after_a_reader_was_closed_in_its_loop(cluster: Standalone, log: str) -> None:
    with dlog.connect(cluster.uri) as client:
        fill(client, log)
        found, reader = list[bytes | None](), client.reader(log, until="latest")
        with pytest.raises(ConfigurationError, match="closed"):
            for message in reader:
                found.append(message.payload)
                reader.close()
        assert found == [b"0"]
        assert reader.position.batch_index == 1


def test_a_client_is_not_closed_by_its_own_callback(cluster: Standalone, log: str) -> None:
    """It would wait for itself, and every other call with it."""
    client = dlog.connect(cluster.uri)
    writer = client.open_writer(log, create=True)
    refused: queue.Queue[BaseException | None] = queue.Queue()

    def close(_: object) -> None:
        try:
            client.close()
        except ConfigurationError as error:
            refused.put(error)
        else:
            refused.put(None)

    writer.submit(b"a").add_done_callback(close)
    assert "from its own loop" in str(refused.get(timeout=20))
    writer.append(b"b", timeout_s=20)
    client.close(20)


def test_a_reader_goes_on_where_its_loop_was_left(cluster: Standalone, log: str) -> None:
    """break, look at the position, iterate again; next() works, too."""
    with dlog.connect(cluster.uri) as client:
        with client.open_writer(log, create=True) as writer:
            ids = list(writer.append_many([b"%d" % number for number in range(10)]))
        with client.reader(log, until="latest") as reader:
            for message in reader:
                if message.payload == b"3":
                    break
            assert reader.position == MessageId(ids[3].ledger_id, ids[3].entry_id, 4)
            assert next(reader).payload == b"4"
            assert [message.payload for message in reader] == [b"5", b"6", b"7", b"8", b"9"]
            assert reader.position > ids[-1]
        with client.reader(log, until="latest") as reader:
            assert [len(batch) for batch in reader.batches()] == [10]
        with client.tail(log, last=2, follow=False) as reader:
            assert [message.payload for message in reader] == [b"8", b"9"]
        with client.tail(log, last=0, follow=False) as reader:
            assert list(reader) == []


def test_at_tail_is_true_whenever_all_is_returned(cluster: Standalone, log: str) -> None:
    """Not within an entry, but after its last message; and `lag` is that of what was returned."""
    with (
        dlog.connect(cluster.uri) as client,
        client.open_writer(log, create=True) as writer,
        client.tail(log, start="earliest") as reader,
    ):
        for entry_id in range(3):
            ids = writer.append_many([b"0", b"1", b"2"])
            for number in range(3):
                assert next(reader).id == ids[number]
                if number < 2:
                    assert not reader.at_tail and reader.lag.entries == 1
            give_up_at = time.monotonic() + 10
            while not reader.at_tail and time.monotonic() < give_up_at:
                time.sleep(0.01)
            assert reader.at_tail and reader.lag == Lag(0, 0, 0, 0)
            assert reader.position == MessageId(ids.ledger_id, entry_id + 1, 0)


def test_batches_begin_with_the_rest_of_one_that_was_begun(cluster: Standalone, log: str) -> None:
    """Messages first, then batches, then messages again: each comes once."""
    with dlog.connect(cluster.uri) as client:
        with client.open_writer(log, create=True) as writer:
            for first in (0, 5):
                writer.append_many([b"%d" % number for number in range(first, first + 5)])
        with client.reader(log, until="latest") as reader:
            assert [next(reader).payload, next(reader).payload] == [b"0", b"1"]
            for batch in reader.batches():
                assert list(batch.payloads) == [b"2", b"3", b"4"]
                assert batch.first_id.batch_index == 2
                break
            assert [message.payload for message in reader] == [b"5", b"6", b"7", b"8", b"9"]


def test_a_tail_in_one_thread_sees_what_another_appends(cluster: Standalone, log: str) -> None:
    """One client serves several threads."""
    with dlog.connect(cluster.uri) as client, client.open_writer(log, create=True) as writer:
        seen: list[bytes | None] = []

        def follow() -> None:
            for message in client.tail(log, start="earliest"):
                seen.append(message.payload)
                if message.payload == b"end":
                    return

        thread = threading.Thread(target=follow)
        thread.start()
        for number in range(20):
            writer.append(b"%d" % number)
        writer.append(b"end")
        thread.join(timeout=30)
        assert seen == [b"%d" % number for number in range(20)] + [b"end"]


def test_errors_come_out_of_the_call_that_caused_them(cluster: Standalone, log: str) -> None:
    """Too large, deposed, closed."""
    with dlog.connect(cluster.uri) as client, dlog.connect(cluster.uri) as other:
        writer = client.open_writer(log, create=True)
        with pytest.raises(MessageTooLargeError, match="entry_bytes_max"):
            writer.append(b"x" * 2_000_000)
        with pytest.raises(ConfigurationError, match="encode it to bytes"):
            writer.append("text")  # type: ignore[arg-type]
        writer.append(b"fine")
        with other.open_writer(log, create=True) as successor:
            successor.append(b"mine now")
            # Sent before the takeover was noticed, it may be stored for all the writer knows; then it is told so.
            with pytest.raises((WriterDeposedError, AppendIndeterminateError), match="was taken over by"):
                writer.append(b"too late")
            with pytest.raises(WriterDeposedError):
                writer.append(b"later still")
        writer.close()
        with pytest.raises(WriterDeposedError):
            writer.append(b"closed")
        again = client.open_writer(log, create=True)
        again.close()
        with pytest.raises(AppendAbortedError, match="closed"):
            again.append(b"closed")
    with pytest.raises(ConfigurationError, match="connect again"):
        client.list()


def test_ctrl_c_ends_a_waiting_tail(cluster: Standalone, log: str) -> None:
    """KeyboardInterrupt, then a clean exit: nothing hangs and nothing is left running."""
    program = (
        "import dlog, sys\n"
        "with dlog.connect(sys.argv[1]) as client:\n"
        "    client.open_writer(sys.argv[2], create=True).append(b'a')\n"
        "    try:\n"
        "        for message in client.tail(sys.argv[2], start='earliest'):\n"
        "            print(message.payload, flush=True)\n"
        "    except KeyboardInterrupt:\n"
        "        print('interrupted', flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, cluster.uri, log], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "b'a'\n"
    os.kill(child.pid, signal.SIGINT)
    said, _ = child.communicate(timeout=60)
    assert (said, child.returncode) == ("interrupted\n", 0)


def test_threads_share_a_writer(cluster: Standalone, log: str) -> None:
    """Each thread's appends keep their order; nothing is lost."""
    with dlog.connect(cluster.uri) as client:
        with client.open_writer(log, create=True) as writer:
            found: dict[int, list[MessageId]] = {}

            def append(number: int) -> None:
                pending = [writer.submit(b"%d:%d" % (number, index)) for index in range(3000)]
                found[number] = [one.result() for one in pending]

            threads = [threading.Thread(target=append, args=(number,)) for number in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert all(ids == sorted(ids) for ids in found.values())
        by_id = {message.id: message.payload for message in client.reader(log, until="latest")}
        assert by_id == {
            message_id: b"%d:%d" % (number, index)
            for number, ids in found.items()
            for index, message_id in enumerate(ids)
        }


def test_closing_the_client_settles_every_append(cluster: Standalone, log: str) -> None:
    """What was submitted is there, although the loop had not heard of all of it yet; nothing is left undecided."""
    client = dlog.connect(cluster.uri)
    writer = client.open_writer(log, create=True)
    pending = [writer.submit(b"%d" % number) for number in range(2000)]
    client.close()
    client.close()
    outcomes = [one.result(timeout=0) for one in pending]
    with dlog.connect(cluster.uri) as again, again.reader(log, until="latest") as reader:
        assert [message.id for message in reader] == outcomes
    with pytest.raises(ConfigurationError, match="closed"):
        writer.submit(b"late")


def test_a_reader_of_gaps_names_the_way_to_iterate(cluster: Standalone, log: str) -> None:
    """Messages with items(), batches with batch_items()."""
    with dlog.connect(cluster.uri) as client:
        with client.open_writer(log, create=True) as writer:
            ids = writer.append_many([b"one", b"two"])
        client.shrink(log, ids[1])
        with client.reader(log, start=ids[0], until="latest", on_trimmed="gap") as reader:
            with pytest.raises(ConfigurationError, match=r"iterate over batch_items\(\)"):
                reader.batches()
            for call in (lambda: iter(reader), lambda: reader.poll(0)):
                with pytest.raises(ConfigurationError, match=r"iterate over items\(\)"):
                    call()
            gap, batch = reader.batch_items()
            assert isinstance(gap, dlog.Gap) and (gap.first, gap.resume_at) == (ids[0], ids[1])
            assert isinstance(batch, dlog.MessageBatch)
            assert [message.payload for message in batch] == [b"two"]
