"""Which variables a function of the source has, and what each is assigned."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from untrace.recovery.expressions import source_tree
from untrace.recovery.record import WHOLE, Bounds


def size_taken(node: ast.expr) -> tuple[ast.expr, int] | None:
    """Return the array and the axis in `x.shape[-1]` or `len(x)`; None for all else.

    The array is a variable, or a part of what one holds: `cache.k`, `params["w"]`.
    Tensors have `x.size(-1)`, too.
    """
    array: ast.expr | None
    match node:
        case ast.Call(ast.Name("len"), [array], []):
            return (array, 0) if variable_of(array) else None
        case ast.Call(ast.Attribute(array, "size"), [index], []):
            pass
        case ast.Subscript(shape, index):
            array = shaped(shape)
        case _:
            return None
    if array is None:
        return None
    sign = 1
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub):
        sign, index = -1, index.operand
    if not isinstance(index, ast.Constant) or type(index.value) is not int:
        return None
    return (array, sign * index.value) if variable_of(array) else None


def shaped(node: ast.expr) -> ast.expr | None:
    """Return the array in `x.shape`, or in a tensor's `x.size()`; None for all else."""
    match node:
        case ast.Attribute(array, "shape") | ast.Call(
            ast.Attribute(array, "size"), [], []
        ):
            return array
        case _:
            return None


def variable_of(node: ast.expr) -> str:
    """Return the variable that an expression is a part of what it holds; "" if it is none."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant):
            return ""
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


Position = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Assigned:
    """What a variable is assigned, in one place only.

    Attributes:
      value: What; of what is unpacked, the item that it takes.
      names: All variables that the items are unpacked to.
      part: The bounds of the part of a shape that is unpacked, `x.shape[1:]`.
    """

    value: ast.expr
    names: tuple[str, ...] = ()
    part: Bounds = WHOLE


@dataclass(frozen=True, slots=True)
class Variables:
    """The variables of a function.

    Attributes:
      stores: Where each is given a value.
      assigned: What those are given that are given a value only once.
      every: What each is assigned, by where.
      looping: Where loops give variables a value.
      turning: Where a loop gives its own variables the next one.
      outer: Those of the function around.
    """

    stores: dict[str, list[Position]]
    assigned: dict[str, Assigned]
    every: dict[str, dict[Position, Assigned]]
    looping: frozenset[Position]
    turning: frozenset[Position]
    outer: Variables | None = None

    def latest(self, name: str, line: int) -> tuple[Assigned, Position] | None:
        """What a variable was assigned last before a line, and where, if that is plain.

        A loop may give it another value behind the line.
        """
        stores = self.stores.get(name, [])
        if name in self.assigned:
            return self.assigned[name], stores[0]
        before = max([one for one in stores if one < (line, 0)], default=(0, 0))
        found = self.every.get(name, {}).get(before)
        is_again = any(one > before and one in self.looping for one in stores)
        if found is None or (is_again and before not in self.looping):
            return None
        return found, before

    def owner(self, name: str) -> Variables | None:
        """The variables, these or those of a function around, that one is among."""
        found: Variables | None = self
        while found is not None and name not in found.stores:
            found = found.outer
        return found


@functools.lru_cache(maxsize=256)
def variables_around(filename: str) -> dict[ast.expr, Variables]:
    """Return, for expressions in functions, the variables there."""
    found: dict[ast.expr, Variables] = {}
    _collect(source_tree(filename) or ast.Module([], []), None, found)
    return found


def _collect(
    around: ast.AST, variables: Variables | None, found: dict[ast.expr, Variables]
) -> None:
    for node in _own(around):
        if isinstance(node, ast.expr) and variables is not None:
            found[node] = variables
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _collect(node, _variables(node, variables), found)


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """Yield what belongs to a function, without what belongs to functions in it."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            waiting.extend(ast.iter_child_nodes(node))


def _variables(function: ast.AST, outer: Variables | None) -> Variables:
    stores: dict[str, list[Position]] = {}
    every: dict[str, dict[Position, Assigned]] = {}
    own = list(_own(function))
    for node in own:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stores.setdefault(node.id, []).append(position_of(node))
        elif isinstance(node, ast.arg):
            stores.setdefault(node.arg, []).append(position_of(node))
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            for target, one in _targets(node.targets[0], node.value):
                every.setdefault(target.id, {})[position_of(target)] = one
    once = {
        name: one
        for name, known in every.items()
        if len(stores[name]) == 1
        for one in known.values()
    }
    loops = [n for n in own if isinstance(n, (ast.For, ast.While))]
    inside = itertools.chain.from_iterable(map(ast.walk, loops))
    heads = [n.target for n in loops if isinstance(n, ast.For)]
    turning = itertools.chain.from_iterable(map(ast.walk, heads))
    among = _names_among(inside), _names_among(turning)
    return Variables(stores, once, every, *among, outer)


def _names_among(nodes: Iterable[ast.AST]) -> frozenset[Position]:
    return frozenset(position_of(n) for n in nodes if isinstance(n, ast.Name))


def tuple_held(node: ast.expr, known: Variables | None) -> ast.expr:
    """Return the display, or the sum of tuples, that a variable was assigned, if plain.

    Plain is one whose names have one value each.
    """
    if not isinstance(node, ast.Name) or known is None:
        return node
    found = known.assigned.get(node.id)
    if found is None or found.names or not is_tuple(found.value):
        return node
    names = {one.id for one in ast.walk(found.value) if isinstance(one, ast.Name)}
    is_plain = all(len(known.stores.get(name, ())) <= 1 for name in names)
    return found.value if is_plain else node


def is_tuple(node: ast.expr) -> bool:
    """Whether an expression is a display, or a sum with one."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return is_tuple(node.left) or is_tuple(node.right)
    return isinstance(node, (ast.Tuple, ast.List))


def position_of(node: ast.expr | ast.arg) -> Position:
    """The line and the column of a node."""
    return node.lineno, node.col_offset


def _targets(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.Name, Assigned]]:
    """Yield the variables of an assignment, with what each takes; items of a shape, too."""
    if isinstance(target, ast.Name):
        yield target, Assigned(value)
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        is_one_by_one = len(target.elts) == len(value.elts)
        if is_one_by_one and not any(map(_is_starred, [*target.elts, *value.elts])):
            for one, item in zip(target.elts, value.elts):
                yield from _targets(one, item)
    elif isinstance(target, ast.Tuple) and (taken := _sizes_taken(value)) is not None:
        shape, part = taken
        variables = [one for one in target.elts if isinstance(one, ast.Name)]
        if len(variables) == len(target.elts):
            names = tuple([one.id for one in variables])
            for axis, one in enumerate(variables, part[0] or 0):
                yield one, Assigned(_size(shape, axis), names, part)
        elif part == WHOLE:
            yield from _sizes_beside_star(target.elts, shape)


def _sizes_beside_star(
    targets: Sequence[ast.expr], shape: ast.expr
) -> Iterator[tuple[ast.Name, Assigned]]:
    """Yield what the variables in `*lead, d = x.shape` take: `x.shape[:-1]`, a size."""
    before = list(itertools.takewhile(lambda one: not _is_starred(one), targets))
    n_before, n_behind = len(before), len(targets) - len(before) - 1
    axes = [*range(n_before), None, *range(-n_behind, 0)]
    for one, axis in zip(targets, axes):
        if isinstance(one, ast.Name) and axis is not None:
            yield one, Assigned(_size(shape, axis))
        elif isinstance(one, ast.Starred) and isinstance(one.value, ast.Name):
            ends = [ast.Constant(n) if n else None for n in (n_before, -n_behind)]
            part = ast.Subscript(shape, ast.Slice(*ends))
            yield one.value, Assigned(ast.copy_location(part, shape))


def _size(shape: ast.expr, axis: int) -> ast.expr:
    return ast.copy_location(ast.Subscript(shape, ast.Constant(axis)), shape)


def _is_starred(node: ast.expr) -> bool:
    return isinstance(node, ast.Starred)


def _sizes_taken(node: ast.expr) -> tuple[ast.expr, Bounds] | None:
    """Return the shape, and what is taken of it, of `x.shape` or `x.shape[1:]`."""
    part = WHOLE
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        try:
            part = bounds(node.slice)
        except ValueError:
            return None
        node = node.value
    return (node, part) if shaped(node) is not None else None


def bounds(node: ast.Slice) -> Bounds:
    """Return the bounds of a slice that stand in the source.

    Raises:
      ValueError: If one is an expression, or there is a step.
    """
    given = (node.lower, node.upper, node.step)
    lower, upper, step = (ast.literal_eval(one) if one else None for one in given)
    if step is not None or {type(lower), type(upper)} - {int, type(None)}:
        raise ValueError
    return lower, upper
