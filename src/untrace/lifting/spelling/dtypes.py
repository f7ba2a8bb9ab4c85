"""Write dtypes: as a public scalar type for calls, as the exact object for params."""

from __future__ import annotations

import functools
from typing import Any

import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.lifting.spelling.base import Imports, Speller, Unspellable, writes
from untrace.syntax.text import quote


def spell_dtype(dtype: Any, imports: Imports) -> str:
    """Write a dtype the way a public JAX call takes it: `jnp.float32`.

    >>> from untrace.lifting.spelling import PlainImports
    >>> spell_dtype(np.dtype("float32"), PlainImports())
    'jnp.float32'
    """
    if isinstance(dtype, jaxapi.ExtendedDType) or not is_scalar_dtype(np.dtype(dtype)):
        return Speller(imports).spell(dtype)
    return f"{imports.module('jax.numpy')}.{scalar_name(np.dtype(dtype))}"


def spell_numpy_dtype(dtype: np.dtype[Any], imports: Imports) -> str:
    """Write a dtype the way a call of NumPy takes it, which has not all of them.

    >>> from untrace.lifting.spelling import PlainImports
    >>> spell_numpy_dtype(np.dtype("float32"), PlainImports())
    'np.float32'
    """
    if is_plain(dtype):
        return f"{imports.module('numpy')}.{scalar_name(dtype)}"
    if dtype == jaxapi.FLOAT0:
        return spell_dtype_object(dtype, imports)
    return f"{imports.module('jax.numpy')}.{scalar_name(dtype)}"


def spell_dtype_object(dtype: np.dtype[Any], imports: Imports) -> str:
    """Write exactly this `np.dtype`: `jnp.dtype("float32")`."""
    if dtype == jaxapi.FLOAT0:
        return f"{imports.module('jax')}.dtypes.float0"
    if is_scalar_dtype(dtype):
        return f"{imports.module('jax.numpy')}.dtype({quote(dtype.name)})"
    if dtype.fields is None and np.dtype(dtype.str) == dtype and dtype.kind != "V":
        return f"{imports.module('numpy')}.dtype({quote(dtype.str)})"
    raise Unspellable(dtype, "JAX has no such dtype")


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy itself has `dtype`; `kind` alone does not say."""
    return dtype.isbuiltin == 1 and dtype.kind in "biufc"


# numpy works the name of a dtype out anew every time.
@functools.lru_cache(maxsize=256)
def is_scalar_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether `jax.numpy` has a scalar type for `dtype`."""
    return dtype.isbuiltin != 0 and hasattr(jnp, scalar_name(dtype)) and dtype.isnative


@functools.lru_cache(maxsize=256)
def scalar_name(dtype: np.dtype[Any]) -> str:
    """Return the name of the scalar type of `dtype` in `jax.numpy`."""
    return "bool_" if dtype.name == "bool" else dtype.name


@writes(np.dtype, memo=True)
def _spell_dtype(speller: Speller, value: np.dtype[Any]) -> str:
    return spell_dtype_object(value, speller.imports)


@writes(jaxapi.KeyTy, memo=True)
def _spell_key_type(speller: Speller, value: Any) -> str:
    """Get the dtype of a key abstractly: no device is touched."""
    name = value._impl.name
    if jaxapi.PRNGS.get(name) != value._impl:
        raise Unspellable(value, f"the PRNG `{name}` is not registered with JAX")
    root = speller.imports.module("jax")
    make_key = f"lambda: {root}.random.key(0, impl={quote(name)})"
    return f"{root}.eval_shape({make_key}).dtype"


@writes(jaxapi.PRNGImpl, memo=True)
def _spell_prng_impl(speller: Speller, value: Any) -> str:
    if jaxapi.PRNGS.get(value.name) != value:
        raise Unspellable(value, f"the PRNG `{value.name}` is not registered with JAX")
    return f"{speller.imports.attribute(jaxapi.PRNGS_MODULE, 'prngs')}[{quote(value.name)}]"
