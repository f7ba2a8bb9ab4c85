"""What a printed jaxpr is made of again: primitives by name, types, params, equations."""

# These are JAX's private hooks; `tests/readers` checks each on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import core as _core
from jax._src import dispatch as _dispatch
from jax._src import literals as _literals
from jax._src.interpreters import ad as _ad
from jax._src.interpreters import mlir as _mlir
from jax._src.interpreters import partial_eval as _pe
from jax._src.lax import convolution as _convolution
from jax._src.lax import lax as _lax
from jax._src.lax import slicing as _slicing
from jax._src.lax.control_flow import solves as _solves
from jax._src.random import prng as _prng
from jax._src.state import primitives as _state_primitives
from jax._src.state import types as _state_types
from jax.export import symbolic_shape

from untrace.jaxapi.jaxprs import Jaxpr, split_jaxpr
from untrace.jaxapi.params import HiPrimitive
from untrace.jaxapi.placing import TextSourceInfo
from untrace.jaxapi.primitives import own_primitives

# Modules whose primitives are looked for only if a text names one that is not known.
_FURTHER = (
    "jax._src.checkify",
    "jax._src.shard_map",
    "jax.experimental.pallas",
    "jax.experimental.sparse",
)
_OF_KERNELS = "jax._src.pallas.primitives"
PARAM_CLASSES: dict[str, Any] = {
    one.__name__: one
    for one in (
        _convolution.ConvDimensionNumbers,
        _core.MemorySpace,
        _lax.AccuracyMode,
        _lax.DotAlgorithm,
        _lax.DotAlgorithmPreset,
        _lax.Precision,
        _lax.RaggedDotDimensionNumbers,
        _lax.RandomAlgorithm,
        _lax.RoundingMethod,
        _lax.Tolerance,
        _dispatch.ArrayCopySemantics,
        _slicing.GatherDimensionNumbers,
        _slicing.GatherScatterMode,
        _slicing.ScatterDimensionNumbers,
        _solves._LinearSolveTuple,
        jax.lax.FftType,
        jax.sharding.PartitionSpec,
    )
}
"""Classes of values of params, by the names that are printed."""

DEFAULT_DTYPES = tuple(map(np.dtype, ("int32", "float32", "complex64")))
"""The types that JAX gives numbers of Python, where it does not compute in 64 bits."""


# -- primitives


def primitive_named(name: str) -> Any:
    """Return the primitive of JAX that has a name, None if there is none."""
    found = _known().get(name)
    return _known(_FURTHER).get(name) if found is None else found


def class_primitive(name: str, avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Return the primitive and the params of an equation that prints as a class.

    jax 0.12 makes an object of a class of some operations, such as `Nonzero`, which it
    prints as if it were a primitive. None if there is no such class; raises what making
    the object raises.
    """
    found = [kind for kind in _subclasses(HiPrimitive) if kind.__name__ == name]
    if not found or not found[0].__module__.startswith("jax."):
        return None
    primitive = importlib.import_module("jax._src.hijax").call_hi_primitive_p
    known = inspect.signature(found[0].__init__).parameters
    given = {k: v for k, v in params.items() if k in known}
    return primitive, {"_prim": found[0](*avals, **given)}


def _subclasses(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)


def primitive_names() -> list[str]:
    """Return the names of all primitives that are known."""
    return list(_known(_FURTHER))


@functools.cache
def _known(modules: tuple[str, ...] = ()) -> dict[str, Any]:
    for module in modules:
        if importlib.util.find_spec(module) is not None:
            importlib.import_module(module)
    found: dict[str, Any] = {}
    tables: list[Mapping[Any, Any]] = [
        _mlir._lowerings,
        *_mlir._platform_specific_lowerings.values(),
        _ad.primitive_jvps,
        _pe.custom_staging_rules,
        _pe.dce_rules,
        dict.fromkeys(_primitives_of(_state_primitives)),
        dict.fromkeys(_primitives_of(sys.modules.get(_OF_KERNELS))),
    ]
    for table in tables:
        for primitive in table:
            found.setdefault(primitive.name, primitive)
    found |= own_primitives()
    return found


def _primitives_of(module: Any) -> Iterator[Any]:
    known = vars(module).values() if module is not None else ()
    return (one for one in known if isinstance(one, _core.Primitive))


# -- types


def array_type(
    shape: tuple[Any, ...],
    dtype: Any,
    is_weak: bool = False,
    memory: str = "",
    parts: Sequence[Any] = (),
) -> Any:
    """Return the aval of an array; KeyError if there is no such memory.

    `parts` are the axes of the mesh of this context that each dimension is spread over.
    """
    known = {space.name.lower(): space for space in _core.MemorySpace}
    space = known[memory] if memory else _core.MemorySpace.Device
    how: Any = {"weak_type": is_weak, "memory_space": space}
    mesh = jax.sharding.get_abstract_mesh()
    if not mesh.empty:
        spec = jax.sharding.PartitionSpec(*(parts or (None,) * len(shape)))
        how["sharding"] = jax.sharding.NamedSharding(mesh, spec)
    return _core.ShapedArray(shape, dtype, **how)


def literal_type(aval: Any) -> Any:
    """Return the type of a literal: numbers of Python are typed by no mesh.

    Where a program runs on each device of a mesh, JAX's own numbers are.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or not (mesh.explicit_axes or is_weak(aval)):
        return aval
    return _core.ShapedArray(aval.shape, aval.dtype, weak_type=is_weak(aval))


def mesh_axes() -> tuple[str, ...]:
    """Return the names of the axes of the mesh of this context, if there is one."""
    return jax.sharding.get_abstract_mesh().axis_names


def with_weak_type(aval: Any, is_weak: bool) -> Any:
    """Return an aval with another weak type."""
    return aval.update(weak_type=is_weak)


def is_plain_array(aval: Any) -> bool:
    """Whether a type is of arrays of numbers, and not of keys or references."""
    return isinstance(getattr(aval, "dtype", None), np.dtype)


def can_be(value: Any, dtype: Any) -> bool:
    """Whether a number is printed as those of a type are: `0` is no float, `0.0` is."""
    kinds: dict[type, str] = {bool: "b", int: "iuV", float: "fV", complex: "c"}
    kind = dtype.kind if dtype.kind != "V" else _extension_kind(dtype)
    return kind in kinds.get(type(value), "")


def _extension_kind(dtype: Any) -> str:
    """Return the kind of a type of elements that NumPy does not have, such as bfloat16."""
    return "f" if "float" in str(dtype) else "i"


def is_weak(aval: Any) -> bool:
    """Whether a type is weak."""
    return bool(getattr(aval, "weak_type", False))


def is_same_array(one: Any, other: Any) -> bool:
    """Whether two types are of arrays of one shape and one type of elements."""
    shapes = getattr(one, "shape", None), getattr(other, "shape", None)
    dtypes = getattr(one, "dtype", None), getattr(other, "dtype", None)
    return None not in shapes and shapes[0] == shapes[1] and dtypes[0] == dtypes[1]


def result_types(jaxpr: Any) -> list[Any]:
    """Return the types of the results of an open jaxpr."""
    return list(jaxpr.out_avals)


def retyped(atom: Any, aval: Any) -> Any:
    """Return a literal at another type."""
    return literal(np.asarray(atom.val).item(), aval)


def key_dtype(name: str) -> Any:
    """Return the dtype of keys that prints as `key<name>`, None if there is none."""
    found = [impl for impl in _prng.prngs.values() if name in (impl.tag, impl.name)]
    return _prng.KeyTy(found[0]) if found else None


def key_implementation(name: str) -> Any:
    """Return what makes keys, by its name or the mark that it prints; None if unknown."""
    found = [impl for impl in _prng.prngs.values() if name in (impl.tag, impl.name)]
    return found[0] if found else None


def reference_type(content: Any) -> Any:
    """Return the aval of a mutable array."""
    return _state_types.AbstractRef(content)


TOKEN_TYPE: Any = _core.abstract_token


def symbolic_dimensions(text: str, scope: Any = None) -> tuple[Any, ...]:
    """Return a shape with symbolic dimensions, such as `b, 2*b`.

    Raises:
      ValueError: If it is none.
    """
    try:
        return tuple(symbolic_shape(text, scope=scope))
    except Exception as error:  # of its tokenizer
        raise ValueError(f"`[{text}]` is no shape: {error}") from error


def literal(value: Any, aval: Any) -> Any:
    """Return a literal: a number of Python, as it is written, where its type is weak."""
    dtype = getattr(aval, "dtype", None)
    if isinstance(dtype, np.dtype):
        plain = np.asarray(value).astype(dtype)
        typed = _TYPED.get(type(value)) if aval.weak_type else None
        kinds = {float: "fV", int: "iu", complex: "c"}
        if typed is not None and dtype.kind in kinds[type(value)]:
            value = typed(value, dtype)
        else:
            value = _literals.TypedNdArray(plain, aval)
    return _core.Literal(value, aval)


_TYPED: dict[type, Any] = {
    int: _literals.TypedInt,
    float: _literals.TypedFloat,
    complex: _literals.TypedComplex,
}


def is_rounded(value: Any, dtype: Any) -> bool:
    """Whether a number is none of the numbers of a type: only Python keeps such ones."""
    if not isinstance(value, float) or value - value != 0 or dtype == np.float64:
        return False
    return float(np.asarray(value).astype(dtype)) != value


# -- equations


def infer(primitive: Any, avals: Sequence[Any], params: Mapping[str, Any]) -> Any:
    """Return the types of the results of an equation, and its effects.

    Raises what the rules of the primitive raise, of any class.
    """
    called = params.get("call_jaxpr")
    if called is not None and is_call(primitive):
        return list(split_jaxpr(called)[0].out_avals), _core.positional_effects(called)
    results, effects = primitive.abstract_eval(*avals, **params)
    return list(results) if primitive.multiple_results else [results], effects


def is_call(primitive: Any) -> bool:
    """Whether a primitive only calls its jaxpr."""
    return getattr(primitive, "call_primitive", False) or primitive.name in (
        "custom_jvp_call",
        "custom_vjp_call",
    )


def accepts(primitive: Any, avals: Sequence[Any], params: Mapping[str, Any]) -> bool:
    """Whether an equation has the params that its primitive needs."""
    try:
        infer(primitive, avals, params)
    except TypeError:  # a rule of JAX misses an argument
        return False
    return True


def equation(
    primitive: Any,
    inputs: list[Any],
    outputs: list[Any],
    params: dict[str, Any],
    effects: Any,
    line: tuple[int, str],
) -> Any:
    """Return an equation of a jaxpr, which stands in a line of a text."""
    info = TextSourceInfo(*line)
    return _core.new_jaxpr_eqn(inputs, outputs, primitive, params, effects, info)


def assembled(
    inputs: list[Any],
    outputs: list[Any],
    equations: list[Any],
    name: str,
    input_names: Sequence[str],
) -> Any:
    """Return an open jaxpr, whose debug info names it and its inputs."""
    effects = _pe.make_jaxpr_effects([], inputs, outputs, equations)
    debug = _core.DebugInfo("untrace", name, tuple(input_names), None)
    return Jaxpr([], inputs, outputs, equations, effects, debug)
