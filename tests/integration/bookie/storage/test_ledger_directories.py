"""A bookie with several ledger directories, of which one fills up, fails while it runs, or is lost for good."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ledger.client import LedgerClient
from ledger.inspection.copies import Verdict
from ledger.inspection.copy_audit import CopyAudit
from ledger.model import LedgerId, QuorumSizes
from tests.helpers.ledger.appender import client_of
from tests.helpers.processes.bookie import BookieProcess, eventually, listed_bookies, run_bookie
from tests.helpers.repository import ROOT
from tests.helpers.skips import NEEDS_MOUNT

pytestmark = pytest.mark.integration

STORAGE = {
    "entry_log_bytes_max": 256 * 1024,
    "write_cache_bytes_max": 512 * 1024,
    "single_write_bytes_min": 0,
    "disk_check_interval_s": 0.1,
    "checkpoint_interval_s": 0.1,
}
PAYLOAD = b"p" * 4096
ENTRIES = 400


def directories(bookie: BookieProcess, *names: str) -> list[str]:
    options = (("--ledger-dir", str(bookie.data / name)) for name in ("ledgers", *names))
    return [each for option in options for each in option]


def logs(bookie: BookieProcess, name: str) -> list[str]:
    directory = bookie.data / name / "entry-logs"
    return sorted(path.name for path in directory.glob("*.log")) if directory.exists() else []


async def _written(client: LedgerClient) -> LedgerId:
    handle = await client.create(QuorumSizes(ensemble=3, write=3, ack=2))
    for _ in range(4):
        await asyncio.gather(*(handle.add(PAYLOAD) for _ in range(ENTRIES // 4)))
        await asyncio.sleep(0.15)  # a checkpoint comes in between
    await handle.close()
    return handle.ledger_id


def write(metadata: str) -> LedgerId:
    async def main() -> LedgerId:
        async with client_of(metadata) as client:
            return await _written(client)

    return asyncio.run(main())


def verdicts(metadata: str, ledger_id: LedgerId) -> Counter[Verdict]:
    async def main() -> Counter[Verdict]:
        async with client_of(metadata) as client:
            found = (await client.store.read_ledger(ledger_id)).value
            audit = CopyAudit(client)
            audited = await audit.audit(ledger_id, found, found.last_entry)
            await audit.close()
            return Counter(audited.verdicts)

    return asyncio.run(main())


@pytest.fixture
def bookies(metadata: str, tmp_path: Path) -> Iterator[list[BookieProcess]]:
    """Three, the first of them with two ledger directories on one disk."""
    found = [BookieProcess(metadata, tmp_path / f"bookie-{number}", storage=STORAGE) for number in range(3)]
    found[0].options = directories(found[0], "more")
    for each in found:
        each.start()
    yield found
    for each in found:
        each.stop()
        assert "Traceback" not in each.errors


@pytest.mark.slow
def test_a_directory_that_fails_is_given_up_and_its_copies_are_made_again(
    metadata: str, bookies: list[BookieProcess]
) -> None:
    bookie, more = bookies[0], bookies[0].data / "more"
    before = write(metadata)
    eventually(lambda: logs(bookie, "more") and logs(bookie, "ledgers"))
    more.rename(more.with_name("taken away"))
    after = write(metadata)
    eventually(lambda: listed_bookies(metadata)[0]["state"] == "writable")
    assert verdicts(metadata, after) == {Verdict.COMPLETE: ENTRIES}
    shown = running_info(bookie)
    assert (shown["ledger_dir"], shown["failed_ledger_dir"]) == (str(bookie.data / "ledgers"), str(more))
    bookie.kill()
    [failed] = [each for each in bookie.warnings if "has failed" in each]
    assert failed.startswith(f"ledger directory {more} has failed, and no more is written to it")

    said = refused(bookie)
    assert f"{more} is empty" in said and f"--lost-ledger-dir {more}" in said
    bookie.options = directories(bookie)
    assert f"lists the ledger directory {more}, and it is not given" in refused(bookie)
    bookie.options = [*directories(bookie), "--lost-ledger-dir", str(more)]
    bookie.start()
    bookie.options = directories(bookie)  # it was given up once and for all
    bookie.restart()

    assert verdicts(metadata, after)[Verdict.COMPLETE] == ENTRIES
    assert verdicts(metadata, before)[Verdict.COMPLETE] < ENTRIES, "no entry was in it"
    with autorecovery(metadata):
        eventually(lambda: verdicts(metadata, before) == {Verdict.COMPLETE: ENTRIES})
    bookie.kill()
    assert (
        f".log of {bookie.data / 'ledgers'}, {more} is missing, and the index leads into it" in bookie.errors
    )
    missing = sum(f"{more} is missing, and the index leads into it" in each for each in bookie.warnings)
    [given_up] = [each for each in bookie.warnings if "given up as lost" in each]
    assert given_up.startswith(f"ledger directory {more} is given up as lost: {missing} entry logs")
    assert missing and "its scrubber marks them for repair now" in given_up

    more.with_name("taken away").rename(more.with_name("back"))
    bookie.options = directories(bookie, "back")
    assert "back holds entry logs" in refused(bookie)
    bookie.options = directories(bookie, "new")
    bookie.start()
    assert verdicts(metadata, write(metadata)) == {Verdict.COMPLETE: ENTRIES}
    eventually(lambda: logs(bookie, "new"))


def refused(bookie: BookieProcess) -> str:
    """What a start says that is refused."""
    done = run_bookie(
        "start", "--metadata", bookie.metadata, "--data", str(bookie.data), "--port", "0", *bookie.options
    )
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


@contextmanager
def autorecovery(metadata: str) -> Iterator[None]:
    """`bookie autorecovery` for as long as the context lasts."""
    command = [sys.executable, "-m", "bookie_server", "autorecovery", "--metadata", metadata]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_a_full_directory_gets_no_more_and_the_bookie_stays_writable(metadata: str, tmp_path: Path) -> None:
    bookie = BookieProcess(metadata, tmp_path / "bookie", storage=STORAGE)
    small = bookie.data / "small"
    small.mkdir(parents=True)
    others = [BookieProcess(metadata, tmp_path / f"other-{number}", storage=STORAGE) for number in range(2)]
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip(NEEDS_MOUNT)
    # The directory with the index is the small one's peer in size, so that both get entry logs.
    first = bookie.data / "disk"
    first.mkdir()
    subprocess.run([*mount[:4], "size=40m", "tmpfs", str(first)], check=True)
    bookie.options = ["--ledger-dir", str(first / "ledgers"), "--ledger-dir", str(small)]
    try:
        (first / "ballast").write_bytes(bytes(37 << 20))
        for each in (bookie, *others):
            each.start()
        written = [write(metadata)]
        eventually(lambda: logs(bookie, "small"))
        (first / "ballast").unlink()
        written += [write(metadata) for _ in range(4)]
        assert [each["state"] for each in listed_bookies(metadata)] == ["writable"] * 3
        for each in written:
            assert verdicts(metadata, each) == {Verdict.COMPLETE: ENTRIES}
        assert sum(path.stat().st_size for path in small.rglob("*.log")) < 2 << 20
        bookie.restart()
        for each in written:
            assert verdicts(metadata, each) == {Verdict.COMPLETE: ENTRIES}
        assert bookie.terminate() == 0 and not bookie.warnings
    finally:
        for each in (bookie, *others):
            each.stop()
        for directory in (small, first):
            subprocess.run(["umount", "-l", str(directory)], check=True)


def test_offline_commands_ask_for_every_directory(metadata: str, tmp_path: Path) -> None:
    """One that is not looked at would seem to be lost."""
    bookie = BookieProcess(metadata, tmp_path / "bookie", storage=STORAGE)
    bookie.options = directories(bookie, "more")
    bookie.start()
    assert bookie.terminate() == 0
    for verb in (["info"], ["rebuild-index"], ["read-log"], ["space"], ["compact"], ["scrub"]):
        done = run_bookie(*verb, "--data", str(bookie.data))
        assert done.returncode == 2
        assert re.search(r"lists 2 ledger directories, \S+/ledgers, \S+/more, and 1 of them", done.stderr), (
            verb
        )
        done = run_bookie(*verb, "--data", str(bookie.data), *bookie.options)
        assert done.returncode == 0, done.stderr
    found = run_bookie("info", "--data", str(bookie.data), *bookie.options, "-o", "json")
    assert json.loads(found.stdout)["ledger_dir"] == f"{bookie.data / 'ledgers'}, {bookie.data / 'more'}"
    done = run_bookie("format", "--yes", "--metadata", metadata, "--data", str(bookie.data), *bookie.options)
    assert done.returncode == 0, done.stderr
    assert not list((bookie.data / "more").iterdir())


def running_info(bookie: BookieProcess) -> Any:
    found = run_bookie("info", "--data", str(bookie.data), "-o", "json")
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def test_a_running_bookie_shows_all_of_them_and_counts_a_disk_once(metadata: str, tmp_path: Path) -> None:
    bookie = BookieProcess(metadata, tmp_path / "bookie", storage=STORAGE)
    bookie.options = directories(bookie, "more")
    bookie.start()
    shown = running_info(bookie)
    assert bookie.terminate() == 0
    assert shown["ledger_dir"] == f"{bookie.data / 'ledgers'}, {bookie.data / 'more'}"
    assert shown["failed_ledger_dir"] is None
    numbers = os.statvfs(tmp_path)
    assert shown["total_bytes"] <= numbers.f_blocks * numbers.f_frsize


def test_the_settings_file_has_a_list(metadata: str, tmp_path: Path) -> None:
    settings = tmp_path / "bookie.toml"
    journal, first, second = (tmp_path / name for name in ("journal", "first", "second"))
    settings.write_text(f'journal_dir = "{journal}"\nledger_dir = ["{first}", "{second}"]\n')
    bookie = BookieProcess(metadata, tmp_path / "bookie")
    command = [sys.executable, "-m", "bookie_server", "start", "--metadata", metadata]
    command += ["--port", "0", "--config", str(settings)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and "is ready" in process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 0 and (second / "VERSION").exists() and not bookie.data.exists()
