"""Documentation of the fields of a dataclass, for `help`: the strings below the fields, which Python drops.

They are read from the source when somebody asks for them, so an import costs nothing. A program without its source has
the documentation of the class alone.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


def with_field_docs(documented: type[T]) -> type[T]:
    """Class decorator, above `@dataclass`: `__doc__` also names the fields, their types, defaults and documentation."""
    text: object = _Documentation(documented.__doc__ or "")
    documented.__doc__ = text  # type: ignore[assignment]  # a descriptor, as a property is
    return documented


class _Documentation:
    """The value of `__doc__`, made when it is first read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._with_fields: str | None = None

    def __get__(self, instance: object, owner: type) -> str:
        if self._with_fields is None:
            lines = [inspect.cleandoc(self._text), *_fields(owner)]
            self._with_fields = "\n".join(lines)
        return self._with_fields


def _fields(documented: type) -> Iterator[str]:
    try:
        source = textwrap.dedent(inspect.getsource(documented))
    except (OSError, TypeError):
        return
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    yield "\nFields:"
    for field, below in zip(definition.body, [*definition.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            yield f"    {field.target.id}: {ast.unparse(field.annotation)}{_default(field.value)}"
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                yield textwrap.indent(inspect.cleandoc(str(below.value.value)), " " * 8)


def _default(value: ast.expr | None) -> str:
    if value is None:
        return ""
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        factories = [each.value for each in value.keywords if each.arg == "default_factory"]
        return f" = {ast.unparse(factories[0])}()" if factories and isinstance(factories[0], ast.Name) else ""
    return f" = {ast.unparse(value)}"
