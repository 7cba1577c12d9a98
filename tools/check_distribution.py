"""Build sdist and wheel, install the wheel with each extra into a clean environment, and use what it brings.

usage: python tools/check_distribution.py [EXTRA...]     (from the network, some minutes; all extras by default)
       python tools/check_distribution.py oldest         (the oldest versions of what the extras need: nightly)

What the tests cannot see from inside a checkout: files missing in the wheel, or there too much; a package that
only the development environment has; commands that are not installed; the sentence for a missing extra.
Every step is one line; the first that fails ends it with what was run and what it printed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("bookie_server", "dlog", "ledger", "pyspark_dlog", "spark_connector")
EXAMPLES = ("README.md", "flights-2013-01.csv.gz")
STEP_TIMEOUT_S = 900

APPEND = (
    "import sys, dlog\n"
    "with dlog.connect(sys.argv[1]) as client, client.open_writer(sys.argv[2], create=True) as writer:\n"
    "    writer.append(b'from the wheel')\n"
    "with dlog.connect(sys.argv[1]) as client:\n"
    "    print(*(message.payload for message in client.reader(sys.argv[2], until='latest')))\n"
)
STANDALONE = (
    "import sys, dlog\n"
    "with dlog.standalone(sys.argv[1], bookies=3) as cluster, dlog.connect(cluster.uri) as client:\n"
    "    print(cluster.uri, flush=True)\n"
    "    sys.stdin.read()\n"
)
NO_CLUSTER = "import dlog; dlog.standalone('unused')"
ZSTD = (
    "import sys, dlog\nfrom dlog.format.entry import Codec\n"
    "config = dlog.LogConfig(codec=Codec.ZSTD)\n"
    "with dlog.connect(sys.argv[1], config=config) as client:\n"
    "    with client.open_writer('packed', create=True) as writer:\n"
    "        writer.append(b'x' * 10_000)\n"
    "    print(*(len(message.payload) for message in client.reader('packed', until='latest')))\n"
)
SPARK = (
    "import sys\nfrom pyspark_dlog import DefaultSource\n"
    "source = DefaultSource({'metadata': sys.argv[1], 'log': 'core'})\n"
    "reader = source.reader(source.schema())\n"
    "print(sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)))\n"
)
ARROW = (
    "import sys, dlog\n"
    "print(dlog.arrow.scan(sys.argv[1], 'core', columns=['value']).read_all()['value'].to_pylist())\n"
)
WHICH = "import importlib.util as u; print(*(n for n in {names!r} if u.find_spec(n)))"


def main(extras: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="dlog-distribution-") as name:
        directory = Path(name)
        wheel = build(directory)
        core = Installation(directory, wheel, "")
        server = Installation(directory, wheel, "server")
        with server.cluster(directory / "cluster") as uri:
            if extras == ["oldest"]:
                check_core(core, uri)
                say(f"[{OLDEST} in their oldest versions]")
                old = Installation(directory, wheel, OLDEST, pins=oldest_versions(OLDEST))
                check_oldest(old, uri, directory)
                return
            for extra in extras or ["", *CHECKS]:
                installed = {"": core, "server": server}.get(extra) or Installation(directory, wheel, extra)
                say(f"[{extra or 'core'}]")
                (CHECKS[extra] if extra else check_core)(installed, uri)
    say("the distribution is what it promises")


def say(sentence: str) -> None:
    print(f"check-distribution: {sentence}", flush=True)


def run(*command: str | Path, fails: bool = False, where: Path | None = None) -> str:
    """What it printed on both streams. The check ends here unless it ended as expected."""
    ended = subprocess.run(
        [str(word) for word in command],
        cwd=where or Path(tempfile.gettempdir()),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=STEP_TIMEOUT_S,
    )
    if (ended.returncode != 0) != fails:
        sys.exit(f"check-distribution: {command} ended with {ended.returncode} and printed:\n{ended.stdout}")
    return ended.stdout.strip()


def expect(condition: object, what: str) -> None:
    if not condition:
        sys.exit(f"check-distribution: {what}")


# ---- build


def build(directory: Path) -> Path:
    """The wheel, made from the sdist, both looked through. Built from a copy: it leaves files where it works."""
    source = directory / "source"
    for name in run("git", "ls-files", where=ROOT).splitlines():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, source / name)
    run(sys.executable, "-m", "venv", directory / "build")
    python = directory / "build" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "build")
    run(python, "-m", "build", "--outdir", directory / "dist", source)
    (sdist,) = (directory / "dist").glob("*.tar.gz")
    (wheel,) = (directory / "dist").glob("*.whl")
    check_sdist(sdist)
    check_wheel(wheel)
    return wheel


def check_sdist(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for wanted in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "CHANGELOG.md",
        *(f"examples/data/{n}" for n in EXAMPLES),
    ):
        expect(wanted in names, f"{sdist.name} lacks {wanted}")
    strays = sorted(name for name in names if name.startswith(("tests", "benchmarks", ".ci")))
    expect(not strays, f"{sdist.name} has a part of what belongs to the checkout: {strays[:5]}")
    say(f"{sdist.name}: {sdist.stat().st_size / 1e6:.2f} MB, {len(names)} files")


def check_wheel(wheel: Path) -> None:
    """Our packages whole, the example data, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    version = wheel.name.split("-")[1]
    info, data = (
        f"dlog_bookkeeper-{version}.dist-info/",
        f"dlog_bookkeeper-{version}.data/data/share/dlog/examples/",
    )
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".pyi", ".proto") or path.name == "py.typed"
    }
    expect(sources <= names, f"{wheel.name} lacks {sorted(sources - names)}")
    rest = {name for name in names - sources if not name.startswith(info)}
    expect(rest == {data + name for name in EXAMPLES}, f"{wheel.name} has, or lacks, {sorted(rest)}")
    say(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB, {len(names)} files")


# ---- install and use

OLDEST = "arrow,cli,compression,metrics,server,uvloop"
"""Without Spark, which `make spark-versions` checks. On Python 3.11: old packages have no wheels for newer ones."""


def oldest_versions(extras: str) -> list[str]:
    """The lower bound of each requirement, as a version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [project["optional-dependencies"][extra] for extra in extras.split(",")]
    wanted = {each for requirements in (project["dependencies"], *named) for each in requirements}
    return sorted(each.replace(">=", "==") for each in wanted if "[" not in each)


class Installation:
    """The wheel with one extra, or several, in an environment of its own."""

    def __init__(self, directory: Path, wheel: Path, extra: str, *, pins: list[str] | None = None) -> None:
        self._bin = directory / f"with-{extra or 'nothing'}" / "bin"
        run(sys.executable, "-m", "venv", self._bin.parent)
        requirement = f"{wheel}[{extra}]" if extra else str(wheel)
        self.python(
            "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement, *(pins or ())
        )

    def python(self, *arguments: str | Path, fails: bool = False) -> str:
        return run(self._bin / "python", "-P", *arguments, fails=fails)

    def command(self, name: str, *arguments: str | Path, fails: bool = False) -> str:
        return run(self._bin / name, *arguments, fails=fails)

    def refuses(self, extra: str, printed: str) -> None:
        """One sentence, which names the extra."""
        (sentence,) = [line for line in printed.splitlines() if "which is not installed" in line]
        expect(f"pip install '.[{extra}]'" in sentence, f"[{extra}] is not named: {printed}")
        say(f"  {sentence}")

    def cluster(self, directory: Path) -> Cluster:
        return Cluster([str(self._bin / "python"), "-P", "-c", STANDALONE, str(directory)])


class Cluster:
    """Bookies of an installation, until the block ends."""

    def __init__(self, command: list[str]) -> None:
        self._command = command

    def __enter__(self) -> str:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tempfile.gettempdir()
        )
        assert self._process.stdout is not None
        uri = self._process.stdout.readline().strip()
        expect(uri, "the cluster did not start, see above")
        return uri

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)


def check_core(core: Installation, uri: str) -> None:
    core.python("-c", "import dlog, dlog.aio, dlog.errors, dlog.testing, ledger, bookie_server")
    absent = (
        "rocksdict",
        "typer",
        "rich",
        "uvloop",
        "pyarrow",
        "pyspark",
        "pandas",
        "zstandard",
        "prometheus_client",
    )
    expect(not (found := core.python("-c", WHICH.format(names=absent))), f"the core brings {found}")
    expect(core.python("-c", APPEND, uri, "core") == "b'from the wheel'", "the core's append is not there")
    core.refuses("cli", core.command("dlog", "--help", fails=True))
    core.refuses("server", core.command("bookie", "--help", fails=True))
    core.refuses("server", core.python("-c", NO_CLUSTER, fails=True))
    core.refuses("spark", core.python("-c", "import spark_connector", fails=True))
    core.refuses("arrow", core.python("-c", ARROW, uri, fails=True))
    core.refuses("compression", core.python("-c", ZSTD, uri, fails=True))


def check_cli(cli: Installation, uri: str) -> None:
    expect("append" in cli.command("dlog", "--help"), "dlog --help does not name append")
    expect(re.fullmatch(r"dlog \d+\.\d+\.\d+", cli.command("dlog", "--version")), "dlog --version")
    cli.command("dlog", "create", "typed", "--metadata", uri)
    expect("typed" in cli.command("dlog", "ls", "--metadata", uri), "dlog ls does not name the log")
    cli.refuses("server", cli.command("dlog", "standalone", "--data", "unused", fails=True))


def check_server(server: Installation, uri: str) -> None:
    """The cluster that all of this uses runs on it, without uvloop."""
    expect("start" in server.command("bookie", "--help"), "bookie --help does not name start")
    expect(not server.python("-c", WHICH.format(names=("uvloop",))), "[server] brings uvloop")
    pages = ("start", "--http-port", "0", "--metadata", uri, "--data", "unused")
    server.refuses("metrics", server.command("bookie", *pages, fails=True))


def check_metrics(metrics: Installation, uri: str) -> None:
    metrics.python("-c", "import bookie_server.monitoring.serving")


def check_compression(packed: Installation, uri: str) -> None:
    expect(packed.python("-c", ZSTD, uri) == "10000", "a compressed append was not read back")


def check_uvloop(fast: Installation, uri: str) -> None:
    loop = fast.python(
        "-c", "from dlog.blocking.loop_thread import fastest_loop as f; print(type(f()).__module__)"
    )
    expect(loop == "uvloop", f"the loop is of {loop}")
    fast.python("-c", APPEND, uri, "fast")


def check_arrow(arrow: Installation, uri: str) -> None:
    """The message of the core's check."""
    expect(not arrow.python("-c", WHICH.format(names=("pandas", "pyspark"))), "[arrow] brings more")
    expect(arrow.python("-c", ARROW, uri) == "[b'from the wheel']", "the table has not the one message")


def check_spark(spark: Installation, uri: str) -> None:
    expect(not spark.python("-c", WHICH.format(names=("pandas",))), "[spark] brings pandas")
    expect(spark.python("-c", SPARK, uri) == "1", "the source did not return the one message")


def check_all(everything: Installation, uri: str) -> None:
    """The demonstration, with its data from the wheel."""
    began = time.monotonic()
    everything.command("dlog", "demo", "--no-spark")
    say(f"  dlog demo --no-spark took {time.monotonic() - began:.0f} s")


def check_oldest(old: Installation, uri: str, directory: Path) -> None:
    """Each package in the version that pyproject.toml names. Newer ones of what these need may not suit them."""
    for each in ("dlog", "bookie"):
        old.command(each, "--help")
    old.command("dlog", "read", "--help")
    old.command("dlog", "create", "old", "--metadata", uri)
    expect("old" in old.command("dlog", "ls", "--metadata", uri), "dlog ls does not name the log")
    expect(old.python("-c", APPEND, uri, "old") == "b'from the wheel'", "the append is not there")
    expect(old.python("-c", ZSTD, uri).endswith("10000"), "a compressed append was not read back")
    expect("from the wheel" in old.python("-c", ARROW, uri), "the table has not the one message")
    old.python("-c", "import ledger.metadata.zookeeper.store, bookie_server.monitoring.serving")
    with old.cluster(directory / "old-cluster") as bookies:
        expect(
            old.python("-c", APPEND, bookies, "old") == "b'from the wheel'", "its own bookies do not serve"
        )


CHECKS: dict[str, Callable[[Installation, str], None]] = {
    "cli": check_cli,
    "server": check_server,
    "metrics": check_metrics,
    "compression": check_compression,
    "uvloop": check_uvloop,
    "arrow": check_arrow,
    "spark": check_spark,
    "all": check_all,
}


if __name__ == "__main__":
    main(sys.argv[1:])
