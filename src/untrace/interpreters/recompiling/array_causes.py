"""In what an array among the arguments of two calls differs: its type, and where it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from untrace import jaxapi
from untrace.interpreters.recompiling.call_facts import Leaf, shown
from untrace.interpreters.recompiling.cause import Cause
from untrace.printable import printable
from untrace.verification.difference import short_type


def array_causes(path: str, old: Leaf, leaf: Leaf, is_wider: bool) -> Iterator[Cause]:
    """Yield in what an array differs.

    Args:
      path: The path to it.
      old: The array in the earlier call.
      leaf: The array in this call.
      is_wider: Whether 64-bit types were switched on or off between the calls.
    """
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
        return device_names(sorted(devices, key=lambda device: device.id))
    return shown(sharding)


def device_names(devices: Any) -> str:
    """Write devices in a few words."""
    names = [f"{device.platform}:{device.id}" for device in devices]
    if len(names) <= 3:
        return ", ".join(names)
    return f"{len(names)} devices ({names[0]} ...)"
