"""Write operators, methods, indexing and `.at[]` updates of arrays."""

from __future__ import annotations

import ast
from typing import Any

from untrace import jaxapi
from untrace.lifting.recorded.building import (
    attribute,
    binary,
    call,
    enclosed,
    indexed,
    text_term,
)
from untrace.lifting.recorded.calls.arguments import plain_arguments
from untrace.lifting.recorded.calls.tails import reshaped_terms
from untrace.lifting.recorded.naming.values import is_array
from untrace.lifting.recorded.terms import Group, Part, Term, placed, update
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.recovery.expressions import expression_at
from untrace.recovery.record import Call, is_library
from untrace.syntax.precedence import LAMBDA, LEVELS, UNARY

BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "matmul": "@",
    "pow": "**",
    "and": "&",
    "or": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "eq": "==",
    "ne": "!=",
}
_UNARY = {"neg": "-", "pos": "+", "invert": "~"}
_COPYING = {"copy", "deepcopy"}
"""What the functions of the module `copy` ask for; the latter passes a memo, too."""
_BUILTIN = {"abs": "abs", "divmod": "divmod", "round": "round"}


def unreflected(name: str) -> str:
    """Name the operator that another one is with its operands reversed.

    >>> unreflected("radd"), unreflected("rshift")
    ('add', 'rshift')
    """
    return name[1:] if name.startswith("r") and name[1:] in BINARY else name


def operator_term(item: Call, writer: Writer) -> Term:
    """Write an operator.

    Raises:
      Unwritable: If it is not known.
    """
    name = item.function.name.strip("_")
    args = item.args
    if name == "getitem":
        return _indexed(writer.value(args[0]), args[1], writer)
    if name == "setitem":
        place = _indexed(writer.value(args[0]), args[1], writer)
        return update(place, writer.value(args[2]))
    if name in _UNARY:
        operand = placed(writer.value(args[0]), UNARY)
        return Term([_UNARY[name], *operand], UNARY)
    if name in _BUILTIN:
        return call(text_term(_BUILTIN[name]), [writer.value(a) for a in args])
    if name in _COPYING:
        return call(attribute(writer.value(args[0]), "copy"), [])
    operands = [writer.value(a) for a in args]
    plain_name = unreflected(name)
    if plain_name != name:
        operands.reverse()
    if plain_name not in BINARY:
        raise Unwritable(f"the operator {item.function.name} is not known")
    sign = BINARY[plain_name]
    shown = _parentheses(item, sign)
    terms = [enclosed(o, LEVELS[sign]) if p else o for o, p in zip(operands, shown)]
    return binary(terms[0], sign, terms[1])


def _parentheses(item: Call, sign: str) -> tuple[bool, bool]:
    """Tell which operands stand in parentheses that the grammar does not ask for.

    The user's do. So does what is folded into a product of matrices, `(x * scale) @ w`,
    but for a chain of these, `a @ b @ c`.
    """
    place, is_folded = item.place, sign == "@"
    is_asked = place is not None and (is_folded or not is_library(place.code))
    node = expression_at(place.code, place.offset) if place and is_asked else None
    if not isinstance(node, ast.BinOp):
        return is_folded, False
    left, right = node.left, node.right
    begins = (left.lineno, left.col_offset) != (node.lineno, node.col_offset)
    ends = right.end_lineno, right.end_col_offset
    is_named = not isinstance(left, ast.BinOp)
    return begins or (is_folded and is_named), ends != (
        node.end_lineno,
        node.end_col_offset,
    )


def method_term(item: Call, writer: Writer) -> Term:
    """Write a call of an array's method."""
    owner, *rest = item.args
    name = item.function.name
    function = attribute(writer.value(owner), name)
    kwargs = jaxapi.without_method_defaults(name, item.kwargs)
    sizes = reshaped_terms(rest, writer) if name == "reshape" else None
    if sizes is not None and not kwargs:
        return call(function, sizes)
    if name in ("reshape", "transpose"):  # of integers alone
        shape = [writer.value(value, "shape") for value in rest]
        return call(function, [*shape, *plain_arguments([], kwargs, writer)])
    return call(function, plain_arguments(rest, kwargs, writer))


def update_term(item: Call, writer: Writer) -> Term:
    """Write `x.at[index].set(value)` and the like."""
    owner, index, *rest = item.args
    place = _indexed(attribute(writer.value(owner), "at"), index, writer)
    method = attribute(place, item.function.name)
    return call(method, plain_arguments(rest, item.kwargs, writer))


def _indexed(owner: Term, index: Any, writer: Writer) -> Term:
    if type(index) is tuple and len(index) > 1 and all(map(is_array, index)):
        found = writer.find(writer.values.key(index))
        if found is not None:  # `x.at[jnp.diag_indices(3)]`
            return indexed(owner, [writer.ref(found)])
    is_tuple = type(index) is tuple and bool(index)
    made = indexed(
        owner, [_index_item(one, writer) for one in (index if is_tuple else [index])]
    )
    group = made.parts[-1]
    if is_tuple and len(index) == 1 and isinstance(group, Group):
        group.tail.append(",")
    return made


def _ref_slice(item: Any, writer: Writer) -> Term:
    """Write `pl.ds(start, size)`; strides that are not 1 come last."""
    given = [item.start, item.size, *([item.stride] if item.stride != 1 else [])]
    home = writer.program.home_term(("jax.experimental.pallas", "ds"))
    return call(home, [writer.value(value) for value in given])


def _index_item(item: Any, writer: Writer) -> Term:
    if type(item) is slice:
        parts: list[Part] = []
        if item.start is not None:
            parts += placed(writer.value(item.start), LAMBDA)
        parts.append(":")
        if item.stop is not None:
            parts += placed(writer.value(item.stop), LAMBDA)
        if item.step is not None:
            parts += [":", *placed(writer.value(item.step), LAMBDA)]
        return Term(parts, LAMBDA)
    if item is Ellipsis:
        return Term(["..."])
    if isinstance(item, jaxapi.RefSlice):
        return _ref_slice(item, writer)
    return writer.value(item)
