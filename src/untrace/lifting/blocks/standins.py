"""Stand-ins: functions that take the place of ones that cannot be imported.

The code of a host callback or of a batching rule is no part of the traced computation.
Where it cannot be imported by name, a function of the same name is written that returns
zeros, nothing, or raises. It is marked with the name of the original, by which the
verification recognises it, accepts it and says that it was not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from untrace import jaxapi
from untrace.capture.dict_keys import quoted
from untrace.lifting.heads import Parameter
from untrace.lifting.lifter import Lifter
from untrace.lifting.printing import Function
from untrace.lifting.spelling import Unspellable
from untrace.syntax.names import identifier


def host_function(function: Any, result_avals: Sequence[Any], lifter: Lifter) -> str:
    """Return the name of a host function: imported, or that of a stand-in."""
    several = result_avals[0] if len(result_avals) == 1 else tuple(result_avals)
    return host_function_of(function, several, lifter)


def host_function_of(function: Any, result: Any, lifter: Lifter) -> str:
    """Return the name of a host function; its result is a tree of types."""
    has_result = bool(jax.tree.leaves(result))
    lines = [f"return {_zeros(result, lifter)}"] if has_result else []
    return _imported(function, lines, lifter)


def leaves_function(
    call: jaxapi.HostCall, result_avals: Sequence[Any], lifter: Lifter
) -> str:
    """Return the name of a stand-in that takes the leaves of a host function's arguments."""
    several = result_avals[0] if len(result_avals) == 1 else tuple(result_avals)
    lines = [f"return {_zeros(several, lifter)}"]
    of_leaves = _OfLeaves((call.in_tree,), jaxapi.taking_leaves(call))
    return _stand_in(call.function, lines, lifter, of_leaves)


def rule_function(function: Any, lifter: Lifter) -> str:
    """Return the name of a rule: imported, or that of a stand-in that raises."""
    return _imported(function, _RAISING, lifter)


def batching_function(call: jaxapi.BatchingCall, lifter: Lifter) -> str:
    """Return the name of a batching rule for a function of leaves that returns leaves.

    A rule that takes or returns other trees has a stand-in even if it can be imported.
    """
    if call.is_flat:
        return rule_function(call.rule, lifter)
    trees = call.in_tree, call.out_tree
    of_leaves = _OfLeaves(
        trees, jaxapi.rule_of_leaves(call), "takes and returns leaves"
    )
    return _stand_in(call.rule, _RAISING, lifter, of_leaves)


_RAISING = ['raise NotImplementedError("the rule is not part of the traced program")']


_ANYTHING = Parameter("args", stars="*"), Parameter("kwargs", stars="**")


class _OfLeaves(NamedTuple):
    """A function as one of leaves: the trees that it has itself, and how to put it."""

    trees: tuple[Any, ...]
    function: Callable[..., Any]
    how: str = "takes the leaves of its arguments"


def _imported(function: Any, lines: list[str], lifter: Lifter) -> str:
    try:
        return lifter.spell(function)
    except Unspellable:
        return _stand_in(function, lines, lifter)


def _stand_in(
    function: Any,
    lines: list[str],
    lifter: Lifter,
    of_leaves: _OfLeaves | None = None,
) -> str:
    trees = map(_identity, of_leaves.trees) if of_leaves else ()
    key = (id(function), *trees, *lines)
    known = lifter.stand_ins.get(key)
    if known is not None:
        return known
    origin = jaxapi.function_origin(function)
    name = lifter.stand_ins[key] = lifter.scope.fresh_global(_name(origin))
    doc = '"""Stand in for a function whose code is not part of the traced program."""'
    mark = f"{name}.__untrace_stand_in__ = {lifter.spell(origin)}"
    marks = [mark]
    if of_leaves:
        marks.append(f"{name}.{jaxapi.LEAVES_MARK} = True")
    made = Function(name, _ANYTHING, [doc, *lines], after=["", "", *marks])
    lifter.functions.append(made)
    lifter.originals[name] = of_leaves.function if of_leaves else function
    how = f", which {of_leaves.how}" if of_leaves else ""
    lifter.note(
        f"`{name}` stands in for a function that cannot be imported{how}; put it there."
    )
    return name


def _identity(tree: Any) -> Any:
    """Identify a tree by what it is, or by itself if a node has data without a hash."""
    try:
        hash(tree)
    except TypeError:
        return id(tree)
    return tree


def _name(origin: str) -> str:
    name = origin.rpartition(".")[2]
    return (
        "host_function"
        if name in ("<lambda>", "_")
        else identifier(name, "host_function")
    )


def _zeros(aval: Any, lifter: Lifter) -> str:
    if type(aval) is dict:
        items = [f"{quoted(k)}: {_zeros(v, lifter)}" for k, v in aval.items()]
        return f"{{{', '.join(items)}}}"
    if type(aval) in (tuple, list):
        items = [_zeros(item, lifter) for item in aval]
        begin, end = "()" if type(aval) is tuple else "[]"
        comma = "," if len(items) == 1 and begin == "(" else ""
        return f"{begin}{', '.join(items)}{comma}{end}"
    if aval is None:
        return "None"
    lifter.imports.module("numpy")
    shape, dtype = lifter.spell(tuple(aval.shape)), lifter.spell(aval.dtype, "dtype")
    return f"np.zeros({shape}, {dtype})"
