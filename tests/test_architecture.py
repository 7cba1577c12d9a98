"""What the layout promises, checked by reading the source: imports, seams, public names, sizes, paths."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.repository import PACKAGES, ROOT, tracked_files

MAY_IMPORT = {
    "ledger": ("ledger",),
    "dlog": ("dlog", "ledger"),
    # The simulator runs all of it, and nothing of it knows the simulator.
    "dlog.testing": ("dlog", "ledger", "bookie_server"),
    "bookie_server": (
        "bookie_server",
        "ledger.core.distribution",  # which bookies of a running cluster to ask for an entry
        "ledger.wire",
        "ledger.metadata",
        "ledger.model",
        "ledger.errors",
        "ledger.digits",
        "ledger.environment",
        "ledger.buggify",
        "ledger.extras",
        "ledger.early_interrupt",
        "ledger.whole_loop",
        "ledger.repair.core.fragments",  # which entries a bookie must have
        "ledger.repair.config",  # a table of a bookie's settings
        "ledger.placement.config",  # another one
        "ledger.command_line",  # the boundary of both programs
        "ledger.printing",  # their tables and JSON
    ),
    # Repair is a client of the cluster: the verbs that repair use it, and a bookie's process runs it if it is told to.
    "bookie_server.tools.repair": ("bookie_server", "ledger"),
    "bookie_server.autorecovery": ("bookie_server", "ledger"),
    "spark_connector": ("spark_connector", "dlog", "ledger"),
    "pyspark_dlog": ("spark_connector",),
}

LOWER_LAYERS = {
    # A module under the prefix may import of ours only what is listed: the arrows inside a package.
    "ledger.errors": (),
    "ledger.buggify": (),
    "ledger.arguments": ("ledger.errors",),
    "ledger.field_docs": (),
    "ledger.digits": (),
    "ledger.model": ("ledger.errors", "ledger.arguments", "ledger.field_docs", "ledger.digits"),
    # A core needs the enumerations of settings and of a bookie's answer, no bytes.
    "ledger.core": (
        "ledger.core",
        "ledger.model",
        "ledger.errors",
        "ledger.config.Visibility",
        "ledger.wire.status.Answer",
    ),
    "ledger.repair.core": (
        "ledger.repair.core",
        "ledger.repair.errors",
        "ledger.core",
        "ledger.model",
        "ledger.errors",
    ),
    "ledger.wire": ("ledger.wire", "ledger.model", "ledger.errors"),
    "ledger.metadata": (
        "ledger.metadata",
        "ledger.arguments",
        "ledger.digits",
        "ledger.model",
        "ledger.errors",
        "ledger.environment",
        "ledger.buggify",
        "ledger.tasks",
    ),
    "ledger.tasks": (),
    "bookie_server.monitoring.request": (),
    "bookie_server.monitoring.response": ("bookie_server.monitoring.request",),
    "dlog.core": (
        "dlog.core",
        "dlog.model",
        "dlog.errors",
        "dlog.format",
        "dlog.ledger_list.trim_cut",
        "dlog.ledger_list.window",
        "ledger.arguments",
        "ledger.digits",
        "ledger.field_docs",
        "ledger.model",
        "ledger.errors",
    ),
    "dlog.ledger_list": ("dlog.ledger_list", "dlog.model", "dlog.errors", "ledger.model"),
    "dlog.format": (
        "dlog.format",
        "dlog.ledger_list.listing",
        "dlog.ledger_list.page",
        "dlog.model",
        "dlog.errors",
        "ledger.arguments",
        "ledger.model",
        "ledger.errors",
    ),
}

_SPARK_BASE = (
    "spark_connector.errors",
    "spark_connector.cluster",
    "spark_connector.retrying",
    "spark_connector.together",
)
LOWER_LAYERS |= {
    # source → sink | stream → read → extents | options → base
    **dict.fromkeys(_SPARK_BASE, ("spark_connector.errors", "dlog", "ledger")),
    "spark_connector.options": (
        "spark_connector.options",
        "spark_connector.errors",
        "dlog.model",
        "dlog.core.publication.SinkBatch",
        "ledger",
    ),
    "spark_connector.extents": ("spark_connector.extents", *_SPARK_BASE, "dlog", "ledger"),
    "spark_connector.read": (
        "spark_connector.read",
        "spark_connector.extents",
        "spark_connector.options",
        *_SPARK_BASE,
        "dlog",
        "ledger",
    ),
    "spark_connector.stream": (
        "spark_connector.stream",
        "spark_connector.read",
        "spark_connector.extents",
        "spark_connector.options",
        *_SPARK_BASE,
        "dlog",
        "ledger",
    ),
    "spark_connector.sink": (
        "spark_connector.sink",
        "spark_connector.options",
        *_SPARK_BASE,
        "dlog",
        "ledger",
    ),
}

MODULES_MAX = 15
"""Of a folder, without its `__init__.py`: more are not seen at a glance."""
LARGER_FOLDERS = {"dlog/testing/checks", "dlog/testing/swarm", "dlog/write", "ledger"}
"""Not split yet."""

TERMINAL = ("ledger.command_line", "ledger.printing")
PROGRAMS = ("dlog.cli", "bookie_server.tools", "bookie_server.process")

IMPURE = {"asyncio", "os", "random", "select", "socket", "subprocess", "threading", "time", "uuid", "secrets"}
"""What a pure core never sees: loops, clocks, chance of its own (a Random may be handed in), disks, sockets."""

SEAM = {
    "os",
    "random",
    "secrets",
    "threading",
    "time",
    "uuid",
    "subprocess",
    "concurrent",
    "tempfile",
    "shutil",
}
"""What a simulator must be able to replace, so only the owners below touch it."""

OWNERS = {
    "ledger/environment.py": "clocks, chance and identity",
    "ledger/command_line.py": "the terminal",
    "ledger/early_interrupt.py": "the end of a process that is still loading",
    "ledger/printing.py": "the terminal's width",
    "ledger/metadata/zookeeper/session/kazoo_connection.py": "the thread of a connection to ZooKeeper",
    "ledger/metadata/sqlite": "the thread that owns the SQLite connection, its files and locks",
    "bookie_server/disk/freed_space.py": "removed files and the thread that frees their space",
    "bookie_server/disk/system_disk.py": "files and the threads that write them",
    "bookie_server/disk/rocksdb_store.py": "the index's store, which several of those threads use",
    "dlog/address.py": "the environment variable that names the cluster",
    "dlog/aio.py": "the clients of a process that forks",
    "dlog/blocking/deadline.py": "how long blocking callers may wait",
    "dlog/blocking/loop_thread.py": "the thread that runs the loop under blocking callers",
    "dlog/blocking/future_waiters.py": "what the standard library needs of a future",
    "dlog/blocking/pending.py": "where blocking callers wait for that thread",
    "dlog/blocking/crossing.py": "the queue between them and it",
    "dlog/blocking/reader.py": "which of several blocking callers opens the next batch",
    "dlog/blocking/producer.py": "what several blocking callers have left out of a producer's sequences",
    "dlog/local/embedded.py": "the directory of an embedded cluster",
    "dlog/local/signalling.py": "signals to child processes",
    "dlog/local/supervisor.py": "its bookie processes",
    "dlog/local/directory_lock.py": "who may run a cluster in the directory",
    "dlog/local/child.py": "a process about to become a bookie",
    "dlog/cli/": "the terminal",
    "dlog/demo/": "a program that starts and kills processes",
    "dlog/testing/runner.py": "the terminal",
    "bookie_server/control/server.py": "a Unix socket of the machine",
    "bookie_server/tools/": "the terminal",
    "bookie_server/__main__.py": "the process",
    "spark_connector/": "runs in Spark's own processes",
}


Modules = list[tuple[str, Path, ast.Module]]
TestModules = list[tuple[Path, ast.Module]]


@pytest.fixture(scope="module")
def modules() -> Modules:
    """Of the packages. Parsed only in the process that needs them: the trees slow down every garbage collection."""
    return list(_modules())


@pytest.fixture(scope="module")
def modules_of_tests() -> TestModules:
    return [
        (path, ast.parse(path.read_text("utf-8")))
        for path in tracked_files()
        if path.is_relative_to(ROOT / "tests") and path.suffix == ".py" and path.exists()
    ]


def _modules() -> Iterator[tuple[str, Path, ast.Module]]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if path.name.endswith("_pb2.py"):
                continue
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            yield name, path, ast.parse(path.read_text("utf-8"))


def imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every imported module, in functions too; one imported only for its types does not count."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: write the whole module name"
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from imports(node)  # an expression holds no import


def within(name: str, prefixes: tuple[str, ...]) -> bool:
    return any(name == prefix or name.startswith(prefix + ".") for prefix in prefixes)


def ours(name: str) -> bool:
    return within(name, PACKAGES)


def test_imports_point_one_way(modules: Modules) -> None:
    """spark_connector → dlog → ledger ← bookie_server, and nothing of ours imports tests or benchmarks."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for name, path, tree in modules
        for line, target in imports(tree)
        if within(target, ("tests", "benchmarks"))
        or (ours(target) and not within(target, MAY_IMPORT[importer_of(name)]))
    ]
    assert wrong == []


def importer_of(name: str) -> str:
    """The entry of MAY_IMPORT that holds for a module: the longest that it lies in."""
    return max((entry for entry in MAY_IMPORT if within(name, (entry,))), key=len)


def test_only_programs_use_the_terminal(modules: Modules) -> None:
    """What a library prints, its caller cannot redirect: both shared modules belong to the command lines."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for name, path, tree in modules
        if not within(name, (*PROGRAMS, *TERMINAL))
        for line, target in imports(tree)
        if within(target, TERMINAL)
    ]
    assert wrong == []


def test_nothing_knows_the_simulator(modules: Modules) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for name, path, tree in modules
        if not within(name, ("dlog.testing",))
        for line, target in imports(tree)
        if within(target, ("dlog.testing",))
    ]
    assert wrong == []


def test_lower_layers_do_not_know_the_upper_ones(modules: Modules) -> None:
    """Values, cores, codecs and drivers import only what lies beneath them."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for name, path, tree in modules
        for layer, allowed in LOWER_LAYERS.items()
        if within(name, (layer,))
        for line, target in imports(tree)
        if ours(target) and not within(target, allowed)
    ]
    assert wrong == []


def test_cores_do_no_input_or_output(modules: Modules) -> None:
    """A protocol decision can be replayed from a seed only if nothing in it waits, looks up or guesses."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for _, path, tree in modules
        if path.parent.name in ("core", "format", "wire")
        for line, target in imports(tree)
        if target.partition(".")[0] in IMPURE and target != "random.Random"
    ]
    assert wrong == []


def test_clocks_chance_threads_and_files_have_owners(modules: Modules) -> None:
    """Elsewhere they come in as arguments, so that the simulator can hand in its own."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for _, path, tree in modules
        if not path.relative_to(ROOT).as_posix().startswith(tuple(OWNERS))
        for line, target in imports(tree)
        if target.partition(".")[0] in SEAM and target != "random.Random"
    ]
    assert wrong == []


def test_tasks_in_a_programs_loop_begin_after_the_call_that_makes_them(modules: Modules) -> None:
    """`ledger/tasks.py` says why. What has a loop of its own is free, and so is `asyncio.gather`, which is awaited."""
    own_loops = ("dlog.blocking", "dlog.cli", "dlog.demo", "dlog.testing", "ledger.tasks")
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.func.attr}"
        for name, path, tree in modules
        if within(name, ("ledger", "dlog")) and not within(name, own_loops)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("create_task", "ensure_future")
    ]
    assert [each for each in wrong if not each.startswith("ledger/repair/autorecovery.py")] == []


def test_tests_import_from_the_tests_only_helpers_and_planted_bugs(modules_of_tests: TestModules) -> None:
    """Helpers have one place, and each name imported from it is there."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for path, tree in modules_of_tests
        for line, target in imports(tree)
        if within(target, ("tests",))
        and not (within(target, ("tests.helpers", "tests.simulation.mutations")) and is_defined(target))
    ]
    assert wrong == []


@cache
def is_defined(target: str) -> bool:
    """Whether it is a module or a name in one."""
    module, _, name = target.rpartition(".")
    if (file := ROOT / target.replace(".", "/")).with_suffix(".py").exists() or file.is_dir():
        return True
    file = (ROOT / module.replace(".", "/")).with_suffix(".py")
    return file.exists() and re.search(rf"\b{name}\b", file.read_text("utf-8")) is not None


def test_helpers_have_one_place(modules_of_tests: TestModules) -> None:
    """Every other module below `tests` is a test, a conftest.py, or planted bugs."""
    wrong = [
        str(path.relative_to(ROOT))
        for path, _ in modules_of_tests
        if not path.is_relative_to(ROOT / "tests" / "helpers")
        and not path.is_relative_to(ROOT / "tests" / "simulation" / "mutations")
        and not re.fullmatch(r"test_\w+|conftest|__init__", path.stem)
    ]
    assert wrong == []


def test_tests_do_not_import_benchmarks(modules_of_tests: TestModules) -> None:
    """Except their own tests and the helpers of those. What both need is in tests/helpers."""
    own = [ROOT / "tests" / room / "benchmarks" for room in ("unit", "integration", "helpers")]
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for path, tree in modules_of_tests
        if not any(path.is_relative_to(room) for room in own)
        for line, target in imports(tree)
        if within(target, ("benchmarks",))
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ["dlog", "dlog.testing", "ledger", "spark_connector"])
def test_public_names_are_listed(package: str, modules: Modules) -> None:
    """A package's `__init__` only names what others own, and `__all__` lists each of it."""
    (tree,) = [tree for name, _, tree in modules if name == package]
    named = [
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and within(node.module or "", PACKAGES)
        for alias in node.names
    ]
    module = importlib.import_module(package)
    assert sorted(module.__all__) == sorted(set(named))
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_no_folder_has_more_modules_than_one_sees_at_a_glance(modules: Modules) -> None:
    """One that needs more is split by idea; one that no longer does leaves the list."""
    counts = Counter(
        path.parent.relative_to(ROOT).as_posix() for _, path, _ in modules if path.name != "__init__.py"
    )
    assert {folder for folder, count in counts.items() if count > MODULES_MAX} == LARGER_FOLDERS


def test_every_module_has_a_docstring(modules: Modules) -> None:
    missing = [
        str(path.relative_to(ROOT)) for _, path, tree in modules if tree.body and not ast.get_docstring(tree)
    ]
    assert missing == []


def test_no_function_is_longer_than_a_screen(modules: Modules) -> None:
    long = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for _, path, tree in modules
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > 60
    ]
    assert long == []


def test_no_path_of_one_machine_is_written_down() -> None:
    """Home directories, this checkout's place and this interpreter's have no business in tracked files."""
    # A place as short as /dlog would be found in metadata paths; /usr is everybody's.
    places = {str(place) for place in (ROOT, Path(sys.prefix), Path(sys.base_prefix)) if len(place.parts) > 2}
    pattern = re.compile("|".join(["/home/[a-z]", "/Users/[a-z]", *map(re.escape, places - {"/usr/local"})]))
    wrong = []
    for path in tracked_files():
        if path.is_file() and path.suffix not in (".gz", ".png"):
            text = path.read_text("utf-8", errors="replace")
            wrong += [f"{path.relative_to(ROOT)}: {found}" for found in pattern.findall(text)]
    assert wrong == []
