"""Where a function can be changed by one operator, and the change.

< ↔ <=, > ↔ >=, == ↔ !=, is ↔ is not, in ↔ not in; + ↔ -, << ↔ >>, & ↔ |; an integer and the next one; and ↔ or;
`not` and `await` removed; a call that is a statement removed; True ↔ False; a returned value replaced by None;
min ↔ max. Not touched: annotations, defaults, decorators, assertions, and what an error or a text says.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_CALLS = {"min": "max", "max": "min"}
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Site:
    """One change of one function."""

    function: str
    """Qualified name in its module."""
    line: int
    old: str
    new: str
    number: int
    """Distinguishes what is changed alike twice in one function."""
    module: ast.Module
    node: ast.expr | ast.stmt
    """What is changed in the module."""
    changed: ast.expr | ast.stmt

    @property
    def tree(self) -> ast.Module:
        """A copy of the module with the change; to make it takes longer than to find the site."""
        memo = {id(self.node): ast.copy_location(self.changed, self.node)}
        return ast.fix_missing_locations(copy.deepcopy(self.module, memo))

    @property
    def key(self) -> str:
        repeated = f" #{self.number}" if self.number else ""
        return f"{self.function}: {self.old} → {self.new}{repeated}"


def sites(source: str) -> Iterator[Site]:
    """Every change of every function of a module, nested functions as part of the outer one."""
    module = ast.parse(source)
    for function, name in functions(module):
        seen: dict[tuple[str, str], int] = {}
        for node in _nodes(function):
            for changed in _changes(node):
                old, new = ast.unparse(node), ast.unparse(changed)
                number = seen.get((old, new), 0)
                seen[old, new] = number + 1
                yield Site(name, node.lineno, old, new, number, module, node, changed)


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[_Function, str]]:
    """Functions and methods with their qualified names; those inside a function are part of it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function):
            yield child, prefix + child.name
        elif isinstance(child, ast.ClassDef):
            yield from functions(child, f"{prefix}{child.name}.")


def _nodes(function: _Function) -> Iterator[ast.expr | ast.stmt]:
    pending: list[ast.AST] = list(reversed(function.body))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.arguments):
            continue
        if isinstance(node, ast.expr | ast.stmt):
            yield node
        skipped = _annotations(node)
        pending += [each for each in reversed(list(ast.iter_child_nodes(node))) if each not in skipped]


def _annotations(node: ast.AST) -> list[ast.AST | None]:
    if isinstance(node, ast.AnnAssign):
        return [node.annotation]
    if isinstance(node, _Function):
        return [node.returns, *node.decorator_list]
    if isinstance(node, ast.match_case):
        return [node.pattern]
    return []


def _changes(node: ast.expr | ast.stmt) -> Iterator[ast.expr | ast.stmt]:
    match node:
        case ast.Compare():
            for index, operator in enumerate(node.ops):
                if type(operator) in _COMPARISONS:
                    changed = copy.deepcopy(node)
                    changed.ops[index] = _COMPARISONS[type(operator)]()
                    yield changed
        case ast.BinOp() | ast.AugAssign() if type(node.op) in _ARITHMETIC:
            other = copy.deepcopy(node)
            other.op = _ARITHMETIC[type(node.op)]()
            yield other
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.BoolOp():
            either = copy.deepcopy(node)
            either.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield either
        case ast.UnaryOp(op=ast.Not(), operand=operand) | ast.Await(value=operand):
            yield copy.deepcopy(operand)
        case ast.Expr(value=ast.Call() | ast.Await()):
            yield ast.Pass()
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Call(func=ast.Name(id=name)) if name in _CALLS:
            called = copy.deepcopy(node)
            called.func = ast.Name(_CALLS[name], ast.Load())
            yield called
        case _:
            return
