"""`bookie format` deletes only what a bookie made, and only after the bookie's own cluster was asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bookie_server.cookie import COOKIE_FILE
from bookie_server.disk.directory_lock import lock_directories
from bookie_server.disk.system_disk import SystemDisk
from bookie_server.storage.config import StorageConfig
from bookie_server.tools.cli import app
from ledger.errors import RecordNotFoundError
from ledger.metadata.drivers import open_store
from ledger.model import BookieId
from tests.helpers.bookie.cookies import write_cookies
from tests.helpers.bookie.storage import KEY, add, open_storage

pytestmark = pytest.mark.integration

BOOKIE = BookieId("127.0.0.1:3181")


def new_cluster(path: Path) -> tuple[str, str]:
    """Address and instance id of a cluster that has a bookie of this id."""
    uri = f"sqlite:///{path}"

    async def init() -> str:
        store = await open_store(uri)
        await store.init_cluster()
        await store.write_cookie(BOOKIE, b"cookie", None)
        instance_id = await store.instance_id()
        await store.close()
        return instance_id

    return uri, asyncio.run(init())


def knows_bookie(uri: str) -> bool:
    async def read() -> bool:
        store = await open_store(uri)
        try:
            await store.read_cookie(BOOKIE)
        except RecordNotFoundError:
            return False
        finally:
            await store.close()
        return True

    return asyncio.run(read())


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    uri, instance_id = new_cluster(tmp_path / "meta.db")

    async def write() -> None:
        storage = await open_storage(tmp_path / "bookie")
        await add(storage, storage.create_ledger(1, KEY), range(10))
        await storage.close()

    asyncio.run(write())
    write_cookies(tmp_path / "bookie", BOOKIE, instance_id)
    return uri


def format_it(metadata: str, data: Path, *options: str) -> Result:
    command = ["format", "--metadata", metadata, "--data", str(data), "--yes", *options]
    return CliRunner().invoke(app, command)


def names_in(home: Path) -> set[str]:
    """Files, and directories that hold nothing; without the locks."""
    found = [path for path in home.rglob("*") if path.is_file() or not any(path.iterdir())]
    return {str(path.relative_to(home)) for path in found if path.name != "lock"}


def test_a_format_that_is_declined_says_that_nothing_was_changed(cluster: str, tmp_path: Path) -> None:
    data = tmp_path / "bookie"
    before = names_in(data)
    command = ["format", "--metadata", cluster, "--data", str(data)]
    for answer in (b"n\n", b"\n", b"", b"yes please\n", b"\xff\n"):
        declined = CliRunner().invoke(app, command, input=answer)
        assert (declined.exit_code, declined.stdout) == (1, ""), declined.output
        line_end = "" if answer else "\n"
        assert declined.stderr.endswith(f"? [y/N]: {line_end}bookie: nothing was changed\n")
    assert names_in(data) == before


def test_directories_in_use_are_refused_before_the_question(cluster: str, tmp_path: Path) -> None:
    data = tmp_path / "bookie"
    config = StorageConfig(journal_directory=data / "journal", ledger_directory=data / "ledgers")
    locks = lock_directories(SystemDisk(), config)
    try:
        refused = CliRunner().invoke(app, ["format", "--metadata", cluster, "--data", str(data)], input="y\n")
    finally:
        for each in locks:
            each.release()
    assert refused.exit_code == 1
    assert refused.stdout == "" and "is used by another process" in refused.stderr


def test_another_clusters_store_cannot_clear_a_bookie(cluster: str, tmp_path: Path) -> None:
    """Of this bookie it knows no ledger; its own bookie of that id keeps the cookie there."""
    data = tmp_path / "bookie"
    before = names_in(data)
    other, instance_id = new_cluster(tmp_path / "other.db")
    refused = format_it(other, data)
    assert refused.exit_code == 2, refused.output
    assert f"cluster {instance_id} is in {other}" in refused.stderr
    assert names_in(data) == before
    forced = format_it(other, data, "--force")
    assert forced.exit_code == 0, forced.output
    assert names_in(data) == {"journal", "ledgers"}
    assert knows_bookie(other) and knows_bookie(cluster)


def test_a_store_without_a_cluster_cannot_clear_a_bookie(cluster: str, tmp_path: Path) -> None:
    data = tmp_path / "bookie"
    before = names_in(data)
    other, instance_id = new_cluster(tmp_path / "other.db")

    async def nuke() -> None:
        store = await open_store(other)
        await store.nuke_cluster(instance_id)
        await store.close()

    asyncio.run(nuke())
    refused = format_it(other, data)
    assert refused.exit_code == 2, refused.output
    assert "no cluster is in sqlite" in refused.stderr
    assert names_in(data) == before


@pytest.mark.parametrize("without", [("journal",), ("ledgers",), ("journal", "ledgers")], ids=" ".join)
def test_data_without_a_cookie_is_kept(cluster: str, tmp_path: Path, without: tuple[str, ...]) -> None:
    data = tmp_path / "bookie"
    for name in without:
        (data / name / COOKIE_FILE).unlink()
    before = names_in(data)
    refused = format_it(cluster, data)
    assert refused.exit_code == 2, refused.output
    assert f"{data / without[0]} holds" in refused.stderr and "has no cookie" in refused.stderr
    assert names_in(data) == before
    assert format_it(cluster, data, "--force").exit_code == 0
    assert names_in(data) == {"journal", "ledgers"}
    assert knows_bookie(cluster) == (len(without) == 2), "a cookie that is left says whose they are"


@pytest.mark.parametrize("name", ["journal", "ledgers"])
def test_a_format_that_was_cut_off_is_completed(cluster: str, tmp_path: Path, name: str) -> None:
    data = tmp_path / "bookie"
    for path in sorted((data / name).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    done = format_it(cluster, data)
    assert done.exit_code == 0, done.output
    assert names_in(data) == {"journal", "ledgers"}
    assert not knows_bookie(cluster)


def test_what_no_bookie_made_stays(cluster: str, tmp_path: Path) -> None:
    data = tmp_path / "bookie"
    for name in ("journal", "ledgers"):
        (data / name / "lost+found").mkdir()
    (data / "journal" / "0000000000000001.journal.aside").write_bytes(b"a copy")
    done = format_it(cluster, data)
    assert done.exit_code == 0, done.output
    assert str(data / "ledgers" / "lost+found") in done.stdout
    assert names_in(data) == {
        "journal/0000000000000001.journal.aside",
        "journal/lost+found",
        "ledgers/lost+found",
    }


def test_a_directory_that_never_was_a_bookies_is_left_alone(cluster: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("journal", "ledgers"):
        (home / name / "letters").mkdir(parents=True)
        (home / name / "letters" / "a.txt").write_text("dear")
    before = names_in(home)
    refused = format_it(cluster, home)
    assert refused.exit_code == 2, refused.output
    assert f"{home / 'journal'} holds letters and has no cookie" in refused.stderr
    assert format_it(cluster, home, "--force").exit_code == 0
    assert names_in(home) == before
