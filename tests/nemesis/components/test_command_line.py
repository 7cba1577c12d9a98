"""The installed commands under signals, kills and faults at any time: an exit code and a sentence, no traceback."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

import dlog
from dlog.local.embedded import Standalone
from tests.helpers.processes.command import Command

pytestmark = [pytest.mark.integration, pytest.mark.slow]

COMMANDS: list[list[str]] = [
    ["ls"],
    ["info", "filled"],
    ["ledgers", "filled"],
    ["read", "filled"],
    ["read", "filled", "-o", "json"],
    ["tail", "filled"],
    ["append", "filled"],
    ["gc"],
    ["rotate", "filled"],
    ["--help"],
]
CODES = {signal.SIGINT: {0, 130}, signal.SIGTERM: {0, 143, -signal.SIGTERM}}
"""While it loads, SIGTERM ends a process as it ends any other."""

PROGRAM = """
from dlog.cli import entry

def loading(*arguments, require=entry.require_for_command):
    print(".", flush=True)
    require(*arguments)

entry.require_for_command = loading
entry.main()
"""


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with Standalone(tmp_path_factory.mktemp("cluster"), restart=False) as cluster:
        with dlog.connect(cluster.uri) as client, client.open_writer("filled", create=True) as writer:
            for number in range(500):
                writer.submit(b"%d" % number)
        yield cluster.uri


def start(command: list[str], uri: str) -> subprocess.Popen[bytes]:
    """As it is installed; its first line is printed before it loads anything else."""
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *command],
        env=Command(uri).environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("seed", range(4))
def test_a_signal_at_any_time_is_no_traceback(uri: str, seed: int) -> None:
    random = Random(seed)
    for _ in range(6):
        command = random.choice(COMMANDS)
        number = random.choice([signal.SIGINT, signal.SIGINT, signal.SIGTERM])
        with start(command, uri) as process:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == b".\n"
            if command[0] == "append":
                process.stdin.write(b"message\n" * 50)
                process.stdin.flush()
            time.sleep(random.choice([0.0, random.uniform(0.0, 0.1), random.uniform(0.0, 0.6)]))
            process.send_signal(number)
            _, err = process.communicate(timeout=30)
        assert process.returncode in CODES[number], (command, number, process.returncode, err.decode())
        assert b"Traceback" not in err and b"KeyboardInterrupt" not in err, (command, err.decode())
        if process.returncode > 0:
            last = err.decode().splitlines()[-1]
            assert last in ("dlog: interrupted", "dlog: terminated"), err.decode()


INTERRUPTED_IMPORT = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
from {module} import main
del sys.argv[2:]
main()
"""


@pytest.mark.parametrize(
    ("program", "module", "imported"),
    [
        ("dlog", "dlog.cli.entry", "typer"),
        ("dlog", "dlog.cli.entry", "dlog.cli.append"),
        ("bookie", "bookie_server.__main__", "typer"),
        ("bookie", "bookie_server.__main__", "bookie_server.tools.cli"),
    ],
)
def test_ctrl_c_while_it_loads_is_one_sentence(program: str, module: str, imported: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT.format(module=module), imported],
        env=Command().environment(),
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.decode()) == (130, b"", f"{program}: interrupted\n")


def test_an_append_that_is_killed_and_repeated_loses_nothing_it_reported(uri: str) -> None:
    """kill -9 at any time leaves a prefix of the input; the next append goes on after it."""
    random, dlog_command = Random(5), Command(uri)
    dlog_command("create", "killed").must_succeed()
    expected: list[list[str]] = []
    for turn in range(4):
        lines = [f"{turn}:{number}" for number in range(200)]
        with dlog_command.start("append", "killed") as process:
            assert process.stdin is not None
            process.stdin.write("".join(f"{line}\n" for line in lines).encode())
            process.stdin.flush()
            time.sleep(random.uniform(0.3, 0.9))
            process.kill()
        expected.append(lines)
    dlog_command("append", "killed", stdin=b"last\n").must_succeed()
    found = dlog_command("read", "killed", "-o", "raw").must_succeed().splitlines()
    assert found[-1] == "last"
    for turn, lines in enumerate(expected):
        kept = [line for line in found if line.startswith(f"{turn}:")]
        assert kept == lines[: len(kept)]


@pytest.mark.parametrize(
    "command", [["tail", "orders", "-f"], ["append", "orders", "--timeout", "5"]], ids=lambda it: it[0]
)
@pytest.mark.parametrize("fault", ["removed", pytest.param("replaced", marks=pytest.mark.nightly)])
def test_metadata_that_disappears_in_the_middle_is_a_sentence_or_waited_for(
    command: list[str], fault: str, tmp_path: Path
) -> None:
    """What does not need it goes on; the next that needs it names the file. No traceback in any case."""
    with Standalone(tmp_path / "data", restart=False) as cluster:
        path = Path(cluster.uri.removeprefix("sqlite:///"))
        ours = Command(cluster.uri)
        ours("create", "orders").must_succeed()
        with start(command, cluster.uri) as process:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == b".\n"
            process.stdin.write(b"one\n")
            process.stdin.flush()
            time.sleep(1.0)
            hidden = path.with_suffix(".hidden")
            if fault == "removed":
                path.rename(hidden)
            else:
                shutil.copy(path, hidden)
                hidden.replace(path)  # another file at the same place
            with suppress(BrokenPipeError):  # a busy machine: it had not connected before
                process.stdin.write(b"two\n")
                process.stdin.flush()
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        late = ours("info", "orders", timeout_s=60)
    assert b"Traceback" not in err, err.decode()
    assert process.returncode in (0, 1, 130), err.decode()
    if fault == "removed":
        late.must_fail(1, str(path))
