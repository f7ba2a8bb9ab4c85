"""Write arrays and scalars as NumPy expressions that rebuild them bit for bit.

The expressions use NumPy (and `jax.numpy` for dtypes that NumPy lacks), so that a
generated module touches no device when it is imported; what only JAX can make is in
`jax_arrays.py`. Patterns (zeros, eye, arange, …) are recognised first and accepted only
if they give the same bits; other arrays are written out when they are small. Large ones
go to a sidecar file (`sidecar`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.lifting.spelling.base import Imports, PlainImports, Unspellable
from untrace.lifting.spelling.dtypes import (
    is_plain,
    is_scalar_dtype,
    spell_dtype_object,
    spell_numpy_dtype,
)
from untrace.lifting.spelling.numbers import read_number, spell_complex, spell_float
from untrace.syntax.text import quote

Array = np.ndarray[Any, np.dtype[Any]]

N_PATTERN = 5
"""Fewest elements for which `arange` and the like read better than a list."""

N_REPEATED, MIN_TIMES = 13, 3
"""Fewest elements of an array that is written by `tile`, and fewest times of what it repeats."""

MAX_RANGE = 2**53
"""Largest bound of an `arange`; NumPy counts in doubles."""


_DEFAULTS = {"float64": float, "bool": bool}
"""The Python numbers that NumPy makes such arrays of, where nothing else is asked for."""


def spell_array(value: Any, imports: Imports, *, inline_limit: int = 64) -> str | None:
    """Write a constant array as an expression that rebuilds it bit for bit.

    Args:
      value: A NumPy or JAX array, a NumPy scalar or an array of typed PRNG keys.
      imports: Receives the imports that the text needs.
      inline_limit: Largest array, in elements, to write out (>= 0).

    Returns:
      The expression, or None if the array is too large: it belongs in a sidecar.

    Raises:
      Unspellable: If JAX has no arrays of this dtype.

    >>> spell_array(np.ones((2, 3), np.float32), PlainImports())
    'np.ones((2, 3), dtype=np.float32)'
    """
    if jaxapi.is_key_array(value):
        seed = _seed(value)
        if seed is not None:
            return f"{imports.module('jax')}.random.key({seed})"
        data = spell_array(
            jax.random.key_data(value), imports, inline_limit=inline_limit
        )
        return (
            None if data is None else _key_template(value, imports).format(array=data)
        )
    if isinstance(value, np.generic):
        return _spell_numpy_scalar(value, imports)
    return _spell_ndarray(np.asarray(value), imports, inline_limit)


def spell_scalar(value: Any, aval: Any, imports: Imports) -> str:
    """Write a scalar so that tracing with it gives a literal of this aval.

    Args:
      value: A Python or NumPy scalar or a 0-d array.
      aval: Its dtype and weak type: weak scalars become bare Python numbers.
      imports: Receives the imports that the text needs.

    >>> spell_scalar(0.5, jax.core.ShapedArray((), np.dtype("float32")), PlainImports())
    'np.float32(0.5)'
    """
    if jaxapi.is_key_array(value):
        return str(spell_array(value, imports))
    if isinstance(aval.dtype, jaxapi.ExtendedDType):
        raise Unspellable(value, "a scalar of an extended dtype")
    scalar = np.asarray(value, dtype=aval.dtype)[()]
    if not aval.weak_type:
        return _spell_numpy_scalar(scalar, imports)
    if isinstance(value, float):
        return spell_float(float(value))
    if isinstance(value, complex):
        return spell_complex(complex(value))
    return read_number(scalar).spell()


def storage_view(array: Any, imports: Imports | None = None) -> tuple[Array, str]:
    """View an array in a dtype that safetensors files have.

    Returns:
      The view, and a template whose `{array}` stands for the stored array and which
      gives back the original dtype, exactly. Names go through `imports`, if given.
    """
    names = imports or PlainImports()
    if jaxapi.is_key_array(array):
        return np.asarray(jax.random.key_data(array)), _key_template(array, names)
    held = np.asarray(array)
    _check_dtype(held)
    if held.dtype == jaxapi.FLOAT0:
        return np.zeros(0, np.bool_), str(spell_array(held, names))
    if held.dtype.kind == "c":
        parts = (
            np.ascontiguousarray(held).reshape(*held.shape, 1).view(_part_dtype(held))
        )
        dtype = spell_numpy_dtype(held.dtype, names)
        return parts, f"{{array}}.view({dtype})[..., 0]"
    if is_plain(held.dtype):
        return held, "{array}"
    return _bits(held), f"{{array}}.view({spell_numpy_dtype(held.dtype, names)})"


def _seed(value: Any) -> int | None:
    """Return the seed that gives a single key of JAX's default kind; None if unknown."""
    name = str(jax.random.key_impl(value))
    if value.shape or not name == jaxapi.default_key_impl() == "threefry2x32":
        return None
    high, low = np.asarray(jax.random.key_data(value)).tolist()
    return low if high == 0 and low <= np.iinfo(np.int32).max else None


def _key_template(value: Any, imports: Imports) -> str:
    name = str(jax.random.key_impl(value))
    root = imports.module("jax")
    impl = quote(name).replace("{", "{{").replace("}", "}}")  # the text is a template
    return f"{root}.random.wrap_key_data({{array}}, impl={impl})"


def _spell_ndarray(value: Array, imports: Imports, limit: int) -> str | None:
    _check_dtype(value)
    root = imports.module("numpy")
    dtype = spell_numpy_dtype(value.dtype, imports)
    if value.dtype == jaxapi.FLOAT0:
        return f"{root}.zeros({value.shape}, {dtype})"
    for recognise in _PATTERNS:
        pattern = recognise(value, root)
        if pattern is not None and _is_same(pattern[0], value):
            return f"{root}.{pattern[1]}dtype={dtype}){pattern[2]}"
    repeated = _spell_repeated(value, imports, limit)
    if repeated is not None or value.size > limit:
        return repeated
    return _spell_elements(value, root, dtype)


def _spell_repeated(value: Array, imports: Imports, limit: int) -> str | None:
    """Write what is the same along some axes, as the coordinates of a grid are, by `tile`."""
    if value.size < N_REPEATED or value.ndim < 2:
        return None
    bits = _bits(value)
    times = tuple(
        n if n > 1 and bool(np.all(bits == bits.take([0], axis))) else 1
        for axis, n in enumerate(value.shape)
    )
    if math.prod(times) < MIN_TIMES:
        return None
    inner = value[tuple(slice(1) if n > 1 else slice(None) for n in times)]
    text = _spell_ndarray(np.ascontiguousarray(inner), imports, limit)
    return None if text is None else f"{imports.module('numpy')}.tile({text}, {times})"


def _spell_elements(value: Array, root: str, dtype: str) -> str:
    numbers = [read_number(x) for x in value.reshape(-1)]
    rebuilt = np.array([number.value for number in numbers], value.dtype)
    if _is_same(rebuilt.reshape(value.shape), value):
        texts = iter([number.spell(root) for number in numbers])
        kinds = {type(number.value) for number in numbers}
        told = "" if _DEFAULTS.get(value.dtype.name) in kinds else f", dtype={dtype}"
        return f"{root}.array({_nest(texts, value.shape)}{told})"
    bits = _bits(value)
    texts = iter([str(int(x)) for x in bits.reshape(-1)])
    raw = f"{root}.array({_nest(texts, bits.shape)}, dtype={root}.{bits.dtype.name})"
    dropped = "[..., 0]" if value.dtype.kind == "c" else ""
    return f"{raw}.view({dtype}){dropped}"


def _nest(texts: Iterator[str], shape: tuple[int, ...]) -> str:
    """Write nested lists of this shape, taking the elements in order."""
    if not shape:
        return next(texts)
    return f"[{', '.join(_nest(texts, shape[1:]) for _ in range(shape[0]))}]"


def _spell_numpy_scalar(value: Any, imports: Imports) -> str:
    _check_dtype(value)
    dtype: np.dtype[Any] = value.dtype
    if dtype == jaxapi.FLOAT0:
        return (
            f"{imports.module('numpy')}.zeros((), {spell_numpy_dtype(dtype, imports)})"
        )
    number = read_number(value)
    root = imports.module("numpy")
    if not _is_same(np.array(number.value, dtype), np.asarray(value)):
        dtype_text = spell_numpy_dtype(dtype, imports)
        return f"{_spell_elements(np.asarray(value), root, dtype_text)}[()]"
    text = number.spell()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1]  # a complex number, alone in its call
    if is_plain(dtype):
        return f"{spell_numpy_dtype(dtype, imports)}({text})"
    if dtype.name == "bfloat16":
        return f"{imports.module('jax')}.dtypes.bfloat16({text})"
    return f"{spell_dtype_object(dtype, imports)}.type({text})"


def _check_dtype(value: Any) -> None:
    if value.dtype != jaxapi.FLOAT0 and not is_scalar_dtype(value.dtype):
        raise Unspellable(value, f"JAX has no arrays of dtype {value.dtype}")


def _part_dtype(value: Array) -> str:
    return f"float{value.dtype.itemsize * 4}"


def _bits(value: Array) -> Array:
    """View the bits as unsigned integers; a complex number as two of them."""
    flat = np.ascontiguousarray(value).reshape(value.shape)
    if value.dtype.kind == "c":
        return flat.reshape(*value.shape, 1).view(f"uint{value.dtype.itemsize * 4}")
    return flat.view(f"uint{value.dtype.itemsize * 8}")


def _is_same(candidate: Array, value: Array) -> bool:
    """Whether two arrays have the same shape, dtype and bits."""
    if candidate.shape != value.shape or candidate.dtype != value.dtype:
        return False
    return bool(np.array_equal(_bits(candidate), _bits(value)))


# Patterns: each gives a candidate and its text around `dtype=…`, or None.

Pattern = tuple[Array, str, str] | None


def _constant(value: Array, root: str) -> Pattern:
    shape, dtype = value.shape, value.dtype
    if value.size == 0:
        return np.zeros(shape, dtype), f"zeros({shape}, ", ""
    if value.ndim == 0 or value.size == 1:
        return None
    first = value[(0,) * value.ndim]
    if not _is_same(np.asarray(value[(-1,) * value.ndim]), np.asarray(first)):
        return None
    number = read_number(first)
    filled = np.full(shape, np.array(number.value, dtype), dtype)
    axes = shape[0] if value.ndim == 1 else shape
    for name, known in (("zeros", 0), ("ones", 1)):
        if _is_same(np.array(known, dtype), np.asarray(first)):
            return filled, f"{name}({axes}, ", ""
    return filled, f"full({axes}, {number.spell(root)}, ", ""


def _identity(value: Array, root: str) -> Pattern:
    if value.ndim != 2 or min(value.shape) < 2 or np.count_nonzero(value[0]) != 1:
        return None
    k = int(np.flatnonzero(value[0])[0])
    text = f"eye({_axes(value)}, " + (f"k={k}, " if k else "")
    n_rows, n_columns = value.shape
    return np.eye(n_rows, n_columns, k, dtype=value.dtype), text, ""


def _triangle(value: Array, root: str) -> Pattern:
    if value.ndim != 2 or min(value.shape) < 2 or not value[-1, 0]:
        return None
    k = int(np.count_nonzero(value[0])) - 1
    text = f"tri({_axes(value)}, " + (f"k={k}, " if k else "")
    n_rows, n_columns = value.shape
    return np.tri(n_rows, n_columns, k, dtype=value.dtype), text, ""


def _axes(value: Array) -> str:
    n_rows, n_columns = value.shape
    return f"{n_rows}" if n_rows == n_columns else f"{n_rows}, {n_columns}"


def _range(value: Array, root: str) -> Pattern:
    if value.size < N_PATTERN or value.dtype.kind not in "iuf":
        return None
    first, second, last = (value.reshape(-1)[i].item() for i in (0, 1, -1))
    step = second - first
    if not all(math.isfinite(x) and int(x) == x for x in (first, step)):
        return None
    start, step = int(first), int(step)
    stop = start + step * value.size
    if step == 0 or last != stop - step or max(abs(start), abs(stop)) > MAX_RANGE:
        return None
    try:
        made: Array = np.arange(start, stop, step, dtype=value.dtype)
    except (OverflowError, TypeError, ValueError):  # `stop` does not fit the dtype
        return None
    bounds = f"{stop}" if (start, step) == (0, 1) else f"{start}, {stop}"
    bounds += "" if step == 1 else f", {step}"
    shaped = "" if value.ndim == 1 else f".reshape({value.shape})"
    return made.reshape(value.shape), f"arange({bounds}, ", shaped


_PATTERNS: tuple[Callable[[Array, str], Pattern], ...] = (
    _constant,
    _identity,
    _triangle,
    _range,
)
