"""Why a call could not use what was compiled for another one, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from untrace.interpreters.recompiling.array_causes import (
    array_causes,
    device_names,
    sharding_text,
)
from untrace.interpreters.recompiling.call_facts import Facts, Large, array_text, shown
from untrace.interpreters.recompiling.cause import Cause
from untrace.interpreters.recompiling.tree_causes import structures
from untrace.printable import printable
from untrace.verification.compare import are_same_values

MAX_CAUSES = 8
"""Differences of one call that are told; there may be thousands of arrays."""


def causes_of(before: Facts, after: Facts) -> tuple[Cause, ...]:
    """List for what a call is compiled anew after another call of the same code."""
    found = [
        *_functions(before, after),
        *_options(before, after),
        *_settings(before, after),
        *structures(before, after),
        *_statics(before, after),
    ]
    is_wider = any(cause.where == "jax_enable_x64" for cause in found)
    for path, leaf in after.leaves.items():
        known = before.leaves.get(path)
        if known is not None and len(found) < MAX_CAUSES:
            found += array_causes(path, known, leaf, is_wider)
    return tuple(found)


UNKNOWN = Cause(
    "unknown",
    "",
    "nothing that JAX looks at differs",
    "its caches were cleared (`jax.clear_caches`), or it is called under another "
    "transformation (`jax.vmap`, `jax.grad`)",
)


# ---- functions and what jit was told -----------------------------------------------------


def _functions(before: Facts, after: Facts) -> Iterator[Cause]:
    function, known = after.function(), before.function()
    if function is not None and function is known:
        return
    if function is not None and known is not None and function == known:
        return  # a bound method of the same object
    where = f" ({after.defined})" if after.defined else ""
    name = f"`{after.name}`{where}"
    is_told = False
    for held, value in after.closed.items():
        old = before.closed.get(held)
        if held in before.closed and _are_same(old, value):
            continue
        is_told = True
        if held == "self":
            yield Cause(
                "function",
                after.name,
                f"{name} is a method of another object",
                "jit a function that takes the arrays of the object as an argument",
            )
            continue
        kind = held if held.startswith(("default", "partial")) else f"`{held}`"
        yield Cause(
            "closure",
            held,
            f"{name} is made anew with another {kind}, {_both(old, value)}",
            "pass it as an argument of one jitted function",
        )
    if not is_told:
        yield Cause(
            "function",
            after.name,
            f"{name} is a new function object each time",
            "define it and call `jax.jit` once, outside of the loop or function",
        )


def _both(old: Any, value: Any) -> str:
    """Say what a value was and is; arrays by their types, if these differ."""
    is_array = all(isinstance(v, Large | np.ndarray) for v in (old, value))
    if is_array and getattr(value, "ndim", 1):
        was, now = (
            v.text if isinstance(v, Large) else array_text(v) for v in (old, value)
        )
        if was == now:
            return f"a {now} of other values"
    else:
        was, now = shown(old), shown(value)
    return f"which was {was}, is {now}"


def _options(before: Facts, after: Facts) -> Iterator[Cause]:
    for name, value in after.options.items():
        old = before.options.get(name)
        if old is value or old == value:
            continue
        numbers = name.replace("argnames", "argnums")
        if numbers != name and before.options[numbers] != after.options[numbers]:
            continue  # JAX derives one from the other
        kind = "donation" if name.startswith("donate") else "option"
        shown_name = "compiler_options" if name == "compiler_options_kvs" else name
        texts = [_option_text(v) for v in (old, value)]
        yield Cause(
            kind,
            shown_name,
            f"`jax.jit` was told `{shown_name}={texts[0]}`, now `{shown_name}={texts[1]}`",
            "call `jax.jit` once, with one set of options",
        )


def _option_text(value: Any) -> str:
    """Write an option; trees of shardings and layouts by their leaves."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str):  # pyright: ignore[reportUnknownArgumentType]
        leaves: Any = value[0]
        texts = [sharding_text(leaf) for leaf in leaves]
        return f"({', '.join(texts)})" if len(texts) != 1 else texts[0]
    return shown(value)


# ---- settings ------------------------------------------------------------------------

_MESHES = frozenset(
    {"mesh_context_manager", "abstract_mesh_context_manager", "concrete_mesh"}
)


def _settings(before: Facts, after: Facts) -> Iterator[Cause]:
    is_mesh_told = False
    for name, value in after.settings.items():
        old = before.settings.get(name)
        if old is value or old == value or str(old) == str(value):
            continue
        if name in _MESHES:
            if not is_mesh_told:
                is_mesh_told = True
                yield _mesh_cause(before, after)
            continue
        kind = "default device" if name == "jax_default_device" else "config"
        yield Cause(
            kind,
            name,
            f"the setting `{name}` was {shown(old)}, is {shown(value)}",
            "set it once, before the first call",
        )


def _mesh_cause(before: Facts, after: Facts) -> Cause:
    texts = [_mesh_text(facts) for facts in (before, after)]
    return Cause(
        "mesh",
        "mesh",
        f"the mesh in context was {texts[0]}, is {texts[1]}",
        "call it always under the same mesh (`jax.set_mesh` at the start)",
    )


def _mesh_text(facts: Facts) -> str:
    mesh = facts.settings.get("concrete_mesh")
    for name in sorted(_MESHES):
        mesh = mesh or facts.settings.get(name)
    if not mesh or not getattr(mesh, "axis_names", None):
        return "none"
    axes = ", ".join(f"{k}={v}" for k, v in dict(mesh.shape).items())
    devices = getattr(mesh, "devices", None)
    where = "" if devices is None else f" on {device_names(devices.reshape(-1))}"
    return printable(f"({axes}){where}")


# ---- static arguments ------------------------------------------------------------------


def _statics(before: Facts, after: Facts) -> Iterator[Cause]:
    for name, value in after.statics.items():
        if name not in before.statics:
            continue
        old = before.statics[name]
        if old is value or (type(old) is type(value) and _is_equal(old, value)):
            continue
        texts = shown(old), shown(value)
        if texts[0] == texts[1] or _are_alike(old, value):
            kind = printable(type(value).__name__)
            if callable(value) and hasattr(value, "__code__"):
                advice = "define the function once and pass the same one each time"
            else:
                advice = "make it once, or give its class `__eq__` and `__hash__`"
            what = f"the static argument `{name}` is another {kind} each time, not equal to the last"
            yield Cause("static argument", name, what, advice)
            continue
        yield Cause(
            "static argument",
            name,
            f"the static argument `{name}` was {texts[0]}, is {texts[1]}",
            "each value is compiled for; pass it as an array unless shapes or Python "
            "branches depend on it",
        )


def _are_alike(old: Any, value: Any) -> bool:
    """Whether two static arguments were made by the same code of the same parts."""
    code, other = getattr(old, "__code__", None), getattr(value, "__code__", None)
    if code is not None or other is not None:
        return code == other
    return type(old) is type(value) and are_same_values(old, value)


def _is_equal(old: Any, value: Any) -> bool:
    try:
        return bool(old == value)
    except Exception:  # the user's own `==`
        return False


def _are_same(old: Any, value: Any) -> bool:
    if old is value:
        return True
    if isinstance(old, np.ndarray) and isinstance(value, np.ndarray):
        is_alike = old.shape == value.shape and old.dtype == value.dtype
        return is_alike and bool(np.array_equal(old, value))
    if isinstance(old, Large):
        return old == value
    return type(old) is type(value) and are_same_values(old, value)
