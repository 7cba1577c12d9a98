"""The source and the sink in each way to run Spark: programs of their own, since a process has one session.

Each reads a log, copies it as a batch and copies it as a stream.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dlog.client import LogClient
from dlog.local.embedded import Standalone
from tests.helpers import spark_round_trip
from tests.helpers.log.appended import appended
from tests.helpers.log.producer import read_all
from tests.helpers.log.sink import ledgers_made_for
from tests.helpers.repository import ROOT, tracked_files
from tests.helpers.spark import QUICK_JAVA

pytestmark = [pytest.mark.spark, pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(300)]

OnCluster = Callable[[Callable[[LogClient], Any]], Any]

VALUES = [b"%d" % number for number in range(1000)]
LIMIT_S = 200


class Cluster:
    def __init__(self, uri: str, on_cluster: OnCluster, directory: Path) -> None:
        self.uri = uri
        self.directory = directory
        self._on_cluster = on_cluster
        for log, values in (("orders", VALUES), ("copies", [])):
            on_cluster(appended(log, *values, create=True))

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=LIMIT_S,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "JDK_JAVA_OPTIONS": QUICK_JAVA, **environment},
            cwd=self.directory,
        )  # fmt: skip

    def round_trip(self, master: str, *switches: str) -> dict[str, Any]:
        """With this checkout on the path of the driver and of its tasks."""
        program = [sys.executable, "-m", spark_round_trip.__name__, self.uri, str(self.directory)]
        return self.result_of(self.run(*program, master, *switches, PYTHONPATH=str(ROOT)))

    def result_of(self, ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
        # spark-submit writes to its stdout what the program writes to stderr.
        said = ended.stderr + ended.stdout
        _, traceback, rest = said.partition("Traceback")
        warnings = "\n".join(
            line for line in said.splitlines() if " WARN " in line
        )  # Spark's, of what it passes over
        assert ended.returncode == 0, warnings[:4000] + ((traceback + rest)[:4000] or said[-4000:])
        found = json.loads(ended.stdout.splitlines()[-1])
        assert isinstance(found, dict)
        return found

    def copied(self) -> list[bytes]:
        return [m.payload for m in self._on_cluster(lambda client: read_all(client, "copies"))]

    def check(self, result: dict[str, Any]) -> None:
        """What was read and both copies are whole."""
        assert result["failed"] is None, result["failed"]
        assert [text.encode() for text in result["found"]] == VALUES
        copied = self.copied()
        for copy in (copied[:1000], copied[1000:]):
            assert sorted(copy) == sorted(VALUES)

    def stray_ledgers(self) -> set[int]:
        record = self._on_cluster(lambda client: client.describe("copies")).record
        made = self._on_cluster(lambda client: ledgers_made_for(client, "copies"))
        assert isinstance(made, set)
        return made - set(record.ledger_ids)


@pytest.fixture
def logs(cluster: Standalone, on_cluster: OnCluster, tmp_path: Path) -> Any:
    found = Cluster(cluster.uri, on_cluster, tmp_path)
    yield found
    for log in ("orders", "copies"):
        on_cluster(lambda client, log=log: client.delete(log))


@pytest.mark.nightly
def test_spark_connect_with_executors_in_processes_of_their_own(logs: Cluster) -> None:
    """A client without a JVM, and Spark's own small cluster: a master, and a worker whose executor runs two tasks.

    The first attempt of each task of the batch fails at its end: what it had written is not in the log.
    """
    result = logs.round_trip("connect:local-cluster[1,2,1024]", "retry")
    assert result["session"] == "pyspark.sql.connect.session"
    logs.check(result)
    assert logs.stray_ledgers() == set(), "a task that fails deletes what it has written"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout, made in a copy of it."""
    directory = tmp_path_factory.mktemp("wheel")
    for file in tracked_files():
        name = file.relative_to(ROOT)
        if name.parts[0] not in ("tests", "docs", "benchmarks", "tools") and file.is_file():
            (directory / "source" / name.parent).mkdir(parents=True, exist_ok=True)
            shutil.copy(file, directory / "source" / name)
    made = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory), "./source"],
        cwd=directory, capture_output=True, text=True, check=False, timeout=LIMIT_S,
    )  # fmt: skip
    if "ResolutionImpossible" in made.stderr or "No matching distribution" in made.stderr:
        pytest.skip("needs the network: pip fetches setuptools to build a wheel")
    assert made.returncode == 0, made.stderr
    [found] = directory.glob("*.whl")
    return found


@pytest.fixture
def without_dlog(tmp_path: Path) -> Path:
    """A Python that has all that this one has, but not this project: its site-packages are a plain directory of the
    path there, where the file that leads to this checkout means nothing.
    """
    home = tmp_path / "venv"
    venv.create(home, symlinks=True)
    site = home / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (site / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home


def submit(logs: Cluster, home: Path, *arguments: str, switches: tuple[str, ...] = ()) -> dict[str, Any]:
    import pyspark

    python = str(home / "bin" / "python")
    program = shutil.copy(spark_round_trip.__file__, logs.directory / "program.py")
    spark = Path(pyspark.__file__).parent
    ended = logs.run(
        str(spark / "bin" / "spark-submit"), "--master", "local[2]", "--conf", "spark.ui.enabled=false",
        *arguments, str(program), logs.uri, str(logs.directory), "-", *switches,
        PYSPARK_PYTHON=python, PYSPARK_DRIVER_PYTHON=python, SPARK_HOME=str(spark), PYTHONPATH="",
    )  # fmt: skip
    return logs.result_of(ended)


@pytest.mark.nightly
def test_spark_submit_finds_the_installed_wheel(logs: Cluster, wheel: Path, without_dlog: Path) -> None:
    python = str(without_dlog / "bin" / "python")
    assert "No module named 'dlog'" in logs.run(python, "-c", "import dlog", PYTHONPATH="").stderr
    installing = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"]
    # Spark sessions of tests before this one leave the checkout on the path. Pip would find its metadata there, and
    # install nothing.
    installed = logs.run(*installing, str(wheel), PYTHONPATH="")
    assert installed.returncode == 0, installed.stderr
    assert logs.run(python, "-c", "import dlog", PYTHONPATH="").returncode == 0
    logs.check(submit(logs, without_dlog))


@pytest.mark.nightly
def test_py_files_are_enough_for_batches_and_not_for_reading_streams(
    logs: Cluster, wheel: Path, without_dlog: Path
) -> None:
    """The wheel under a name that ends with .zip, as Spark takes packages, and the source registered.

    The process in which Spark serves a stream does not see the files. If this fails, Spark has changed: docs/spark.md
    says so.
    """
    archive = shutil.copy(wheel, logs.directory / "dlog.zip")
    result = submit(logs, without_dlog, "--py-files", str(archive), switches=("register",))
    assert [text.encode() for text in result["found"]] == VALUES
    assert sorted(logs.copied()) == sorted(VALUES), "the batch"
    assert "No module named 'spark_connector'" in result["failed"]
