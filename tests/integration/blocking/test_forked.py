"""A fork takes clients along but not their threads: every call in the child says so, and the parent goes on."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

import pytest

import dlog
from dlog.blocking.client import Client, Reader
from dlog.blocking.loop_thread import LoopThread
from dlog.blocking.pending import Board, Pending
from dlog.blocking.writer import Writer
from dlog.errors import ForkedError
from dlog.local.embedded import Standalone
from dlog.model import MessageId

pytestmark = pytest.mark.integration

CHILD_S = 20


def in_child(work: Callable[[], Any]) -> str:
    """What the work returns or raises in a forked process, as text; "hangs" if it does not end."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = str(work())
        except BaseException as error:  # noqa: BLE001 - told to the parent
            answer = f"{type(error).__name__}: {error}"
            traceback.print_exc()
        os.write(write_end, answer.encode())
        os._exit(0)
    os.close(write_end)
    give_up_at = time.monotonic() + CHILD_S
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > give_up_at:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(read_end)
            return "hangs"
        time.sleep(0.01)
    with os.fdopen(read_end, "rb") as stream:
        return stream.read().decode()


CLIENT_CALLS: dict[str, Callable[[Client, str], Any]] = {
    "open_writer": lambda client, log: client.open_writer(log, create=True),
    "read": lambda client, log: list(client.reader(log, until="latest")),
    "tail": lambda client, log: next(client.tail(log, start="earliest")),
    "create": lambda client, log: client.create("another"),
    "list": lambda client, log: client.list(),
    "describe": lambda client, log: client.describe(log),
    "rotate": lambda client, log: client.rotate(log),
    "shrink": lambda client, log: client.shrink(log, MessageId(0, 0, 0)),
    "seal": lambda client, log: client.seal(log),
    "delete": lambda client, log: client.delete(log),
}
WRITER_CALLS: dict[str, Callable[[Writer], Any]] = {
    "append": lambda writer: writer.append(b"child"),
    "append_many": lambda writer: writer.append_many([b"child"]),
    "submit": lambda writer: writer.submit(b"child"),
    "submit_many": lambda writer: writer.submit_many([b"child"]),
    "flush": lambda writer: writer.flush(),
    "rotate": lambda writer: writer.rotate(),
}
READER_CALLS: dict[str, Callable[[Reader], Any]] = {
    "open": lambda reader: reader.open(),
    "messages": lambda reader: list(reader),
    "batches": lambda reader: list(reader.batches()),
    "items": lambda reader: list(reader.items()),
    "at_tail": lambda reader: reader.at_tail,
    "lag": lambda reader: reader.lag,
    "waits_for": lambda reader: reader.waits_for,
}
CLUSTER_CALLS: dict[str, Callable[[Standalone], Any]] = {
    "kill": lambda cluster: cluster.kill(0),
    "restart": lambda cluster: cluster.restart(0),
    "wait": lambda cluster: cluster.wait(),
}


def test_every_call_in_a_child_reports_that_it_must_connect_again(cluster: Standalone, log: str) -> None:
    """Client, writer, pending append, reader and cluster; the parent's own go on."""
    with dlog.connect(cluster.uri) as client, client.open_writer(log, create=True) as writer:
        ids = [writer.append(b"%d" % number) for number in range(10)]
        with client.reader(log, start="earliest") as reader:
            assert next(reader).id == ids[0]
            pending = writer.submit(b"10")
            calls: dict[str, Callable[[], Any]] = {
                **{
                    f"client.{name}": lambda call=call: call(client, log)
                    for name, call in CLIENT_CALLS.items()
                },
                **{f"writer.{name}": lambda call=call: call(writer) for name, call in WRITER_CALLS.items()},
                **{f"reader.{name}": lambda call=call: call(reader) for name, call in READER_CALLS.items()},
                **{
                    f"cluster.{name}": lambda call=call: call(cluster) for name, call in CLUSTER_CALLS.items()
                },
            }

            def told() -> dict[str, str]:
                answers = {}
                for name, call in calls.items():
                    try:
                        answers[name] = f"returned {call()!r}"
                    except ForkedError as error:
                        assert error.made_in == os.getppid()
                        assert "connect again" in str(error)
                return answers

            assert in_child(told) == "{}"
            ids.append(pending.result(10))
            ids.append(writer.append(b"11"))
            assert [next(reader).id for _ in range(11)] == ids[1:]
    with dlog.connect(cluster.uri) as client, client.reader(log, until="latest") as reader:
        assert [message.id for message in reader] == ids


@pytest.mark.parametrize("ending", ["with", "close", "collected"])
def test_however_a_child_ends_the_parent_goes_on(cluster: Standalone, log: str, ending: str) -> None:
    """Leaving `with` blocks, closing, dropping, and the interpreter's own end: at once, and nothing of it reaches the
    parent's connections, writer or bookies."""
    held: list[Any] = [dlog.connect(cluster.uri)]
    held.append(held[0].open_writer(log, create=True))
    held.append(held[0].reader(log, start="earliest"))
    held[2].open()
    held[1].append(b"before")

    def end() -> str:
        if ending == "close":
            for one in reversed(held):
                one.close()
            cluster.stop()
        elif ending == "with":
            with ExitStack() as stack:
                for one in held:
                    stack.push(one)  # as at the end of `with` blocks that the parent entered
        elif ending == "collected":
            import gc

            held.clear()
            gc.collect()
        return "ended"

    assert in_child(end) == "ended"
    client, writer, reader = held
    for number in range(50):
        writer.append(b"%d" % number)
    assert [next(reader).payload for _ in range(51)] == [b"before", *(b"%d" % number for number in range(50))]
    assert all(bookie.process_id for bookie in cluster.bookies)
    reader.close()
    writer.close()
    client.close()


def test_a_child_that_is_forked_while_a_thread_closes_the_client_waits_for_nothing() -> None:
    """The loop that the closing waits for, and that would end the other waits, is the parent's."""
    thread = LoopThread("test")
    pending: Pending[None] = Pending(Board(thread))
    inside, go_on = threading.Event(), threading.Event()
    thread.post(lambda: (inside.set(), go_on.wait(CHILD_S)))
    assert inside.wait(CHILD_S)
    closing = threading.Thread(target=thread.close)
    closing.start()
    while not thread.closed:
        time.sleep(0.001)
    try:
        assert in_child(lambda: thread.close() or "closed") == "closed"
        assert in_child(pending.result).startswith("ForkedError")
        assert in_child(lambda: thread.call(lambda: None)).startswith("ForkedError")
    finally:
        go_on.set()
        closing.join()
    assert in_child(lambda: thread.close() or "closed") == "closed"
    assert "connect again" in in_child(pending.result)


def test_the_interpreter_of_a_child_may_end(cluster: Standalone, log: str) -> None:
    """Inside all three `with` blocks, by sys.exit: the exit status is the child's own, and the parent goes on."""
    program = (
        "import dlog, os, sys\n"
        "with dlog.connect(sys.argv[1]) as client, client.open_writer(sys.argv[2], create=True) as writer:\n"
        "    writer.append(b'one')\n"
        "    with client.reader(sys.argv[2], start='earliest') as reader:\n"
        "        child = os.fork()\n"
        "        if not child:\n"
        "            sys.exit(7)\n"
        "        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "        writer.append(b'two')\n"
        "        print(next(reader).payload, next(reader).payload)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, cluster.uri, log],
        capture_output=True,
        text=True,
        timeout=CHILD_S,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("7\nb'one' b'two'\n", "", 0)


def _use(client: Client, log: str, told: Connection) -> None:
    try:
        client.list()
    except ForkedError:
        told.send("refused")
    with dlog.connect(client.uri) as own, own.reader(log, until="latest") as reader:
        told.send([message.payload for message in reader])


def test_a_process_of_multiprocessing_connects_again(cluster: Standalone, log: str) -> None:
    """The start method "fork": the inherited client refuses, a new one in the child works."""
    context = multiprocessing.get_context("fork")
    with dlog.connect(cluster.uri) as client, client.open_writer(log, create=True) as writer:
        writer.append(b"one")
        here, there = context.Pipe()
        process = context.Process(target=_use, args=(client, log, there))
        process.start()
        assert here.poll(CHILD_S) and here.recv() == "refused"
        assert here.poll(CHILD_S) and here.recv() == [b"one"]
        process.join(CHILD_S)
        assert process.exitcode == 0
        writer.append(b"two")
