"""What expressions of a file are for: the target that one is assigned to, or a return.

A traceback says which expression was being evaluated, by its place in the file. If that
is the whole value of an assignment, the result has the name of the target; if it is what
a function returns, the caller's expression says more.
"""

from __future__ import annotations

import ast
import functools
import linecache
from collections.abc import Iterator
from dataclasses import dataclass

from untrace.optional import optional
from untrace.parsing import parse

Place = tuple[int, int, int, int]
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
MAX_FILE_LINES = 20_000


@dataclass(frozen=True, slots=True)
class Role:
    """What an expression is for.

    Attributes:
      targets: Names that it is assigned to: one, or one for each item ("" for none).
      is_unpacked: Whether each target gets an item of the value.
      is_returned: Whether the function then returns it.
      item: Its position, if it is one item of what is returned or assigned.
    """

    targets: tuple[str, ...] = ()
    is_unpacked: bool = False
    is_returned: bool = False
    item: int | None = None


@functools.lru_cache(maxsize=256)
def roles(file: str) -> dict[Place, Role]:
    """Find the roles of the expressions of a file; none if it cannot be read."""
    module = _module(file)
    found: dict[Place, Role] = {}
    for function in [module, *_functions(module)]:
        returned = _returned_names(function)
        for place, role in _roles_in(function, returned):
            found[place] = role
    return found


@functools.lru_cache(maxsize=256)
def _starts(file: str) -> dict[int, int]:
    """Tell for each line of a file where its simple statement starts."""
    return {
        line: node.lineno
        for node in ast.walk(_module(file))
        if isinstance(node, ast.stmt) and not hasattr(node, "body")
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def _module(file: str) -> ast.Module:
    """Parse a file; an empty module if it cannot be read."""
    lines = linecache.getlines(file)
    empty = ast.Module([], [])
    if not lines or len(lines) > MAX_FILE_LINES:
        return empty
    try:
        return parse("".join(lines))
    except (SyntaxError, ValueError):
        return empty


@optional(lambda file, line: line)
def statement_start(file: str, line: int) -> int:
    """Return the line in which the statement starts that a line belongs to."""
    return _starts(file).get(line, line)


def _functions(module: ast.Module) -> list[FunctionNode]:
    return [node for node in ast.walk(module) if isinstance(node, FunctionNode)]


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """List the nodes of a function, without those of functions inside it."""
    stack = list(ast.iter_child_nodes(function))
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, FunctionNode):
            stack += ast.iter_child_nodes(node)


def _returned_names(function: ast.AST) -> dict[str, int | None]:
    """List the variables that a function returns, and their positions in a tuple."""
    returned: dict[str, int | None] = {}
    for node in _own_nodes(function):
        if not isinstance(node, ast.Return):
            continue
        if isinstance(node.value, ast.Name):
            returned[node.value.id] = None
        elif isinstance(node.value, ast.Tuple):
            for i, item in enumerate(node.value.elts):
                if isinstance(item, ast.Name):
                    returned[item.id] = i
    return returned


def _roles_in(
    function: ast.AST, returned: dict[str, int | None]
) -> Iterator[tuple[Place, Role]]:
    if isinstance(function, ast.Lambda):
        yield from _returns(function.body)
    for node in _own_nodes(function):
        if isinstance(node, ast.Return) and node.value is not None:
            yield from _returns(node.value)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            yield from _assigns(node.targets[0], node.value, returned)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            yield from _assigns(node.target, node.value, returned)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield _place(node), _assigned(node.target.id, returned)


def _returns(value: ast.expr) -> Iterator[tuple[Place, Role]]:
    yield _place(value), Role(is_returned=True)
    if isinstance(value, ast.Tuple):
        for i, item in enumerate(value.elts):
            yield _place(item), Role(is_returned=True, item=i)


def _assigns(
    target: ast.expr, value: ast.expr, returned: dict[str, int | None]
) -> Iterator[tuple[Place, Role]]:
    if isinstance(target, ast.Name):
        yield _place(value), _assigned(target.id, returned)
    elif isinstance(target, ast.Tuple):
        names = tuple(t.id if isinstance(t, ast.Name) else "" for t in target.elts)
        yield _place(value), Role(names, is_unpacked=True)
        # An array is taken apart at the place of the targets.
        yield _place(target), Role(names, is_unpacked=True)
        if isinstance(value, ast.Tuple):
            for name, item in zip(names, value.elts):
                yield _place(item), _assigned(name, returned)
    elif isinstance(target, ast.Attribute):
        yield _place(value), Role((target.attr,))


def _assigned(name: str, returned: dict[str, int | None]) -> Role:
    return Role((name,), is_returned=name in returned, item=returned.get(name))


def _place(node: ast.expr | ast.stmt) -> Place:
    end_line, end_column = node.end_lineno or 0, node.end_col_offset or 0
    return node.lineno, node.col_offset, end_line, end_column
