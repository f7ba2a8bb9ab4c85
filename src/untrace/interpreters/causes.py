"""Why a call could not use what was compiled for another one, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.interpreters.call_facts import Facts, Leaf, shown
from untrace.printable import printable
from untrace.verification.compare import are_same_values
from untrace.verification.difference import short_type

MAX_CAUSES = 8
"""Differences of one call that are told; there may be thousands of arrays."""


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that differs between two calls, for which JAX compiles anew.

    Attributes:
      kind: "function", "closure", "static argument", "structure", "keyword", "shape",
        "dtype", "weak type", "committed", "device", "sharding", "memory", "layout",
        "donation", "option", "config", "default device", "mesh" or "unknown".
      where: The argument, `params['dense']['kernel']`, or the name of what differs.
      what: What it was and what it is.
      advice: What to change.
    """

    kind: str
    where: str
    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what}: {self.advice}" if self.advice else self.what


def causes_of(before: Facts, after: Facts) -> tuple[Cause, ...]:
    """List for what a call is compiled anew after another call of the same code."""
    found = [
        *_functions(before, after),
        *_options(before, after),
        *_settings(before, after),
        *_structures(before, after),
        *_statics(before, after),
    ]
    is_wider = any(cause.where == "jax_enable_x64" for cause in found)
    for path, leaf in after.leaves.items():
        known = before.leaves.get(path)
        if known is not None and len(found) < MAX_CAUSES:
            found += _leaves(path, known, leaf, is_wider)
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
            f"{name} is made anew with another {kind}: it was {shown(old)}, is {shown(value)}",
            "pass it as an argument of one jitted function",
        )
    if not is_told:
        yield Cause(
            "function",
            after.name,
            f"{name} is a new function object each time",
            "define it and call `jax.jit` once, outside of the loop or function",
        )


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
    where = "" if devices is None else f" on {_device_names(devices.reshape(-1))}"
    return printable(f"({axes}){where}")


def _device_names(devices: Any) -> str:
    names = [f"{device.platform}:{device.id}" for device in devices]
    if len(names) <= 3:
        return ", ".join(names)
    return f"{len(names)} devices ({names[0]} ...)"


# ---- trees ---------------------------------------------------------------------------


def _structures(before: Facts, after: Facts) -> Iterator[Cause]:
    for name in [*after.trees, *after.statics]:
        was_given = name in before.trees or name in before.statics
        if not was_given:
            yield Cause(
                "structure",
                name,
                f"`{name}` is given now, and was not",
                "pass the same arguments each time, also those that have defaults",
            )
        elif (name in before.keywords) != (name in after.keywords):
            ways = ("by keyword", "by position")
            if name not in before.keywords:
                ways = (ways[1], ways[0])
            yield Cause(
                "keyword",
                name,
                f"`{name}` was passed {ways[0]}, is passed {ways[1]}",
                "pass it in the same way each time",
            )
    for name in [*before.trees, *before.statics]:
        if name not in after.trees and name not in after.statics:
            yield Cause(
                "structure",
                name,
                f"`{name}` was given, and is not now",
                "pass the same arguments each time, also those that have defaults",
            )
    for name, tree in after.trees.items():
        old = before.trees.get(name)
        if old is None or old == tree:
            continue
        path, what = _tree_difference(old, tree, name)
        yield Cause(
            "structure",
            path,
            f"`{path}` {what}",
            "give it the same containers, keys and static fields each time",
        )


def _tree_difference(old: Any, tree: Any, path: str) -> tuple[str, str]:
    """Find the first place where two trees differ, and say in what."""
    data, known = tree.node_data(), old.node_data()
    if data is None or known is None or data[0] is not known[0]:
        return path, f"was {_node_text(old)}, is {_node_text(tree)}"
    children, others = tree.children(), old.children()
    if data[1] != known[1]:
        return path, _keys_difference(data, known)
    if len(children) != len(others):
        return path, f"had {len(others)} items, has {len(children)}"
    steps = _steps(data, len(children))
    for step, child, other in zip(steps, children, others):
        if child != other:
            return _tree_difference(other, child, path + step)
    return path, "differs in what its class keeps beside its arrays"


def _keys_difference(data: Any, known: Any) -> str:
    kind, keys = data
    if kind is not dict:
        name = printable(kind.__name__)
        texts = [shown(aux) for aux in (known[1], keys)]
        if texts[0] == texts[1]:
            return f"holds static fields of `{name}` that are not equal to those before"
        return f"held the static fields {texts[0]} (`{name}`), holds {texts[1]}"
    new = [repr(key) for key in keys if key not in known[1]]
    gone = [repr(key) for key in known[1] if key not in keys]
    said = [f"has the new key {', '.join(new)}"] if new else []
    said += [f"has lost the key {', '.join(gone)}"] if gone else []
    return printable(" and ".join(said) or "has its keys in another order")


def _steps(data: Any, n: int) -> list[str]:
    kind, aux = data
    if kind is dict:
        return [printable(f"[{key!r}]") for key in aux]
    fields = getattr(kind, "_fields", None)
    if fields is not None and len(fields) == n:
        return [printable(f".{field}") for field in fields]
    return [f"[{k}]" for k in range(n)]


def _node_text(tree: Any) -> str:
    data = tree.node_data()
    if data is None:
        return "an array"
    if data[0] is type(None):
        return "None"
    n = len(tree.children())
    return printable(f"a {data[0].__name__} of {n}")


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
    return type(old) is type(value) and are_same_values(old, value)


# ---- arrays --------------------------------------------------------------------------


def _leaves(path: str, old: Leaf, leaf: Leaf, is_wider: bool) -> Iterator[Cause]:
    if not jaxapi.same_aval(old.aval, leaf.aval):
        yield from _types(path, old, leaf, is_wider)
    if old.sharding != leaf.sharding:
        yield _placement(path, old, leaf)
    elif old.layout != leaf.layout and not (old.default_layout and leaf.default_layout):
        texts = [
            str(getattr(each.layout, "major_to_minor", None)) for each in (old, leaf)
        ]
        yield Cause(
            "layout",
            path,
            f"`{path}` lay in memory as {texts[0]} (major to minor), lies as {texts[1]}",
            "make it in the layout that it has in the first call (`jax.device_put` to a "
            "`Format`)",
        )


def _types(path: str, old: Leaf, leaf: Leaf, is_wider: bool) -> Iterator[Cause]:
    shapes = [getattr(each.aval, "shape", None) for each in (old, leaf)]
    dtypes = [getattr(each.aval, "dtype", None) for each in (old, leaf)]
    was, now = (printable(short_type(each.aval)) for each in (old, leaf))
    if shapes[0] != shapes[1]:
        yield Cause(
            "shape", path, f"`{path}` was {was}, is {now}", _shape_advice(*shapes)
        )
    elif dtypes[0] != dtypes[1]:
        if not is_wider:  # it follows from the setting
            advice = f"convert it to {dtypes[0]} before the call"
            yield Cause("dtype", path, f"`{path}` was {was}, is {now}", advice)
    elif old.aval.weak_type != leaf.aval.weak_type:
        ways = [_weak_text(each) for each in (old, leaf)]
        yield Cause(
            "weak type",
            path,
            f"`{path}` was {ways[0]}, is {ways[1]}",
            f"pass it in the same way each time, such as `jnp.asarray({path}, "
            f"jnp.{dtypes[0]})`",
        )
    elif old.sharding == leaf.sharding:  # else the place says the same
        texts = [
            sharding_text(getattr(each.aval, "sharding", None)) for each in (old, leaf)
        ]
        yield Cause(
            "sharding",
            path,
            f"the type of `{path}` was sharded as {texts[0]}, is as {texts[1]}",
            "shard it in the same way before the call (`jax.device_put` or `jax.reshard`)",
        )


def _weak_text(leaf: Leaf) -> str:
    text = printable(short_type(leaf.aval).rstrip("*"))
    if leaf.kind == "a Python number":
        return f"a Python number (weak {text})"
    return f"weak {text}" if leaf.aval.weak_type else f"{leaf.kind} ({text})"


def _shape_advice(shape: Any, other: Any) -> str:
    if shape is None or other is None or len(shape) != len(other):
        return "give it the same number of axes each time"
    axes = [k for k, (n, m) in enumerate(zip(shape, other)) if n != m]
    which = f"axis {axes[0]}" if len(axes) == 1 else f"axes {', '.join(map(str, axes))}"
    return f"pad {which} to one size, or to one of a few"


def _placement(path: str, old: Leaf, leaf: Leaf) -> Cause:
    texts = [sharding_text(each.sharding) for each in (old, leaf)]
    if old.sharding is None or leaf.sharding is None:
        ways = [
            "not committed to a device"
            if each.sharding is None
            else f"committed to {text}"
            for each, text in zip((old, leaf), texts)
        ]
        return Cause(
            "committed",
            path,
            f"`{path}` was {ways[0]}, is {ways[1]}",
            "`jax.device_put` it to its place before the first call, too",
        )
    devices = [each.sharding.device_set for each in (old, leaf)]
    kinds = [getattr(each.sharding, "memory_kind", None) for each in (old, leaf)]
    if devices[0] == devices[1] and kinds[0] != kinds[1]:
        what = f"`{path}` was in the memory {kinds[0]}, is in {kinds[1]}"
        return Cause("memory", path, what, "keep it in one kind of memory")
    is_single = all(len(each) == 1 for each in devices)
    return Cause(
        "device" if is_single else "sharding",
        path,
        f"`{path}` was on {texts[0]}, is on {texts[1]}",
        "keep it in one place, or compile once for each and expect that",
    )


def sharding_text(sharding: Any) -> str:
    """Write a sharding in a few words."""
    if sharding is None or jaxapi.is_unspecified(sharding):
        return "unspecified"
    if isinstance(sharding, jax.sharding.NamedSharding):
        spec = str(sharding.spec).replace("PartitionSpec", "P")
        axes = ", ".join(f"{k}={v}" for k, v in dict(sharding.mesh.shape).items())
        return printable(f"{spec} of the mesh ({axes})")
    devices = getattr(sharding, "device_set", None)
    if devices:
        return _device_names(sorted(devices, key=lambda device: device.id))
    return shown(sharding)
