"""Make the values of params of what is printed of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from untrace.jaxapi import close_jaxpr, printed, unprinted
from untrace.readers.jaxprs.making import Making
from untrace.readers.jaxprs.shard_maps import read_mesh, with_devices
from untrace.readers.jaxprs.syntax import (
    Block,
    Blocks,
    Call,
    Equation,
    Name,
    Printed,
    Raw,
)
from untrace.readers.jaxprs.types import dtype_named

_OPEN = (
    "jaxpr of checkpoint",
    "jaxpr of reduce_window",
    "jaxpr of remat2",
    "jaxpr of run_state",
    "jaxpr of shard_map",
    "jaxpr of pallas_call",
    "call_jaxpr of call",
    "call_jaxpr of core_call",
    "update_jaxpr of ",
    "select_jaxpr of ",
    "scatter_jaxpr of ",
)
"""Params that hold jaxprs without constants; the others are closed."""

_DTYPES = frozenset(
    [
        "dtype",
        "new_dtype",
        "index_dtype",
        "preferred_element_type",
        "out_dtype",
        "input_dtype",
    ]
)
_ENUMS = {
    "algorithm": "RandomAlgorithm",
    "rounding_method": "RoundingMethod",
    "fft_type": "FftType",
    "mode": "GatherScatterMode",
    "precision": "Precision",
}
"""Params whose members are printed as numbers or without their class."""
_PRESETS = frozenset(jax.lax.DotAlgorithmPreset.__members__)
"""Precisions that are printed without their class; the others stand in pairs, with it."""

_USUAL_MEMORY = ("device", "unpinned_host")
"""That of accelerators, and what that of the CPU was called."""

_JAXPRS = (Block, Blocks, Name, Printed, Raw, type(None))
_CLASS = re.compile(r"<class '(?:jax\.numpy|numpy|ml_dtypes|jax\.\w+)\.(\w+)'>")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-FX]+")


class Params:
    """What makes the params of the equations of one text."""

    def __init__(self, builder: Making) -> None:
        self._builder = builder
        self._closed: dict[int, tuple[Any, Any]] = {}

    def read(self, eqn: Equation, jaxprs: Mapping[str, list[Any]]) -> dict[str, Any]:
        """Return the params of an equation; those that only it has are left as nodes.

        Args:
          jaxprs: The jaxprs that were made for some of them.
        """
        found: dict[str, Any] = {}
        for name, value in eqn.params.items():
            made = jaxprs.get(name)
            if made is None:
                found[name] = self.value(value, name, eqn)
            elif isinstance(value, Blocks):
                found[name] = tuple([self.closed(j, name, eqn) for j in made])
            else:
                found[name] = self.closed(made[0], name, eqn)
        return found

    def closed(self, jaxpr: Any, param: str, eqn: Equation) -> Any:
        """Close a jaxpr where closed ones stand."""
        if f"{param} of {eqn.primitive}".startswith(_OPEN):
            return jaxpr
        found = self._closed.get(id(jaxpr))
        if found is None:
            found = self._closed[id(jaxpr)] = jaxpr, close_jaxpr(jaxpr)
        return found[1]

    def value(self, value: Any, param: str, eqn: Equation) -> Any:
        """Return what a value is that is printed."""
        if param == "policy" and isinstance(value, str):
            return self.policy(value, eqn)
        if param.endswith("jaxpr") and not isinstance(value, _JAXPRS):
            self._builder.fail(
                f"`{param}` of `{eqn.primitive}` must be a jaxpr", eqn.at
            )
        if param in ("ctx_mesh", "context_mesh") and isinstance(value, Call):
            return self.context_mesh(value, eqn)
        maker = _MAKERS.get(type(value))
        if maker is not None:
            return maker(self, value, param, eqn)
        if param in _ENUMS and type(value) is int:
            return printed.PARAM_CLASSES[_ENUMS[param]](value)
        return value

    def context_mesh(self, value: Call, eqn: Equation) -> Any:
        """Return the mesh that a function was traced in, with its devices."""
        mesh = read_mesh(value)
        if value.name == "Mesh" and not value.args:
            return unprinted.EMPTY_MESH
        if mesh is None or value.name == "AbstractMesh":
            return value if mesh is None else mesh
        found = with_devices(mesh)
        if found is None and eqn.primitive == "sharding_constraint":
            return unprinted.EMPTY_MESH  # its sharding has the mesh, too
        if found is None:
            self._builder.fail(
                f"the devices of the mesh `ctx_mesh` of `{eqn.primitive}` are not printed",
                value.at,
                "Enter such a mesh by `jax.set_mesh`.",
            )
        return found

    def block(self, value: Block, param: str, eqn: Equation) -> Any:
        """Return a jaxpr that takes no operands as they are."""
        return self.closed(self._builder.from_text(value), param, eqn)

    def printed(self, value: Printed, param: str, eqn: Equation) -> Any:
        """Return a jaxpr in a value, before which others are defined."""
        return self.closed(self._builder.inner(value), param, eqn)

    def blocks(self, value: Blocks, param: str, eqn: Equation) -> Any:
        """Return several jaxprs."""
        return tuple([self.value(item, param, eqn) for item in value.items])

    def items(self, value: Any, param: str, eqn: Equation) -> Any:
        """Return a tuple or a list as a tuple: params can be hashed."""
        return tuple([self.value(item, param, eqn) for item in value])

    def name(self, value: Name, param: str, eqn: Equation) -> Any:
        """Return what a word means: a member, a dtype, a jaxpr, or a text."""
        text = value.text
        if param in _DTYPES:
            found = dtype_named(text.rpartition(".")[2])
            if found is not None:
                return found
        if param.endswith("jaxpr") or param in ("branches", "call"):
            shared = self._builder.shared_block(text, value.at)
            return self.closed(self._builder.from_text(shared), param, eqn)
        if param == "select_prim":
            return printed.primitive_named(text)
        if param == "impl":
            return printed.key_implementation(text)
        if text in ("UnspecifiedValue", "UNSPECIFIED"):
            return unprinted.UNSPECIFIED_SHARDING
        kind, _, member = text.rpartition(".")
        kind = kind.rpartition(".")[2] or _ENUMS.get(param, "")
        kinds = ("DotAlgorithmPreset", kind) if text in _PRESETS else (kind,)
        for kind in kinds if param == "precision" else kinds[-1:]:
            found = getattr(printed.PARAM_CLASSES.get(kind), member, None)
            if kind and found is not None:
                return found
        return text

    def call(self, value: Call, param: str, eqn: Equation) -> Any:
        """Return what is printed like a call of its class."""
        if value.name == "dtype" and value.args:
            found = dtype_named(str(value.args[0]))
            if found is not None:
                return found
        if value.name == "PyTreeDef":
            return self._tree(value)
        if value.name in ("frozenset", "set"):
            return self._set(value)
        if value.name == "NamedSharding":
            return self._sharding(value, param, eqn)
        if value.name == "PRNGImpl" and isinstance(value.kwargs.get("tag"), str):
            return printed.key_implementation(value.kwargs["tag"])
        if value.name.endswith("Device") and param == "devices":
            device = unprinted.device(value.name, value.kwargs.get("id"))
            return value if device is None else device
        if value.name in ("P", "PartitionSpec"):
            kind: Any = jax.sharding.PartitionSpec
        elif value.name == "range" and all(type(item) is int for item in value.args):
            kind = range
        else:
            kind = printed.PARAM_CLASSES.get(value.name)
        args = [self.value(item, param, eqn) for item in value.args]
        kwargs = {k: self.value(item, k, eqn) for k, item in value.kwargs.items()}
        if kind is None:
            return value._replace(args=tuple(args), kwargs=kwargs)
        try:
            return kind(*args, **kwargs)
        except (TypeError, ValueError) as error:
            self._builder.fail(f"this is no `{value.name}`: {error}", value.at)

    def _set(self, value: Call) -> Any:
        """Return a set; an empty one is printed as `frozenset({})`, `set()`, ..."""
        try:
            return frozenset().union(*value.args)
        except TypeError:
            self._builder.fail(f"this is no `{value.name}`", value.at)

    def _sharding(self, value: Call, param: str, eqn: Equation) -> Any:
        """Return a sharding over a mesh without devices; the node if it is none."""
        mesh = read_mesh(value.kwargs.get("mesh"))
        spec = self.value(value.kwargs.get("spec"), param, eqn)
        if mesh is None or not isinstance(spec, jax.sharding.PartitionSpec):
            return value
        memory = getattr(value.kwargs.get("memory_kind"), "text", "device")
        kind = None if memory in _USUAL_MEMORY else memory
        try:
            return jax.sharding.NamedSharding(mesh, spec, memory_kind=kind)
        except (TypeError, ValueError) as error:
            self._builder.fail(f"this is no `NamedSharding`: {error}", value.at)

    def _tree(self, value: Call) -> Any:
        """Return the structure of plain containers; the node of any other."""
        try:
            return jax.tree.structure(_containers(value.args[0]))
        except (LookupError, TypeError, ValueError):
            return value

    def raw(self, value: Raw, param: str, eqn: Equation) -> Any:
        """Return what a value is that is known by how it is printed; else its node."""
        if param.endswith("jaxpr"):
            return self.name(Name(value.text, value.at), param, eqn)
        found = _CLASS.fullmatch(value.text)
        if found:
            dtype = dtype_named(found[1])
            is_own = value.text.startswith("<class 'jax.numpy.")
            if dtype is not None and is_own:
                return getattr(jax.numpy, found[1])
            return value if dtype is None else np.dtype(dtype).type
        return value

    def policy(self, text: str, eqn: Equation) -> Any:
        """Return the policy of `jax.checkpoint_policies` that prints so."""
        if text == "None":
            return None
        shown = _ADDRESS.sub("", text)
        for policy in vars(jax.checkpoint_policies).values():
            if _ADDRESS.sub("", str(policy)) == shown:
                return policy
        named = unprinted.named_policy(text)
        if named is not None:
            return named
        self._builder.fail(
            f"what the policy `{shown}` keeps is not printed",
            eqn.at,
            "Policies of `jax.checkpoint_policies` that take no arguments are known.",
        )


def _containers(value: Any) -> Any:
    """Return the containers of a tree as it is printed, with numbers as leaves."""
    if isinstance(value, Name):
        if value.text != "*":
            raise ValueError(value.text)
        return 0
    if isinstance(value, Call | Raw):
        raise ValueError("a container of another kind")
    if isinstance(value, dict):
        items: dict[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return {key: _containers(item) for key, item in items.items()}
    if isinstance(value, tuple | list):
        made = [_containers(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        return tuple(made) if isinstance(value, tuple) else made
    return value


Maker = Callable[[Params, Any, str, Equation], Any]
_MAKERS: dict[type, Maker] = {
    Block: Params.block,
    Blocks: Params.blocks,
    Call: Params.call,
    Name: Params.name,
    Printed: Params.printed,
    Raw: Params.raw,
    list: Params.items,
    tuple: Params.items,
}
