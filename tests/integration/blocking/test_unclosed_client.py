"""A program that ends without closing its client is warned."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from pathlib import Path

import pytest

import dlog
from dlog.local.embedded import Standalone
from tests.helpers.repository import ROOT

pytestmark = pytest.mark.integration


_BLOCKING = """
import dlog, os, signal, sys
client = dlog.connect(sys.argv[1])
writer = client.open_writer('orders', create=True)
for pid in map(int, sys.argv[2].split(',')):
    os.kill(pid, signal.SIGSTOP)
if sys.argv[3] == 'True':
    for number in range(1000):
        pending = writer.submit(b'%d' % number)
"""
_ASYNCIO = """
import asyncio, dlog, os, signal, sqlite3, sys
async def main():
    client = await dlog.aio.connect(sys.argv[1])
    writer = await client.open_writer('orders', create=True)
    for pid in map(int, sys.argv[2].split(',')):
        os.kill(pid, signal.SIGSTOP)
    if sys.argv[3] == 'True':
        for number in range(1000):
            await writer.submit(b'%d' % number)
asyncio.run(main())
"""
_ENDED = f"""{_BLOCKING}
writer.abort()
while sys.argv[3] == 'True' and not pending.done():
    pass
"""
_CANCELLED = _ASYNCIO.replace(
    "asyncio.run(main())",
    """
    other = sqlite3.connect(sys.argv[1].removeprefix('sqlite://'), isolation_level=None)
    other.execute('BEGIN IMMEDIATE')
    asyncio.create_task(writer.rotate())
    await asyncio.sleep(0.1)
asyncio.run(main())
""",
)
"""Its writer waits for a change of the metadata, in a task that asyncio.run cancels, and ends for that."""


@pytest.mark.parametrize(
    "program",
    [_BLOCKING, _ENDED, _ASYNCIO, _CANCELLED],
    ids=["blocking", "ended", "asyncio", "cancelled"],
)
@pytest.mark.parametrize("undecided", [True, False])
def test_a_program_that_ends_without_closing_is_warned(tmp_path: Path, undecided: bool, program: str) -> None:
    """ResourceWarning, and a sentence on stderr if appends were under way: those may be lost."""
    with dlog.standalone(tmp_path, restart=False) as cluster:
        pids = ",".join(str(bookie.process_id) for bookie in cluster.bookies)
        done = subprocess.run(
            [sys.executable, "-W", "always", "-c", program, cluster.uri, pids, str(undecided)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=ROOT,
        )
        for index in range(3):
            cluster.kill(index)
    assert done.returncode == 0
    assert f"ResourceWarning: unclosed client of {cluster.uri}" in done.stderr
    lost = "the client of log default/orders was not closed: appends that are under way may be lost"
    assert (lost in done.stderr) is undecided


def test_a_client_that_is_dropped_is_warned_once(cluster: Standalone) -> None:
    client = dlog.connect(cluster.uri)
    with pytest.warns(ResourceWarning) as warned:
        del client
        gc.collect()
    assert [str(each.message) for each in warned] == [f"unclosed client of {cluster.uri}"]


def test_only_the_process_that_has_connected_is_warned_and_only_of_what_it_has_not_closed(
    cluster: Standalone,
) -> None:
    """A forked process inherits the clients of its parent, which is to close them."""
    program = """
import asyncio, dlog, os, sys
async def main():
    async with dlog.aio.connect(sys.argv[1]) as client:
        writer = await client.open_writer('closed', create=True)
        await writer.submit(b'payload')
    client = await dlog.aio.connect(sys.argv[1])
    writer = await client.open_writer('unclosed', create=True)
    await writer.submit(b'payload')
    return client
client = asyncio.run(main())
if os.fork():
    os.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, cluster.uri],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd=ROOT,
    )
    assert re.findall("the client of log (.*) was not closed", done.stderr) == ["default/unclosed"]


_GENERATOR = """
import dlog, sys
client = dlog.connect(sys.argv[1])
with client.open_writer('ended', create=True) as writer:
    writer.append_many([b'one', b'two'])
    cache = client.metadata_cache()
def messages():
    with cache, client.reader('ended') as reader:
        yield from reader
found = messages()
next(found)
"""
_WRITING_GENERATOR = """
import dlog, sys
def write():
    with dlog.connect(sys.argv[1]) as client, client.open_writer('ended', create=True) as writer:
        while True:
            writer.append((yield))
writing = write()
next(writing)
writing.send(b'payload')
"""
_CLOSED_BY_DEL = """
import dlog, sys
class Service:
    def __init__(self):
        self.client = dlog.connect(sys.argv[1])
    def __del__(self):
        self.client.close()
service = Service()
"""
_CALLED_BY_DEL = """
import dlog, sys
class Service:
    def __init__(self):
        self.client = dlog.connect(sys.argv[1])
    def __del__(self):
        try:
            self.client.create('too-late')
        except dlog.errors.ConfigurationError as error:
            print(error)
service = Service()
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (_GENERATOR, ""),
        (_WRITING_GENERATOR, ""),
        (_CLOSED_BY_DEL, ""),
        (_CALLED_BY_DEL, "the program is ending, and the thread of this client has ended already"),
    ],
    ids=["generator", "writing generator", "closed by __del__", "called by __del__"],
)
def test_what_python_calls_after_the_thread_has_ended_does_not_wait_for_it(
    cluster: Standalone, program: str, printed: str
) -> None:
    """Threads that are no daemons and functions of `atexit` come before that, globals after it."""
    done = subprocess.run(
        [sys.executable, "-c", program, cluster.uri],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.startswith(printed)
    assert done.stderr == ""


_LATE = """
import atexit, concurrent.futures, sys, threading
def late():
    [thread] = [each for each in threading.enumerate() if each.name == 'dlog client']
    print(sys._current_frames()[thread.ident].f_code.co_name)
    print(eval(sys.argv[2]))
atexit.register(late)  # before dlog's own, so it is called after it
import dlog
client = dlog.connect(sys.argv[1])
writer = client.open_writer('orders', create=True)
pending = writer.submit(b'payload')
"""


@pytest.mark.parametrize(
    ("call", "printed"),
    [
        ("None", "None"),
        ("pending.result()", "1:0:0"),
        ("len(concurrent.futures.wait([pending]).done)", "1"),
        ("writer.append(b'late')", "1:1:0"),
        ("client.close()", "None"),
    ],
    ids=["nothing", "result", "wait", "append", "close"],
)
def test_the_thread_has_left_its_loop_when_python_ends_and_late_calls_work(
    tmp_path: Path, call: str, printed: str
) -> None:
    """A thread that is in uvloop then crashed the process, about once in 120 times."""
    with dlog.standalone(tmp_path, restart=False) as cluster:
        done = subprocess.run(
            [sys.executable, "-c", _LATE, cluster.uri, call],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            cwd=ROOT,
        )
    assert done.stdout.split() == ["_serve", printed]
