"""Write the context managers under which an equation was traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from untrace import jaxapi
from untrace.lifting.lifter import Lifter


def managers(context: Any, ambient: Any, lifter: Lifter) -> list[str]:
    """List the `with` items that turn the ambient context into `context`."""
    if context is ambient:
        return []
    now, before = jaxapi.context_fields(context), jaxapi.context_fields(ambient)
    return [
        WRITERS[field](value, lifter)
        for field, value in now.items()
        if value != before.get(field)
    ]


def _compute_on(value: Any, lifter: Lifter) -> str:
    name = lifter.imports.attribute("jax.experimental.compute_on", "compute_on")
    return f"{name}({lifter.spell(value)})"


def _metadata(value: Any, lifter: Lifter) -> str:
    name = lifter.imports.attribute("jax.experimental.xla_metadata", "set_xla_metadata")
    items = ", ".join(f"{key}={lifter.spell(item)}" for key, item in (value or {}).items())
    return f"{name}({items})"


def _threefry(value: Any, lifter: Lifter) -> str:
    lifter.imports.module("jax")
    return f"jax.threefry_partitionable({value!r})"


def _mesh(value: Any, lifter: Lifter) -> str:
    lifter.imports.module("jax")
    return f"jax.sharding.use_abstract_mesh({lifter.spell(value)})"


def _config(option: str) -> Callable[[Any, Lifter], str]:
    def write(value: Any, lifter: Lifter) -> str:
        config = lifter.imports.attribute("jax._src", "config")
        return f"{config}.{option}({lifter.spell(value)})"

    return write


WRITERS: dict[str, Callable[[Any, Lifter], str]] = {
    "compute_type": _compute_on,
    "xla_metadata": _metadata,
    "threefry_partitionable": _threefry,
    "cur_abstract_mesh": _mesh,
    "remove_size_one_mesh_axis": _config("remove_size_one_mesh_axis_from_type"),
    "no_collectives": _config("no_collectives"),
    "cur_layout_mode": _config("layout_mode"),
}
