"""Types of values: avals, dtypes, typed PRNG keys, and what they say of a value.

The fields of an aval differ: `layout` came with jax 0.11.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as _np
from jax._src import core as _core
from jax._src import dtypes as _dtypes
from jax._src.random import prng as _prng

from untrace.jaxapi.jaxprs import Tracer

ShapedArray = _core.ShapedArray
JaxArray = jax.Array
ExtendedDType = _dtypes.ExtendedDType
FLOAT0 = _dtypes.float0
KeyTy: type[Any] = _prng.KeyTy
PRNGImpl = _prng.PRNGImpl
PRNGS: dict[str, Any] = _prng.prngs
PRNGS_MODULE = _prng.__name__
# The fields of an aval beyond shape, dtype and weak type; `layout` came with jax 0.11.
AVAL_FIELDS = tuple(
    name
    for name in ("sharding", "manual_axis_type", "memory_space", "layout")
    if name in ShapedArray.__slots__
)


def aval_of(value: Any) -> Any:
    """Return the aval that tracing gives a value."""
    return _core.shaped_abstractify(value)


def cotangent_type(value: Any) -> Any:
    """Return the type of the cotangents of a value, or of one of its type."""
    return jax.typeof(value).to_ct_aval()


def short_type(aval: Any) -> str:
    """Write an aval as in a jaxpr: `f32[4,128]`."""
    return str(aval.str_short(short_dtypes=True))


def is_plain_aval(aval: Any) -> bool:
    """Whether `jax.ShapeDtypeStruct` describes the aval completely."""
    if type(aval) is not ShapedArray:
        return False
    plain = ShapedArray(
        aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=aval.sharding
    )
    return bool(plain == aval)


def same_aval(one: Any, other: Any) -> bool:
    """Whether two avals are equal, weak types and shardings included."""
    return one is other or one == other


def same_type(one: Any, other: Any) -> bool:
    """Whether two avals are equal but for weak types, as loops demand."""
    return _core.typematch(one, other)


def is_token(aval: Any) -> bool:
    """Whether an aval is that of a token, which only orders effects."""
    return isinstance(aval, _core.AbstractToken)


def dtype_kind(dtype: Any) -> str:
    """Sort dtypes by what values they hold."""
    if dtype == _dtypes.float0:
        return "float0"
    for kind, parent in (
        ("bool", _np.bool_),
        ("integer", _np.integer),
        ("complex", _np.complexfloating),
    ):
        if _dtypes.issubdtype(dtype, parent):
            return kind
    return "floating"


def is_key(aval: Any) -> bool:
    """Whether an aval is one of typed PRNG keys."""
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and _dtypes.issubdtype(dtype, _dtypes.prng_key)


def key_impl_name(aval: Any) -> str:
    """Return the name of the implementation of a key aval, as in `jax.random.key`."""
    return aval.dtype._impl.name


def default_key_impl() -> str:
    """Return the name of the implementation that `jax.random.key` takes by default."""
    config: Any = jax.config
    return config.jax_default_prng_impl


def is_key_array(value: Any) -> bool:
    """Whether `value` is an array of typed PRNG keys."""
    return isinstance(value, JaxArray) and isinstance(value.dtype, KeyTy)


def is_traceable(value: Any) -> bool:
    """Whether JAX can trace a value as an array argument."""
    if isinstance(value, jax.ShapeDtypeStruct):
        return True
    try:
        _core.typeof(value)
    except TypeError:
        return False
    return True


def is_concrete(value: Any) -> bool:
    """Whether a value is an array whose elements can be read here."""
    return not isinstance(value, (Tracer, jax.ShapeDtypeStruct)) and hasattr(
        value, "dtype"
    )


def is_python_scalar(value: Any) -> bool:
    """Whether a value is a plain Python scalar, which traces weakly typed."""
    return type(value) in (bool, int, float, complex)


def is_number(value: Any) -> bool:
    """Whether a scalar is a plain integer or float, of any width NumPy has."""
    return _np.asarray(value).dtype.kind in "iuf"


def is_static_dim(value: Any) -> bool:
    """Whether the start or size of a slice was known when it was traced."""
    return isinstance(value, int)
