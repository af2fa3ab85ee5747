"""Where a Python file can be changed by one small mistake, and the file with that mistake."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
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
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}


@dataclass(frozen=True)
class Site:
    """One mistake: its line, what it changes, and how many sites of its file come before."""

    line: int
    change: str
    index: int


def sites(source: str) -> list[Site]:
    """Every site of a file, in its order."""
    found = _changes(ast.parse(source))
    return [Site(line, change, index) for index, (line, change, _) in enumerate(found)]


def mutated(source: str, site: Site) -> str:
    """The file with the mistake of this site. Comments are lost, lines move."""
    tree = ast.parse(source)
    for index, (_, _, change) in enumerate(_changes(tree)):
        if index == site.index:
            change()
    return ast.unparse(tree)


Change = tuple[int, str, Callable[[], None]]


def _changes(tree: ast.Module) -> Iterator[Change]:
    skipped = set(_unreachable(tree))
    for node in ast.walk(tree):
        if id(node) not in skipped:
            yield from _changes_of(node)


def _unreachable(tree: ast.Module) -> Iterator[int]:
    """Nodes that no test can tell apart: annotations, docstrings, imports for types alone."""
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            parts.append(node)
        if isinstance(node, ast.AnnAssign | ast.arg):
            parts.append(node.annotation)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts.append(node.returns)
        for part in filter(None, parts):
            yield from (id(inner) for inner in ast.walk(part))


def _changes_of(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            if other := _COMPARISONS.get(type(operator)):
                change = f"{type(operator).__name__} to {other.__name__}"
                yield node.lineno, change, _setter(node.ops, place, other())
    elif isinstance(node, ast.BoolOp):
        other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        change = f"{type(node.op).__name__} to {type(other_op).__name__}"
        yield node.lineno, change, lambda: setattr(node, "op", other_op)
    elif isinstance(node, ast.BinOp) and (operation := _ARITHMETIC.get(type(node.op))):
        change = f"{type(node.op).__name__} to {operation.__name__}"
        yield node.lineno, change, lambda: setattr(node, "op", operation())
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        # `not x` becomes `not not x`.
        inner = ast.UnaryOp(ast.Not(), node.operand)
        yield node.lineno, "without not", lambda: setattr(node, "operand", inner)
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        value = node.value
        yield node.lineno, f"{value} to {not value}", lambda: setattr(node, "value", not value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        number = node.value
        yield node.lineno, f"{number} to {number + 1}", lambda: setattr(node, "value", number + 1)
    elif isinstance(node, ast.If | ast.IfExp):
        test = ast.UnaryOp(ast.Not(), node.test)
        yield node.test.lineno, "the condition inverted", lambda: setattr(node, "test", test)
    elif isinstance(node, ast.Return) and node.value is not None:
        is_none = isinstance(node.value, ast.Constant) and node.value.value is None
        if not is_none:
            none = ast.Constant(None)
            yield node.lineno, "returns None", lambda: setattr(node, "value", none)


def _setter(operators: list[ast.cmpop], place: int, other: ast.cmpop) -> Callable[[], None]:
    return lambda: operators.__setitem__(place, other)
