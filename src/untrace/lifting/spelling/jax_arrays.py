"""Write arrays that NumPy cannot make: JAX's own scalars, and weakly typed arrays.

A NumPy scalar becomes a literal when it is traced; a `jax.Array` without axes stays a
constant of the jaxpr. NumPy knows no weak types, which `jnp.full(3, 2.0)` has.
"""

from __future__ import annotations

import re
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.jaxapi import written
from untrace.lifting.spelling.arrays import spell_array
from untrace.lifting.spelling.base import Imports
from untrace.lifting.spelling.numbers import read_number
from untrace.syntax.text import quote

# A number of NumPy whose type makes an array of JAX under the same name.
_SCALAR = re.compile(r"\w+\.((?:u?int(?:8|16|32|64)|float(?:16|32|64))\([-+.\w]+\))")
_PYTHON_TYPES = {"i": int, "f": float, "c": complex}


def spell_constant(value: Any, imports: Imports, *, inline_limit: int) -> str | None:
    """Write an array that is to be a constant of the jaxpr; None if it is too large."""
    is_scalar = isinstance(value, jax.Array) and value.shape == ()
    if not is_scalar or jaxapi.is_key_array(value) or _is_weak(value):
        return spell_typed_array(value, imports, inline_limit=inline_limit)
    scalar = np.asarray(value)[()]
    text = str(scalar) if scalar.dtype == bool else spell_array(scalar, imports)
    jnp, plain = imports.module("jax.numpy"), _SCALAR.fullmatch(text or "")
    return f"{jnp}.{plain[1]}" if plain else f"{jnp}.asarray({text})"


def spell_typed_array(value: Any, imports: Imports, *, inline_limit: int) -> str | None:
    """Write an array with its weak type; None if it is too large to be written out."""
    if _is_weak(value):
        filled = _filled(np.asarray(value), imports)
        if filled is not None:
            return filled
    text = spell_array(value, imports, inline_limit=inline_limit)
    return None if text is None else with_weak_type(text, value, imports)


def with_weak_type(text: str, typed: Any, imports: Imports) -> str:
    """Wrap the text of an array so that it gets the weak type of an array or aval."""
    if not _is_weak(typed):
        return text
    convert = imports.attribute(written.PRIMITIVES, "convert_element_type_p")
    dtype = f"{imports.module('numpy')}.dtype({quote(str(typed.dtype))})"
    return f"{convert}.bind({text}, new_dtype={dtype}, weak_type=True, sharding=None)"


def _is_weak(typed: Any) -> bool:
    return bool(getattr(typed, "weak_type", False))


def _filled(value: np.ndarray[Any, Any], imports: Imports) -> str | None:
    """Write an array of one Python number, if it has the dtype that JAX gives those."""
    python_type = _PYTHON_TYPES.get(value.dtype.kind)
    if python_type is None or not value.size:
        return None
    if jax.dtypes.canonicalize_dtype(python_type) != value.dtype:
        return None
    number = read_number(value.reshape(-1)[0])
    if np.full_like(value, number.value).tobytes() != value.tobytes():
        return None
    jnp, text = imports.module("jax.numpy"), number.spell(imports.module("numpy"))
    if not value.shape:
        return f"{jnp}.array({text})"
    axes = value.shape[0] if value.ndim == 1 else value.shape
    return f"{jnp}.full({axes}, {text})"
