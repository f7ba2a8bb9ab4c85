# `Slice` is re-exported without saying so.
# pyright: reportPrivateImportUsage=false
"""State and effects: mutable arrays, functions called on the host, failed checks.

The same names serve all supported JAX releases. Callbacks that return values hold an
object with a `callback_func`, those for debugging a closure named `_flat_callback`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax._src import callback as _callback
from jax._src import core as _core
from jax._src import debugging as _debugging
from jax._src.state import indexing as _indexing
from jax._src.state import types as _state_types

from untrace.objects import closed_over

Ref = getattr(_core, "Ref", ())
AbstractRef = _state_types.AbstractRef
NDIndexer = _indexing.NDIndexer
RefSlice = _indexing.Slice
FlatCallback: Any = vars(_callback)["_FlatCallback"]
"""What a callback primitive that returns values holds: a function, and a tree."""


def is_ref_aval(aval: Any) -> bool:
    """Whether an aval is that of a mutable array."""
    return isinstance(aval, AbstractRef)


def is_ref(value: Any) -> bool:
    """Whether a value is a mutable array."""
    return isinstance(value, Ref)


def ref_content(ref: Any) -> Any:
    """Return what a mutable array holds now."""
    return ref[...]


class HostCall(NamedTuple):
    """A host function and the tree of `(args, kwargs)` that it is called on.

    `static_args` are the leaves that are no arrays, by position in the tree.
    """

    function: Any
    in_tree: Any
    static_args: dict[int, Any]


def host_call(callback: Any) -> HostCall | None:
    """Unwrap what a callback primitive holds; None if its wrapper is not known."""
    if hasattr(callback, "callback_func"):
        return HostCall(callback.callback_func, callback.in_tree, {})
    code = getattr(callback, "__code__", None)
    if code is None or code.co_name != "_flat_callback":
        return None
    held = closed_over(callback)
    if not {"callback", "in_tree", "static_args"} <= held.keys():
        return None
    return HostCall(held["callback"], held["in_tree"], dict(held["static_args"]))


def taking_leaves(call: HostCall) -> Callable[..., Any]:
    """Return the function of a host call as one of the leaves of its arguments."""

    def function(*leaves: Any) -> Any:
        args, kwargs = jax.tree.unflatten(call.in_tree, leaves)
        return call.function(*args, **kwargs)

    return function


def is_ordered_effect(effect: Any) -> bool:
    """Whether a debug callback keeps its place among the others."""
    return type(effect) is type(_debugging.ordered_debug_effect)


def accepts_print_format(fmt: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether `jax.debug.print` lets these arguments through its format check."""
    try:
        _debugging.formatter.format(fmt, *args, **kwargs)
    except (ValueError, KeyError, IndexError, AttributeError):
        return False
    return True


# On a stand-in whose arguments are the leaves of those of the function it stands in for.
LEAVES_MARK = "__untrace_takes_leaves__"


def stand_in_for(function: Any) -> str | None:
    """Return the name of the host function that a generated function stands in for."""
    if not isinstance(function, types.FunctionType):
        return None
    name = function.__dict__.get("__untrace_stand_in__")
    return name if isinstance(name, str) else None


def leaves_stand_in(callback: Any) -> tuple[str, int] | None:
    """Return the host function that a callback stands in for, and how many leaves it takes.

    None for a callback whose stand-in takes the arguments as the host function does.
    """
    call = host_call(callback)
    name = None if call is None else leaves_stand_in_for(call.function)
    return None if call is None or name is None else (name, call.in_tree.num_leaves)


def leaves_stand_in_for(function: Any) -> str | None:
    """Return the name of the function that another one, which takes leaves, stands in for."""
    return stand_in_for(function) if hasattr(function, LEAVES_MARK) else None


def function_origin(function: Any) -> str:
    """Return module and qualified name of a callable, looking through partials.

    >>> function_origin(functools.partial(functools.reduce))
    '_functools.reduce'
    """
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(named, "__module__", None)
    return f"{module}.{named.__qualname__}" if module else named.__qualname__


class FailedCheck(NamedTuple):
    """The operands of one `checkify.check`, not functionalised.

    `number` is its key in the error's metadata, `code` the operand with that number.
    The exception has `fmt_string`, `args` and `kwargs`, as they were given.
    """

    failed: Any
    code: Any
    number: int
    exception: Any


def failed_check(err_tree: Any, leaves: Sequence[Any]) -> FailedCheck | None:
    """Read a `check` equation; None if it holds a collection of several errors."""
    error = jax.tree.unflatten(err_tree, leaves)
    if len(error._pred) != 1 or len(error._metadata) != 1:
        return None
    ((effect, failed),) = error._pred.items()
    ((number, kind),) = error._metadata.items()
    exception = jax.tree.unflatten(kind, error._payload[effect])
    if not hasattr(exception, "fmt_string"):
        return None
    return FailedCheck(failed, error._code[effect], int(number), exception)


class CheckedErrors(NamedTuple):
    """A collection of errors that `checkify` made: by effect, and kinds by number.

    A kind is the exception's class, what its tree says beside the traceback (None if
    that is all), and its children with placeholders for leaves.
    """

    failed: dict[Any, Any]
    code: dict[Any, Any]
    payload: dict[Any, Any]
    kinds: dict[int, tuple[type, tuple[Any, ...] | None, Any]]


def checked_errors(err_tree: Any, leaves: Sequence[Any]) -> CheckedErrors:
    """Read a `check` equation that holds any number of errors."""
    error = jax.tree.unflatten(err_tree, leaves)
    kinds: dict[int, tuple[type, tuple[Any, ...] | None, Any]] = {}
    for number, kind in error._metadata.items():
        exception = jax.tree.unflatten(kind, [0] * kind.num_leaves)
        children, said = exception.tree_flatten()
        rest = said[1:] if isinstance(said, tuple) else None
        kinds[int(number)] = type(exception), rest, children
    return CheckedErrors(error._pred, error._code, error._payload, kinds)
