"""What pyproject.toml declares is what the code imports: nothing missing, nothing idle, each in the right extra."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.repository import PACKAGES, ROOT, tracked_files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
CORE = "the core"

MODULES = {"google-crc32c": "google_crc32c", "prometheus-client": "prometheus_client", "protobuf": "google"}
"""Where the name to import is not that of the distribution."""

EXTRAS = {
    # The longest prefix holds. What is imported there may come from the core and from these extras.
    "ledger/": (),
    "ledger/command_line.py": ("cli", "server"),
    "dlog/": (),
    "dlog/arrow/": ("arrow",),
    "dlog/blocking/reader.py": ("arrow",),
    "dlog/cli/": ("cli",),
    "dlog/cli/export/": ("cli", "arrow"),
    "dlog/demo/spark_process.py": ("spark",),
    "dlog/format/entry.py": ("compression",),
    "dlog/blocking/loop_thread.py": ("uvloop",),
    "dlog/read/reader.py": ("arrow",),
    "dlog/testing/pytest_plugin.py": ("dev",),
    "bookie_server/": ("server",),
    "bookie_server/process.py": ("uvloop",),
    "bookie_server/monitoring/metrics.py": ("metrics",),
    "spark_connector/": ("arrow", "spark"),
    "pyspark_dlog/": ("spark",),
}

FOR_DEVELOPERS = {"dev", "fuzz"}
"""Extras that only tests and tools need."""

TOOLS = {
    # Never imported: the file that runs or needs it, and how it is named there.
    "grpcio": ("tests/spark/test_deployments.py", "connect:"),
    "grpcio-status": ("tests/spark/test_deployments.py", "connect:"),
    "mypy": ("Makefile", "/mypy"),
    "pytest-timeout": ("pyproject.toml", "--timeout="),
    "pytest-xdist": ("Makefile", "-n auto"),
    "ruff": ("Makefile", "/ruff"),
    "types-protobuf": ("Makefile", "/mypy"),
}


def name_of(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return found[0]


def declared() -> dict[str, set[str]]:
    """Distribution → the extras that bring it. An extra made of others brings nothing of its own."""
    groups = {CORE: PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    found: dict[str, set[str]] = {}
    for group, requirements in groups.items():
        for name in map(name_of, requirements):
            if name != PROJECT["name"]:
                found.setdefault(name, set()).add(group)
    return found


def third_party_imports() -> Iterator[tuple[str, str]]:
    """(file, top-level module) of every import that is neither ours nor Python's; those for types count, too."""
    ours = {*PACKAGES, "tests", "benchmarks", "examples", "__future__"}
    for path in tracked_files():
        if path.suffix != ".py" or not path.is_file():
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for module in {name.partition(".")[0] for name in names}:
                if module not in ours and module not in sys.stdlib_module_names and not beside(path, module):
                    yield path.relative_to(ROOT).as_posix(), module


def beside(path: Path, module: str) -> bool:
    return (path.parent / f"{module}.py").is_file()


@cache
def imports() -> list[tuple[str, str]]:
    return sorted(set(third_party_imports()))


def test_every_imported_package_is_declared_where_it_is_needed() -> None:
    """By the core, or by the extra of the part that imports it. Tests and benchmarks have everything."""
    extras_of = {MODULES.get(name, name): extras for name, extras in declared().items()}
    wrong = []
    for file, module in imports():
        prefix = max((each for each in EXTRAS if file.startswith(each)), key=len, default=None)
        allowed = {CORE, *EXTRAS[prefix]} if prefix else {CORE, *PROJECT["optional-dependencies"]}
        if not allowed & extras_of.get(module, set()):
            wrong.append(f"{file} imports {module}, which {' and '.join(sorted(allowed))} do not declare")
    assert wrong == []


def test_every_declared_package_is_imported() -> None:
    """By our packages, in a part that the extra belongs to; those for developers by tests, benchmarks or a tool."""
    idle = []
    for name, groups in declared().items():
        for group in groups:
            files = [file for file, module in imports() if module == MODULES.get(name, name)]
            if group in FOR_DEVELOPERS:
                used = bool(files) or name in TOOLS
            else:
                used = any(file.startswith(PACKAGES) and group in extras_for(file) for file in files)
            if not used:
                idle.append(f"{name} of {group}")
    assert idle == []


def extras_for(file: str) -> set[str]:
    prefix = max((each for each in EXTRAS if file.startswith(each)), key=len)
    # A part that needs an extra may also use what the core brings.
    return {CORE, *EXTRAS[prefix]}


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_every_tool_is_run(name: str) -> None:
    file, words = TOOLS[name]
    assert name in declared()
    assert words in (ROOT / file).read_text("utf-8")


def test_all_is_everything_that_a_user_can_install() -> None:
    (requirement,) = PROJECT["optional-dependencies"]["all"]
    named = set(re.findall(r"\w+", requirement.partition("[")[2]))
    assert named == set(PROJECT["optional-dependencies"]) - {"all", *FOR_DEVELOPERS}


# ---- what is said when an extra is missing


def run_without(blocked: str, program: str) -> subprocess.CompletedProcess[str]:
    """`program` in a Python in which these packages cannot be imported."""
    block = "".join(f"sys.modules[{name!r}] = None\n" for name in blocked.split())
    return subprocess.run(
        [sys.executable, "-c", f"import sys\n{block}{program}"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )


SENTENCE = (
    r"{what} needs the package {package}, which is not installed: "
    r"run pip install '\.\[{extra}\]' in a checkout of dlog-bookkeeper, "
    r"or pip install 'WHEEL\[{extra}\]' with the path of its wheel"
)


@pytest.mark.parametrize(
    ("blocked", "program", "what", "package", "extra"),
    [
        ("typer", "from dlog.cli.entry import main; main()", "dlog: the dlog command", "typer", "cli"),
        ("rich", "from dlog.cli.entry import main; main()", "dlog: the dlog command", "rich", "cli"),
        (
            "rocksdict",
            "from bookie_server.__main__ import main; main()",
            "bookie: the bookie command",
            "rocksdict",
            "server",
        ),
        (
            "typer",
            "from bookie_server.__main__ import main; main()",
            "bookie: the bookie command",
            "typer",
            "server",
        ),
        (
            "prometheus_client",
            "sys.argv[1:] = 'start --metadata memory: --data unused --http-port 0'.split()\n"
            "from bookie_server.__main__ import main; main()",
            "bookie: bookie start --http-port",
            "prometheus_client",
            "metrics",
        ),
        (
            "rocksdict",
            "import dlog; dlog.standalone('unused')",
            "ledger.errors.MissingExtraError: a cluster of bookie processes",
            "rocksdict",
            "server",
        ),
        (
            "rocksdict",
            "from pathlib import Path; from bookie_server.disk.rocksdb_store import open_key_values;"
            "open_key_values(Path('unused'))",
            "ledger.errors.MissingExtraError: a bookie's index",
            "rocksdict",
            "server",
        ),
        (
            "pyspark",
            "import spark_connector",
            "ledger.errors.MissingExtraError: the Spark source",
            r"pyspark \(4.0 or newer\)",
            "spark",
        ),
        (
            "pyarrow",
            "import dlog; dlog.arrow",
            "ledger.errors.MissingExtraError: dlog.arrow",
            "pyarrow",
            "arrow",
        ),
        (
            "numpy",
            "import dlog; dlog.arrow",
            "ledger.errors.MissingExtraError: dlog.arrow",
            "numpy",
            "arrow",
        ),
        (
            "zstandard",
            "from dlog.format.entry import *; from dlog.format.message import Columns;"
            "encode_entry(Columns([b'x' * 100], [None], [()]), epoch=0, append_time_us=0, codec=Codec.ZSTD)",
            "ledger.errors.MissingExtraError: codec zstd",
            "zstandard",
            "compression",
        ),
    ],
)
def test_a_missing_extra_is_one_sentence(
    blocked: str, program: str, what: str, package: str, extra: str
) -> None:
    ended = run_without(blocked, program)
    assert ended.returncode in (1, 2)
    last = ended.stderr.splitlines()[-1]
    assert re.fullmatch(SENTENCE.format(what=what, package=package, extra=extra), last), ended.stderr
    if what.startswith(("dlog:", "bookie:")):
        assert ended.returncode == 2
        assert len(ended.stderr.splitlines()) == 1


@pytest.mark.parametrize("blocked", ["pyarrow", "numpy"])
def test_spark_reports_what_its_source_is_missing(blocked: str) -> None:
    """Found by Spark and asked for its schema, the source names the extra, not an import somewhere inside."""
    ended = run_without(
        blocked,
        "from pyspark_dlog import DefaultSource; DefaultSource({'metadata': 'memory:', 'log': 'a'}).schema()",
    )
    assert f"the Spark source needs the package {blocked}, which is not installed" in ended.stderr


def test_a_reader_says_which_extra_makes_a_table() -> None:
    """Before it reads anything; then it reads messages."""
    ended = run_without(
        "pyarrow",
        "from dlog.testing import simulate\n"
        "from dlog.errors import MissingExtraError\n"
        "async def main(cluster):\n"
        "    async with await cluster.client() as client:\n"
        "        async with client.open_writer('orders', create=True) as writer:\n"
        "            await writer.append(b'one')\n"
        "        reader = client.reader('orders', until='latest')\n"
        "        for call in (reader.to_arrow, reader.arrow_batches().__anext__):\n"
        "            try:\n"
        "                await call()\n"
        "            except MissingExtraError as error:\n"
        "                print(str(error).partition(',')[0], error.extra)\n"
        "        print([m.payload async for m in reader])\n"
        "simulate(main)\n",
    )
    assert ended.stdout.splitlines() == [
        "to_arrow needs the package pyarrow arrow",
        "arrow_batches needs the package pyarrow arrow",
        "[b'one']",
    ], ended.stderr


OPTIONAL = (
    "rocksdict typer rich pyspark pyarrow numpy pandas zstandard lz4 uvloop "
    "prometheus_client matplotlib hypothesis"
)


def test_the_core_alone_appends_and_reads(tmp_path: Path) -> None:
    """A client without any extra, uvloop included; the simulated cluster stands in for one elsewhere."""
    ended = run_without(
        OPTIONAL,
        "import dlog, bookie_server, dlog.aio, dlog.errors, ledger\n"
        "from dlog.testing import simulate\n"
        "async def main(cluster):\n"
        "    async with await cluster.client() as client:\n"
        "        async with client.open_writer('orders', create=True) as writer:\n"
        "            await writer.append(b'one')\n"
        "        print([m.payload async for m in client.reader('orders', until='latest')])\n"
        "simulate(main)\n",
    )
    assert (ended.stdout, ended.stderr) == ("[b'one']\n", "")


def test_what_spark_imports_says_why_it_has_no_source() -> None:
    """Spark itself only says that it knows no such format."""
    ended = run_without(OPTIONAL, "import pyspark_dlog; print(pyspark_dlog.__all__)")
    assert ended.stdout == "[]\n"
    [reason] = ended.stderr.splitlines()
    assert reason.startswith(
        "the data source dlog is not available: the Spark source needs the package pyspark"
    )


def test_the_distribution_is_named_where_its_files_and_version_are_looked_up() -> None:
    """`dlog` on PyPI is another program: nobody may be sent there, and no lookup may ask for it."""
    pattern = re.compile(
        r"pip install (?:[^\n]*['\" ])?dlog\b(?!-bookkeeper)|(?:version|files|metadata|distribution)\(['\"]dlog['\"]\)"
    )
    wrong = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in tracked_files()
        if path.suffix in (".py", ".md", ".toml", "") and path.is_file() and path != Path(__file__)
        for found in pattern.finditer(path.read_text("utf-8"))
    ]
    assert wrong == []
