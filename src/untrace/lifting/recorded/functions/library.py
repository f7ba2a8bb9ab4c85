"""What a library does for all cases at once, written for the one that was recorded.

Its code converts arrays that need no conversion, maps functions over trees that are one
array, and wraps functions that only call another. None of this makes an equation, so it
is left out; what the user's own code does is kept as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.lifting.heads import head_text
from untrace.lifting.printing import Function
from untrace.lifting.recorded.naming.values import is_array
from untrace.lifting.recorded.printing import free_name, parameters_of
from untrace.lifting.recorded.terms import CALL, Global, Group, Name, Ref, Term, placed
from untrace.lifting.recorded.tree import Draft
from untrace.lifting.recorded.writer import Writer
from untrace.lifting.spelling.homes import find_public_home
from untrace.optional import gives, optional, unchanged
from untrace.recovery.record import Call
from untrace.syntax.parsed import parsed
from untrace.syntax.precedence import LAMBDA
from untrace.syntax.steps import Item, Path

MAX_LAMBDA = 48  # characters of the expression of a function without a name

# Functions and methods that only move or convert elements, if there is anything to do.
_MOVES = frozenset(
    {
        "array",
        "asarray",
        "astype",
        "broadcast_in_dim",
        "broadcast_to",
        "convert_element_type",
        "expand_dims",
        "moveaxis",
        "permute_dims",
        "ravel",
        "reshape",
        "squeeze",
        "swapaxes",
        "transpose",
    }
)

# The functions that operators between two arrays are.
_FUNCTIONS = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}


@optional(gives(False))
def skip_move(item: Call, writer: Writer) -> bool:
    """Leave out a call that returns its first argument; tell whether it is one."""
    if not writer.in_library or not item.args or not _is_move(item.function):
        return False
    operand, result = item.args[0], item.result
    if not is_array(operand) or not jaxapi.is_same_value(operand, result):
        return False
    found = writer.find(id(operand))
    if found is None:
        return False
    writer.values.define(result, *found)
    return True


@optional(unchanged)
def shorter(item: Call) -> Call:
    """Return a shorter call that makes the same equations."""
    return _with_free_length(item) if _is_reshape(item.function) else _as_dot(item)


def takes_shape_of_another(item: Call) -> bool:
    """Whether the shape that a function is given is likely that of an array."""
    if item.function is jnp.broadcast_to:
        return is_array(item.args[0])
    home = find_public_home(item.function)
    return home is not None and home[0] == "jax.random"


def _is_reshape(function: Any) -> bool:
    """Whether a function or method gives an array another shape."""
    if isinstance(function, jaxapi.Method):
        return function.name == "reshape"
    return function in (jnp.reshape, jax.lax.reshape)


def _with_free_length(item: Call) -> Call:
    """Leave the length of a vector open where it is reshaped to one long axis.

    Functions that are alike but for this length have one text then.
    """
    array, *shape = item.args[:2]
    if len(shape) != 1 or np.ndim(array) != 1 or type(shape[0]) not in (tuple, list):
        return item
    lengths = shape[0]
    if len(lengths) < 2 or array.shape[0] < 2 or array.shape[0] not in lengths:
        return item
    free = type(lengths)([-1 if n == array.shape[0] else 1 for n in lengths])
    return replace(item, args=(array, free, *item.args[2:]))


def _as_dot(item: Call) -> Call:
    """Return `jax.lax.dot` for a `jax.lax.dot_general` that makes the same equation.

    Others have lists of axes.
    """
    if item.function is not jax.lax.dot_general or len(item.args) < 3:
        return item
    left, right, numbers, *rest = item.args
    ranks = np.ndim(left), np.ndim(right)
    usual = (((ranks[0] - 1,), (0,)), ((), ()))
    if not set(ranks) <= {1, 2} or _tuples(numbers) != usual:
        return replace(item, args=(left, right, _with_lists(numbers), *rest))
    kwargs = {**dict(zip(("precision", "preferred_element_type"), rest)), **item.kwargs}
    return replace(item, function=jax.lax.dot, args=(left, right), kwargs=kwargs)


def _with_lists(numbers: Any) -> Any:
    """Write which axes are summed and which are batched as jaxprs do: `([2], [0])`."""
    return tuple([tuple([list(axes) for axes in pair]) for pair in numbers])


def _tuples(value: Any) -> Any:
    is_plain = isinstance(value, (tuple, list))
    return tuple([_tuples(part) for part in value]) if is_plain else value


def _is_move(function: Any) -> bool:
    if isinstance(function, jaxapi.Method):
        return function.name in _MOVES
    home = find_public_home(function)
    return home is not None and home[1] in _MOVES


def shortened(draft: Draft, sizes: dict[str, int]) -> Term | None:
    """Write a library's function that is one short expression without a definition.

    Args:
      draft: The function, complete; its decorators are left out.
      sizes: How many arguments its starred parameters took.

    Returns:
      The function that it calls with its own parameters, or a lambda; None if it needs
      a definition.
    """
    if draft.result is None or draft.statements_left():
        return None
    result = draft.result.opened()
    match result.parts:
        case [Global() as function, Group(kind=kind, items=items)] if kind == CALL:
            passed = [_passed(item) for item in items]
            if passed == _passed_on(draft, sizes):
                return Term([function])
        case _:
            pass
    return lambda_term(draft) if len(result.render()) <= MAX_LAMBDA else None


def _passed(item: Term) -> tuple[Name, Path] | None:
    """Return the name that an argument is, or is a part of."""
    ref = item.ref.resolved() if item.ref is not None else None
    return None if ref is None or ref.name.folded else (ref.name, ref.path)


def operator_function(draft: Draft) -> tuple[str, str] | None:
    """Return the public function that adds, or the like, the two parameters of a draft."""
    if draft.result is None or draft.statements_left() or draft.decorators:
        return None
    names = [p.name for p in draft.parameters if not (p.stars or p.is_keyword)]
    if len(names) != 2 or len(draft.parameters) != 2:
        return None
    if not all(isinstance(name.held, jaxapi.Tracer) for name in names):
        return None
    match draft.result.opened().parts:
        case [Ref() as first, str(sign), Ref() as second]:
            operands = [_passed(Term([one])) for one in (first, second)]
            is_plain = operands == [(name, ()) for name in names]
            function = _FUNCTIONS.get(sign.strip()) if is_plain else None
            return ("jax.numpy", function) if function else None
        case _:
            return None


@optional(unchanged)
def used_functions(
    functions: Sequence[Function], main: Function, drafts: Mapping[Function, Draft]
) -> list[Function]:
    """List the functions of a module that its main function needs, in their order.

    A derivative rule is needed by the function that it is defined for, below the rule.
    """
    words = names_in(main, drafts)
    rest, n_rest = list(functions), -1
    while len(rest) != n_rest:
        n_rest = len(rest)
        for function in rest[::-1]:
            if function.name in words or words & _defined_for(function):
                rest.remove(function)
                words |= names_in(function, drafts)
    return [function for function in functions if function not in rest]


def _defined_for(function: Function) -> set[str]:
    """Return the functions that the statements after a function are about."""
    return {line.partition(".")[0] for line in function.after if line}


def names_in(function: Function, drafts: Mapping[Function, Draft]) -> set[str]:
    """List the names in a function, but for locals, where it has a tree."""
    draft = drafts.get(function)
    if draft is None:  # it is written from its equations
        return parsed("\n".join(function.text_lines())).variables()
    found = {part.text for part in draft.parts() if isinstance(part, Global)}
    return found | parsed("\n".join(function.after)).variables()


def _passed_on(draft: Draft, sizes: dict[str, int]) -> list[tuple[Name, Path]] | None:
    """List the arguments of a call that passes all parameters on, if that is by position."""
    passed: list[tuple[Name, Path]] = []
    for parameter in draft.parameters:
        name = parameter.name
        if parameter.is_keyword or parameter.stars == "**":
            return None
        if parameter.stars:
            passed += [(name, (Item(i),)) for i in range(sizes.get(name.hint, 0))]
        else:
            passed.append((name, ()))
    return passed


def lambda_term(draft: Draft) -> Term:
    """Write a function of one expression as a lambda.

    Its parameters do not hide what it sees of the function around it, nor each other.
    """
    assert draft.result is not None
    own = [parameter.name for parameter in draft.parameters]
    others = [ref.name for ref in draft.result.all_refs() if ref.name not in own]
    inner = {name.text for name in others if name.text}  # of lambdas in this one
    seen = {name.hint for name in others if not name.text}
    for name in own:
        is_hiding = name.hint in seen
        name.text = free_name(name.hint, seen | inner) if is_hiding else name.hint
        seen.add(name.text)
    draft.is_lambda = True
    head = head_text(parameters_of(draft))
    text = f"lambda {head}: " if head else "lambda: "
    return Term([text, *placed(draft.result.whole(), LAMBDA)], LAMBDA)
