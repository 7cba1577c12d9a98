"""A bookie starts on its own disks only, and says what is wrong with any other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.helpers.bookie.entries import add
from tests.helpers.bookie.raw_client import RawClient
from tests.helpers.processes.bookie import BookieProcess, run_bookie

pytestmark = pytest.mark.integration


def refusal(bookie: BookieProcess, port: int | None = None, *, code: int = 2) -> str:
    """Start a stopped bookie that must refuse; what it said on stderr."""
    done = run_bookie(
        "start",
        *("--metadata", bookie.metadata, "--data", str(bookie.data), "--port", str(port or bookie.port)),
    )
    assert done.returncode == code, "2: nothing that goes away by itself"
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.stderr


def used(bookie: BookieProcess) -> None:
    """Let the bookie store something, then end."""
    with RawClient(bookie.port) as client:
        client.ask(add(1, 0))
    assert bookie.terminate() == 0


@pytest.mark.parametrize("name", ["journal", "ledgers"])
def test_an_emptied_directory_refuses(bookie: BookieProcess, name: str) -> None:
    used(bookie)
    shutil.rmtree(bookie.data / name)
    said = refusal(bookie)
    assert str(bookie.data / name) in said
    assert "is empty" in said


def test_both_directories_emptied_refuse(bookie: BookieProcess) -> None:
    """A volume that was not mounted: the metadata store still knows the bookie."""
    used(bookie)
    shutil.rmtree(bookie.data)
    assert "mount its disk" in refusal(bookie)


def test_directories_emptied_except_for_their_cookies_refuse(bookie: BookieProcess) -> None:
    used(bookie)
    for path in [each for each in bookie.data.rglob("*") if each.is_file()]:
        if path.name not in ("VERSION", "port"):
            path.unlink()
    said = refusal(bookie)
    assert "is missing in the ledger directory of bookie" in said
    assert "log-mark" in said and "another id" in said


def test_exchanged_mounts_refuse(bookie: BookieProcess, tmp_path: Path) -> None:
    used(bookie)
    journal, ledgers, aside = bookie.data / "journal", bookie.data / "ledgers", tmp_path / "aside"
    journal.rename(aside)
    ledgers.rename(journal)
    aside.rename(ledgers)
    said = refusal(bookie)
    assert f"journal directory {journal} has the cookie of" in said
    assert "swap the mounts" in said
    assert not (ledgers / "log-mark").exists()


@pytest.mark.parametrize("name", ["journal", "ledgers"])
def test_a_lost_cookie_refuses(bookie: BookieProcess, name: str) -> None:
    used(bookie)
    (bookie.data / name / "VERSION").unlink()
    assert "without a cookie" in refusal(bookie)


def test_swapped_disks_of_two_bookies_refuse(bookie: BookieProcess, tmp_path: Path) -> None:
    other = BookieProcess(bookie.metadata, tmp_path / "other")
    other.start()
    used(bookie)
    used(other)
    ours, theirs, aside = bookie.data / "journal", other.data / "journal", tmp_path / "aside"
    ours.rename(aside)
    theirs.rename(ours)
    aside.rename(theirs)
    said = refusal(bookie)
    assert str(ours) in said
    assert f"127.0.0.1:{other.port}" in said
    assert str(theirs) in refusal(other)


def test_another_cluster_refuses(bookie: BookieProcess, tmp_path: Path) -> None:
    used(bookie)
    bookie.metadata = f"sqlite:///{tmp_path}/another.db"
    assert run_bookie("init-cluster", "--metadata", bookie.metadata).returncode == 0
    said = refusal(bookie)
    assert "cluster instance id" in said
    assert str(bookie.data) in said


def test_another_port_refuses(bookie: BookieProcess, tmp_path: Path) -> None:
    """The address is the identity: under another one, ledgers would not find their entries."""
    other = BookieProcess(bookie.metadata, tmp_path / "other")
    other.start()
    free_port = other.port
    used(bookie)
    other.kill()
    assert "bookie id" in refusal(bookie, port=free_port)


@pytest.mark.parametrize("name", ["journal", "ledgers"])
@pytest.mark.parametrize(
    "damaged", [b"\xff\x00garbage", b"", b"5\nbookieHost: "], ids=["other", "empty", "cut"]
)
def test_a_damaged_cookie_refuses_until_the_other_one_is_put_there(
    bookie: BookieProcess, name: str, damaged: bytes
) -> None:
    used(bookie)
    cookie = bookie.data / name / "VERSION"
    cookie.write_bytes(damaged)
    said = refusal(bookie, code=1)
    assert f"{cookie}: the cookie" in said
    assert "put a copy of VERSION from another directory of this bookie there, without its last line" in said
    other = bookie.data / ("ledgers" if name == "journal" else "journal") / "VERSION"
    cookie.write_bytes(b"".join(other.read_bytes().splitlines(keepends=True)[:-1]))
    bookie.start()


def test_the_right_disks_start_again_on_the_same_port(bookie: BookieProcess) -> None:
    port = bookie.port
    used(bookie)
    bookie.start()
    assert bookie.port == port


def test_a_store_without_a_cluster_reports_how_to_make_one(tmp_path: Path) -> None:
    done = run_bookie(
        "start", "--metadata", f"sqlite:///{tmp_path}/none.db", "--data", str(tmp_path / "d"), "--port", "0"
    )
    assert done.returncode == 1, "it may get one"
    assert "dlog standalone" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "d" / "journal" / "VERSION").exists()


def test_a_taken_port_is_named(bookie: BookieProcess, tmp_path: Path) -> None:
    done = run_bookie(
        *("start", "--metadata", bookie.metadata, "--data", str(tmp_path / "d"), "--port", str(bookie.port))
    )
    assert done.returncode == 1
    assert f":{bookie.port}" in done.stderr


@pytest.mark.parametrize("where", ["", "journal", "ledgers"])
def test_the_storage_of_apaches_bookie_is_left_alone(
    bookie: BookieProcess, tmp_path: Path, where: str
) -> None:
    """As journal, as ledgers, or as the directory in which ours would be made: nothing is made or deleted."""
    theirs = tmp_path / "theirs" / where
    (theirs / "current").mkdir(parents=True)
    (theirs / "current" / "VERSION").write_bytes(b"5\n")
    data = ["--metadata", bookie.metadata, "--data", str(tmp_path / "theirs")]
    before = sorted((tmp_path / "theirs").rglob("*"))
    for command in (["start", "--port", "0"], ["format", "--yes", "--force"]):
        done = run_bookie(*command, *data)
        assert done.returncode in (1, 2) and done.stdout == ""
        assert f"{theirs} belongs to a bookie of Apache BookKeeper" in done.stderr
        assert "its own directory" in done.stderr and "Traceback" not in done.stderr
        assert sorted((tmp_path / "theirs").rglob("*")) == before
