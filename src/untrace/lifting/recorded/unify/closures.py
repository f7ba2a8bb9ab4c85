"""Nested functions that do what a function of the module does, to values around them.

A method that is called, and passed to a transformation as well, is a function of the
module and one inside of another, which closes over the object. The inner one becomes the
other with the first arguments bound: `dynamics = functools.partial(model_dynamics, model)`.
"""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from untrace.lifting.printing import Function
from untrace.lifting.recorded.unify.names import (
    body_of,
    has_special,
    names_of_parameters,
)
from untrace.optional import gives, optional
from untrace.syntax.parsed import Parsed, parsed

MIN_STATEMENTS = 2
"""What an inner function has at least that is worth another one's name."""


@optional(gives(None))
def bind_closures(
    functions: Sequence[Function], main: Function, partial: Callable[[], str]
) -> None:
    """Let inner functions be those of the module, with what they close over bound.

    Args:
      functions: The functions of the module but for the main one.
      main: The main one.
      partial: Imports `functools.partial`; returns what it is called then.
    """
    outer = [one for one in functions if _is_plain(one)]
    for function in [*functions, main]:
        _bind_in(function, [one for one in outer if one is not function], partial)


def _is_plain(function: Function) -> bool:
    """Whether a function is nothing but its parameters, without defaults, and its body."""
    is_bare = not (function.decorators or function.after)
    return is_bare and not has_special(function)


def _bind_in(
    function: Function, outer: Sequence[Function], partial: Callable[[], str]
) -> None:
    """Let the inner functions of a function be others of the module, where they can."""
    if not any(line.lstrip().startswith("def ") for line in function.lines):
        return
    read = parsed("\n".join(function.lines))
    counts = Counter([*read.bound(), *names_of_parameters(function)])
    for node in read.nodes:
        if not isinstance(node, ast.FunctionDef) or node.decorator_list:
            continue
        for other in outer:
            if other.name in counts:  # a variable here
                continue
            bound = _bound(node, other, counts)
            if bound and all(_is_known(name, node, function, read) for name in bound):
                text = f"{node.name} = {partial()}({', '.join([other.name, *bound])})"
                _put(text, node, function)
                _bind_in(function, outer, partial)
                return


def _put(text: str, node: ast.FunctionDef, function: Function) -> None:
    """Write a statement in place of an inner function and the blank lines around it."""
    lines = "\n".join(function.lines).split("\n")
    first, last = node.lineno - 1, node.end_lineno or node.lineno
    while first > 0 and not lines[first - 1]:
        first -= 1
    while last < len(lines) and not lines[last]:
        last += 1
    indentation = " " * node.col_offset
    lines[first:last] = [f"{indentation}{text}"]
    function.lines = lines


def _is_known(
    name: str, node: ast.FunctionDef, function: Function, read: Parsed
) -> bool:
    """Whether a variable has its value before an inner function is defined."""
    if name in names_of_parameters(function):
        return True
    start, _ = read.span(node)
    stores = [
        read.span(one)[0]
        for one in read.names()
        if one.id == name and isinstance(one.ctx, ast.Store)
    ]
    for around in read.around(node):
        if isinstance(around, ast.FunctionDef):
            stores += [read.span(a)[0] for a in around.args.args if a.arg == name]
    return any(place < start for place in stores)


def _bound(
    node: ast.FunctionDef, other: Function, counts: Mapping[str, int]
) -> list[str]:
    """Return what an inner function closes over, as the first arguments of another one.

    Returns:
      The variables; none if it does something else, or if they may change.
    """
    mine = _parameters(node)
    theirs = names_of_parameters(other)
    body = body_of(other)
    statements = [n for n in body.nodes if isinstance(body.parent(n), ast.Module)]
    n_bound = len(theirs) - len(mine or ())
    if mine is None or n_bound < 1 or len(node.body) != len(statements):
        return []
    if len(statements) < MIN_STATEMENTS:
        return []
    local = {*theirs, *body.bound()}
    names: dict[str, str] = {}
    pairs = itertools.zip_longest(_consists_of(statements), _consists_of(node.body))
    for known, one in pairs:
        if isinstance(one, _Variable) and isinstance(known, _Variable):
            known = names.setdefault(known, one) if known in local else known
        if one != known:
            return []
    bound = [names.get(name, "") for name in theirs[:n_bound]]
    if len(set(names.values())) < len(names) or not all(bound):
        return []
    is_same = [
        names.get(name, one) for name, one in zip(theirs[n_bound:], mine)
    ] == mine
    return bound if is_same and all(counts[name] == 1 for name in bound) else []


def _parameters(node: ast.FunctionDef) -> list[str] | None:
    """Return the parameters of a function; None if it has others than plain ones."""
    args = node.args
    others = (args.vararg, args.kwarg, *args.kwonlyargs, *args.posonlyargs)
    is_plain = not (any(others) or args.defaults)
    return [one.arg for one in args.args] if is_plain else None


class _Variable(str):
    """The name of a variable."""


def _consists_of(tree: object, is_name: bool = False) -> Iterator[object]:
    """Yield what a tree, or a list of trees, consists of, in order."""
    if isinstance(tree, ast.AST):
        for field, value in ast.iter_fields(tree):
            yield from _consists_of(value, field == _NAMES.get(type(tree)))
    elif isinstance(tree, list):
        for one in tree:
            yield from _consists_of(one)
    elif is_name:
        yield _Variable(tree)
        return
    yield type(tree), None if isinstance(tree, (ast.AST, list)) else tree


_NAMES: Mapping[type[ast.AST], str] = {
    ast.Name: "id",
    ast.arg: "arg",
    ast.FunctionDef: "name",
}
"""Where the nodes that name variables have these names."""
