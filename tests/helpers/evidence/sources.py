"""Which code a result exercises: a fingerprint of all modules that can take part, comments and docstrings left out."""

from __future__ import annotations

import ast
import hashlib
import io
import subprocess
import tarfile
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from tests.helpers.repository import ROOT

Tree = Mapping[str, str]
"""The text of each module by its path below the root of the repository."""

PACKAGES = ("dlog", "ledger", "bookie_server", "tests")
ROOTS: dict[str, tuple[str, ...]] = {
    "seeds": ("dlog.testing.swarm.drawing", "dlog.testing.swarm.run"),
    "interruptions": ("tests.helpers.interruptions.runner",),
    "images": ("tests.helpers.crash.images",),
    "stories": ("tests.helpers.crash.stories.running",),
    "nemesis": ("tests.helpers.nemesis.*", "bookie_server.*", "ledger.metadata.*", "dlog.client"),
    "fuzz": ("tests.helpers.fuzz.targets.*",),
    "mutants": ("dlog.core.*", "ledger.core.*"),
}
"""Results, and the modules at which what they exercise begins. Imports at the top of a module are followed; a module
that is imported inside a function and takes part is a root of its own."""
_CHARACTERS = 12


@cache
def tree_of(commit: str = "") -> Tree:
    """The modules of a commit, or those of the working tree. CalledProcessError: git does not know the commit."""
    if not commit:
        files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
        return {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in files}
    command = ["git", "archive", "--format=tar", commit, *PACKAGES]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        return {
            member.name: content.read().decode()
            for member in members
            if member.name.endswith(".py") and (content := members.extractfile(member)) is not None
        }


# ---- what takes part


def files_of(roots: Iterable[str], tree: Tree) -> dict[str, str]:
    """Path and text of every module that these modules import, directly or not, sorted; their own included."""
    found: dict[str, str] = {}
    pending = [path for root in roots for path in _paths(root, tree)]
    while pending:
        path = pending.pop()
        if path not in found:
            found[path] = tree[path]
            pending += [path for module in _imports(tree[path], tree) for path in _paths(module, tree)]
    return dict(sorted(found.items()))


def _paths(module: str, tree: Tree) -> list[str]:
    """Of the module; for `package.*` of all modules in the package. LookupError: there is none."""
    name = module.removesuffix(".*").replace(".", "/")
    if module.endswith(".*"):
        found = [path for path in tree if path.startswith(f"{name}/")]
    else:
        found = [path for path in (f"{name}.py", f"{name}/__init__.py") if path in tree]
    if not found:
        raise LookupError(f"there is no module {module}")
    return found


def _imports(text: str, tree: Tree) -> Iterator[str]:
    for statement in _top_level(_parsed(text).body):
        if isinstance(statement, ast.Import):
            yield from (each.name for each in statement.names if _is_ours(each.name))
        elif isinstance(statement, ast.ImportFrom) and statement.module and _is_ours(statement.module):
            for each in statement.names:
                name = f"{statement.module}.{each.name}"
                path = name.replace(".", "/")
                is_module = f"{path}.py" in tree or f"{path}/__init__.py" in tree
                yield name if is_module else statement.module


def _top_level(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """What runs when the module is imported, without what only type checkers see."""
    for statement in body:
        if isinstance(statement, ast.If):
            test = statement.test
            if not (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"):
                yield from _top_level((*statement.body, *statement.orelse))
        elif isinstance(statement, ast.Try):
            handlers = [each for handler in statement.handlers for each in handler.body]
            yield from _top_level((*statement.body, *handlers, *statement.orelse))
        else:
            yield statement


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


# ---- fingerprints


@cache
def fingerprint(result: str, commit: str = "") -> str:
    """Of all that this result exercises. Equal fingerprints: the result would be the same."""
    return fingerprint_of(files_of(ROOTS[result], tree_of(commit)))


def changed_modules(result: str, since: str) -> list[str]:
    """Paths of modules that the result exercises and that differ from those of the commit, in more than words."""
    before, now = files_of(ROOTS[result], tree_of(since)), files_of(ROOTS[result], tree_of())
    return [
        path
        for path in sorted({*before, *now})
        if path not in before or path not in now or _code(before[path]) != _code(now[path])
    ]


def fingerprint_of(files: dict[str, str]) -> str:
    """Of these texts, by path."""
    whole = hashlib.sha256()
    for path, text in files.items():
        whole.update(f"{path}\0{_code(text)}\0".encode())
    return whole.hexdigest()[:_CHARACTERS]


@cache
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def _code(text: str) -> str:
    """The text without comments, docstrings and empty lines, so that rewording it changes nothing."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for first, last in _docstrings(_parsed(text)):
        for row in range(first, last + 1):
            lines[row - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


def _docstrings(node: ast.AST) -> Iterator[tuple[int, int]]:
    """First and last line of each string that stands by itself: of docstrings, and of what describes a field."""
    for child in ast.walk(node):
        if (
            isinstance(child, ast.Expr)
            and isinstance(child.value, ast.Constant)
            and isinstance(child.value.value, str)
        ):
            yield child.lineno, child.end_lineno or child.lineno
