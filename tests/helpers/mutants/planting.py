"""Puts a changed function into the running process, for a child that ends with its tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from types import CodeType, FunctionType, ModuleType
from typing import Any


def plant(module: ModuleType, function: str, tree: ast.Module) -> None:
    """Everyone who has the function runs the changed one from now on."""
    target = function_of(module, function)
    assert module.__file__ is not None
    code = compile(tree, module.__file__, "exec", dont_inherit=True)
    [changed] = [
        each
        for each in _codes(code)
        if each.co_qualname == function and each.co_firstlineno == target.__code__.co_firstlineno
    ]
    target.__code__ = changed


def function_of(module: ModuleType, name: str) -> FunctionType:
    """LookupError: the name is no function that can be replaced (one of several under a property, for example)."""
    found: Any = module
    for part in name.split("."):
        found = vars(found).get(part)
    if isinstance(found, cached_property):
        found = found.func
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, classmethod | staticmethod):
        found = found.__func__
    found = getattr(found, "__wrapped__", found)
    if not isinstance(found, FunctionType):
        raise LookupError(f"{module.__name__}:{name} is no function")
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            yield from _codes(each)
