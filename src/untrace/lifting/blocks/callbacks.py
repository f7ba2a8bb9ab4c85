"""Calls of the host: debug prints, pure, io, debug and buffer callbacks.

A host function that can be imported is imported. Any other is no part of the traced
computation, so its code is unknown: a stand-in of the same name takes its place, marked
as such. Verification says which host functions were not compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.dict_keys import quoted
from untrace.ir import Atom, Equation
from untrace.lifting.blocks.standins import host_function, leaves_function
from untrace.lifting.blocks.state import statement
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame
from untrace.lifting.printing import Rhs, unpacked
from untrace.lifting.spelling import spell_aval_struct
from untrace.syntax.names import is_name

# Keywords of `jax.debug.print` and `jax.debug.callback` themselves.
OPTIONS = ("ordered", "partitioned")
# Parameters of the helper `check_failed`.
OWN = frozenset({"failed", "message", "code", "number", "debug"})


@control("pure_callback")
def pure_callback(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.pure_callback(function, result_types, *args)`."""
    params = eqn.params
    frame.lifter.imports.module("jax")
    options = {
        k: params[k] for k in ("sharding", "vmap_method") if params[k] is not None
    }
    return _value_callback("jax.pure_callback", eqn, frame, options)


@control("io_callback")
def io_callback(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `io_callback(function, result_types, *args)`."""
    params = eqn.params
    name = frame.lifter.imports.attribute("jax.experimental", "io_callback")
    options = {k: params[k] for k in ("sharding", "ordered") if params[k]}
    return _value_callback(name, eqn, frame, options)


def _value_callback(
    name: str, eqn: Equation, frame: Frame, options: dict[str, Any]
) -> Rhs | None:
    call = jaxapi.host_call(eqn.params["callback"])
    if call is None:
        return None
    avals = eqn.params["result_avals"]
    args = call_texts(call, eqn.operands, frame)
    is_plain = args is not None and not any(text.startswith("**") for text in args)
    # All that stand in for one function are called alike, those of the helper, too.
    if args is not None and is_plain and not jaxapi.is_error_function(call.function):
        host = host_function(call.function, avals, frame.lifter)
    elif call.static_args:
        return None
    else:  # trees of classes that a file without their library does not have
        args = frame.texts(eqn.operands)
        host = leaves_function(call, avals, frame.lifter)
    types = [spell_aval_struct(aval, frame.lifter.imports) for aval in avals]
    result = types[0] if len(types) == 1 else f"({', '.join(types)})"
    keywords = [f"{k}={frame.lifter.spell(v)}" for k, v in options.items()]
    text = f"{name}({', '.join([host, result, *args, *keywords])})"
    return Rhs(text, lambda names: ", ".join(names))


@control("debug_callback")
def debug_callback(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.debug.callback(function, *args)`."""
    call = jaxapi.host_call(eqn.params["callback"])
    args = call and call_texts(call, eqn.operands, frame)
    if call is None or args is None:
        return None
    host = host_function(call.function, (), frame.lifter)
    is_ordered = jaxapi.is_ordered_effect(eqn.params["effect"])
    options = _debug_options(is_ordered, eqn.params["partitioned"])
    return _debug_call("jax.debug.callback", [host, *args], options, frame)


@control("debug_print")
def debug_print(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.debug.print("x = {x}", x=x)`."""
    params = eqn.params
    static = dict(params["static_args"])
    call = jaxapi.HostCall(print, params["in_tree"], static)
    args = call_texts(call, eqn.operands, frame)
    if args is None:
        return None
    options = _debug_options(params["ordered"], params["partitioned"])
    given = _arguments(call, eqn.operands)
    if not jaxapi.accepts_print_format(params["fmt"], *given):
        options.append("skip_format_check=True")
    name = (
        "jax.debug.log" if params["logging_record"] is not None else "jax.debug.print"
    )
    return _debug_call(name, [frame.lifter.spell(params["fmt"]), *args], options, frame)


def _debug_options(is_ordered: bool, is_partitioned: bool) -> list[str]:
    chosen = zip(OPTIONS, (is_ordered, is_partitioned))
    return [f"{name}=True" for name, is_set in chosen if is_set]


def _debug_call(name: str, args: list[str], options: list[str], frame: Frame) -> Rhs:
    """Write a call whose own options must not clash with keywords to print."""
    frame.lifter.imports.module("jax")
    own = (
        "ordered=",
        "partitioned=",
        "skip_format_check=",
        "_use_logging=",
        "fmt=",
        "callback=",
    )
    if any(arg.startswith(own) for arg in args):
        return statement(f"{name}({', '.join(options)})({', '.join(args)})")
    return statement(f"{name}({', '.join([*args, *options])})")


@control("buffer_callback")
def buffer_callback(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `buffer_callback(function, result_types)(*args)`."""
    params = dict(eqn.params)
    avals, out_tree = params.pop("result_avals"), params.pop("out_tree")
    call = jaxapi.HostCall(params.pop("callback"), params.pop("in_tree"), {})
    args = call_texts(call, eqn.operands, frame)
    types = [spell_aval_struct(aval, frame.lifter.imports) for aval in avals]
    results = jax.tree.unflatten(out_tree, types)
    result = tree_text(results, str)
    if args is None or result is None:
        return None
    params["input_output_aliases"] = dict(params["input_output_aliases"])
    keywords = [f"{k}={frame.lifter.spell(v)}" for k, v in params.items() if v]
    host = host_function(call.function, (), frame.lifter)
    name = frame.lifter.imports.attribute(
        "jax.experimental.buffer_callback", "buffer_callback"
    )
    text = f"{name}({', '.join([host, result, *keywords])})({', '.join(args)})"
    if isinstance(results, str):
        return Rhs(text, lambda names: names[0])
    if not (
        isinstance(results, tuple) and all(isinstance(item, str) for item in results)
    ):
        text = f"jax.tree.leaves({text})"
    return Rhs(text, unpacked)


@control("inspect_sharding")
def inspect_sharding(eqn: Equation, frame: Frame) -> Rhs:
    """Write `jax.debug.inspect_array_sharding(x, callback=function)`."""
    host = host_function(eqn.params["callback"], (), frame.lifter)
    frame.lifter.imports.module("jax")
    (value,) = frame.texts(eqn.operands)
    return statement(f"jax.debug.inspect_array_sharding({value}, callback={host})")


@control("check")
def check(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a `checkify.check` that was not functionalised."""
    found = jaxapi.failed_check(eqn.params["err_tree"], eqn.operands)
    if found is None:
        return _check_of_several(eqn, frame)
    exception = found.exception
    args = [tree_text(arg, frame.text) for arg in exception.args]
    kwargs = {
        key: tree_text(value, frame.text) for key, value in exception.kwargs.items()
    }
    if None in args or None in kwargs.values() or OWN & kwargs.keys():
        return None
    if not all(map(is_name, kwargs)):
        return None
    texts = [frame.text(found.failed), frame.lifter.spell(exception.fmt_string)]
    texts += [*(arg for arg in args if arg), *(f"{k}={v}" for k, v in kwargs.items())]
    if getattr(found.code, "value", None) != 0:
        texts.append(f"code={frame.text(found.code)}")
    texts += [f"number={found.number}"] if found.number else []
    texts += ["debug=True"] if eqn.params["debug"] else []
    return statement(f"{frame.lifter.helper('check_failed')}({', '.join(texts)})")


def _check_of_several(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `checkify.check_error` of the errors that another `checkify` collected."""
    errors = jaxapi.checked_errors(eqn.params["err_tree"], eqn.operands)
    spell = frame.lifter.spell
    parts: list[str] = []
    for by_effect in (errors.failed, errors.code, errors.payload):
        texts = {spell(e): tree_text(v, frame.text) for e, v in by_effect.items()}
        if None in texts.values():
            return None
        parts.append(f"{{{', '.join(f'{e}: {text}' for e, text in texts.items())}}}")
    kinds: list[str] = []
    for number, (kind, rest, children) in sorted(errors.kinds.items()):
        tree = tree_text(children, str)
        if tree is None:
            return None
        kinds.append(f"{number}: ({spell(kind)}, {spell(rest)}, {tree})")
    parts.append(f"{{{', '.join(kinds)}}}")
    parts += ["debug=True"] if eqn.params["debug"] else []
    return statement(f"{frame.lifter.helper('check_errors')}({', '.join(parts)})")


# ---- arguments ---------------------------------------------------------------------


class _Static:
    """A leaf that is no array."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _arguments(
    call: jaxapi.HostCall, operands: Sequence[Any]
) -> tuple[Any, dict[str, Any]]:
    """Put operands and static leaves back into the arguments of the host function."""
    given = iter(operands)
    n = len(operands) + len(call.static_args)
    static = call.static_args
    leaves = [_Static(static[i]) if i in static else next(given) for i in range(n)]
    args, kwargs = jax.tree.unflatten(call.in_tree, leaves)
    return args, kwargs


def call_texts(
    call: jaxapi.HostCall, operands: Sequence[Atom], frame: Frame
) -> list[str] | None:
    """Write the arguments of a host function; None if a tree has no notation."""

    def leaf(value: Any) -> str:
        if isinstance(value, _Static):
            return frame.lifter.spell(value.value)
        return frame.text(value)

    args, kwargs = _arguments(call, operands)
    texts = [tree_text(arg, leaf) for arg in args]
    named = {key: tree_text(value, leaf) for key, value in kwargs.items()}
    if None in texts or None in named.values():
        return None
    keywords = [f"{k}={v}" for k, v in named.items() if is_name(k)]
    others = [
        f"{frame.lifter.spell(k)}: {v}" for k, v in named.items() if not is_name(k)
    ]
    spread = [f"**{{{', '.join(others)}}}"] if others else []
    return [*(text for text in texts if text), *keywords, *spread]


def tree_text(tree: Any, leaf: Any) -> str | None:
    """Write a tree of plain containers; None for any other class of node."""
    if tree is None:
        return "None"
    if type(tree) in (tuple, list):
        parts = [tree_text(item, leaf) for item in tree]
        if None in parts:
            return None
        inner = ", ".join(part for part in parts if part)
        if type(tree) is list:
            return f"[{inner}]"
        return f"({inner},)" if len(parts) == 1 else f"({inner})"
    if type(tree) is dict:
        if not all(type(key) in (str, int) for key in tree):
            return None
        items = {quoted(key): tree_text(item, leaf) for key, item in tree.items()}
        if None in items.values():
            return None
        return f"{{{', '.join(f'{k}: {v}' for k, v in items.items())}}}"
    if not jax.tree_util.all_leaves([tree]):
        return None
    return leaf(tree)
