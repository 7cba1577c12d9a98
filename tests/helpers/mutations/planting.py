"""Puts a bug into production code, and takes it out again.

An edit names a function and replaces some of its text. What is compiled from the new text takes the place of the
function's code, so whoever has imported the function runs the wrong one too. An edit whose function is gone, or
whose text is not there exactly once, is an error: a bug that silently is not planted would prove anything.
"""

from __future__ import annotations
import __future__

import builtins
import dis
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any


@dataclass(frozen=True, slots=True)
class Edit:
    """In `target` (module:name or module:Class.name) every `old`, of which there is one, becomes its `new`.

    Texts of several lines are indented as if the function stood at the left margin.
    """

    target: str
    changes: tuple[tuple[str, str], ...]


def edit(target: str, *changes: tuple[str, str]) -> Edit:
    return Edit(target, changes)


class DoesNotApplyError(Exception):
    """Production code has changed: the bug has to be planned anew."""


@contextmanager
def planted(edits: Iterable[Edit]) -> Iterator[None]:
    """Production code with these bugs, as long as the block lasts."""
    changes: dict[str, tuple[tuple[str, str], ...]] = {}
    for each in edits:
        changes[each.target] = (*changes.get(each.target, ()), *each.changes)
    with ExitStack() as stack:
        for target, its_changes in changes.items():
            stack.enter_context(_planted(Edit(target, its_changes)))
        yield


@contextmanager
def _planted(each: Edit) -> Iterator[None]:
    function = _function(each.target)
    sound = function.__code__
    function.__code__ = _wrong_code(each, function)
    try:
        yield
    finally:
        function.__code__ = sound


def _function(target: str) -> FunctionType:
    module, _, path = target.partition(":")
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        found = vars(found).get(name)
        if found is None:
            raise DoesNotApplyError(f"{target} is gone")
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    if not isinstance(found, FunctionType):
        raise DoesNotApplyError(f"{target} is no function")
    return found


def _wrong_code(each: Edit, function: FunctionType) -> CodeType:
    lines, first_line = inspect.getsourcelines(function)
    source = textwrap.dedent("".join(lines))
    for old, new in each.changes:
        if source.count(old) != 1:
            raise DoesNotApplyError(f"{each.target} holds {source.count(old)} times, not once:\n{old}")
        source = source.replace(old, new)
    wrong = _compiled(source, first_line, function)
    sound = function.__code__
    if _signature(wrong) != _signature(sound) or wrong.co_freevars != sound.co_freevars:
        raise DoesNotApplyError(
            f"{each.target} takes other arguments, or names of another function, than before"
        )
    if unknown := _unknown_names(wrong, function):
        raise DoesNotApplyError(f"{each.target} would use names that there are not: {unknown}")
    return wrong.replace(co_qualname=sound.co_qualname)


def _unknown_names(code: CodeType, function: FunctionType) -> list[str]:
    """Globals, and members of `self`, that do not exist. A bug that fails on one is found, and says nothing."""
    module = inspect.getsource(inspect.getmodule(function) or function)
    unknown, before = list[str](), ""
    for each in dis.get_instructions(code):
        if each.opname == "LOAD_GLOBAL":
            known = each.argval in function.__globals__ or hasattr(builtins, each.argval)
        else:
            is_member = each.opname in ("LOAD_ATTR", "LOAD_METHOD") and before == "self"
            known = not is_member or re.search(rf"\b{each.argval}\b", module) is not None
        if not known:
            unknown.append(each.argval)
        before = each.argval if each.opname in ("LOAD_FAST", "LOAD_DEREF") else ""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return [*unknown, *(name for each in inner for name in _unknown_names(each, function))]


def _compiled(source: str, first_line: int, function: FunctionType) -> CodeType:
    # As many empty lines before it as in its file, so that tracebacks and timelines name the right place.
    text = "\n" * (first_line - 1) + source
    flags = __future__.annotations.compiler_flag
    module = compile(text, function.__code__.co_filename, "exec", flags, dont_inherit=True)
    [code] = [
        each for each in module.co_consts if isinstance(each, CodeType) and each.co_name == function.__name__
    ]
    return code


def _signature(code: CodeType) -> tuple[Any, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    kinds = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_COROUTINE)
    return code.co_argcount, code.co_kwonlyargcount, code.co_varnames[:count], kinds
