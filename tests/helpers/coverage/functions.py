"""The functions that production code defines, and those that a set of runs calls.

A function is named by its file and its qualified name. The methods of a protocol, whose body is `...` or raises
NotImplementedError, are no functions here, and neither are lambdas, comprehensions and the bodies of classes.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType

ROOT = Path(__file__).parents[3]
PACKAGES = ("dlog", "ledger", "bookie_server")
_NO_PART = "dlog/testing/"


def defined() -> frozenset[str]:
    """All functions of the packages."""
    found: set[str] = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            file = path.relative_to(ROOT).as_posix()
            if not file.startswith(_NO_PART):
                code = compile(path.read_text("utf-8"), str(path), "exec")
                found.update(f"{file}:{each.co_qualname}" for each in _functions(code))
    return frozenset(found)


def called_by(runs: Iterable[Callable[[], object]]) -> frozenset[str]:
    """The functions that the runs call, in this thread."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    for run in runs:
        sys.setprofile(note)
        try:
            run()
        finally:
            sys.setprofile(None)
    return frozenset(_named(codes))


def _named(codes: Iterable[CodeType]) -> Iterator[str]:
    for code in codes:
        path = Path(code.co_filename)
        if path.is_relative_to(ROOT):
            yield f"{path.relative_to(ROOT).as_posix()}:{code.co_qualname}"


def _functions(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            is_function = each.co_flags & inspect.CO_OPTIMIZED and not each.co_name.startswith("<")
            if is_function and not _is_declaration(each):
                yield each
            yield from _functions(each)


def _is_declaration(code: CodeType) -> bool:
    nothing_done = not code.co_names and not any(
        constant is not None and not isinstance(constant, str) for constant in code.co_consts
    )
    return code.co_names == ("NotImplementedError",) or (nothing_done and len(code.co_code) <= _SHORT)


_SHORT = 8
"""Bytes of code that do nothing but return None."""
