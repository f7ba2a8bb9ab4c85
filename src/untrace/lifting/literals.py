"""Texts of literals and params, remembered for the whole module."""

from __future__ import annotations

from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.jaxapi import written
from untrace.lifting import rules
from untrace.lifting.imports import Imports, SharedImports
from untrace.lifting.spelling import base, spell, spell_dtype
from untrace.lifting.spelling.arrays import spell_scalar

# Numbers are written alike in all modules. The memo holds their bits, not the arrays.
MAX_SHARED = 4096
_SHARED: dict[Any, tuple[str, tuple[str, ...]]] = {}
_NUMPY_DTYPES = frozenset(map(np.dtype, "?bhilqBHILQefd"))


def _over_mesh(text: str, imports: Imports) -> str:
    """Write a scalar that is typed by the mesh in context, as JAX's functions make it."""
    if text.startswith("np."):
        return f"{imports.module('jax.numpy')}{text[2:]}"
    # A weakly typed array; `jnp.asarray` keeps a Python scalar, which knows no mesh.
    return f"{imports.attribute(*written.AS_ARRAY)}({text})"


class Literals:
    """Writes scalars and params, each distinct one once."""

    def __init__(self, imports: Imports) -> None:
        self._imports = imports
        self._exact: dict[Any, str] = {}

    def exact(self, value: Any, aval: Any) -> str:
        """Write a scalar so that tracing gives this literal: dtype and weak type too."""
        has_mesh = jaxapi.has_mesh(aval)
        key = (type(value), aval.dtype, aval.weak_type, has_mesh, _bits(value))
        text = self._exact.get(key)
        if text is None:
            text = self._exact[key] = self._shared(key, value, aval)
        return text

    def _shared(self, key: tuple[Any, ...], value: Any, aval: Any) -> str:
        """Write a scalar, at once for all modules if it names the same in each."""
        has_mesh = key[3]
        if has_mesh or aval.dtype not in _NUMPY_DTYPES:
            text = spell_scalar(value, aval, self._imports)
            return _over_mesh(text, self._imports) if has_mesh else text
        key = (*key, getattr(value, "dtype", None))
        known = _SHARED.get(key)
        if known is None:
            imports = SharedImports()
            text = spell_scalar(value, aval, imports)
            if len(_SHARED) >= MAX_SHARED:
                _SHARED.clear()
            known = _SHARED[key] = text, tuple(imports.modules)
        for module in known[1]:
            self._imports.module(module)
        return known[0]

    def bare(self, value: Any) -> str:
        """Write a scalar as a bare Python scalar, for operators."""
        # "0" is an integer and a bfloat16 alike.
        key = (type(value), getattr(value, "dtype", None), _bits(value))
        text = self._exact.get(key)
        if text is None:
            text = self._exact[key] = self._bare(value)
        return text

    def _bare(self, value: Any) -> str:
        scalar = getattr(value, "item", lambda: value)()
        if isinstance(scalar, float) and hasattr(value, "dtype"):
            # The shortest text that gives this value at its own precision.
            short = float(str(value))
            if value.dtype.type(short) == value:
                scalar = short
        return spell(scalar, self._imports)

    def param(self, value: Any, form: str) -> str:
        """Write a param value through a named format ("" for plain)."""
        return spell_param(value, form, self._imports)


def spell_param(value: Any, form: str, imports: base.Imports) -> str:
    """Write a param value through a named format ("" for plain)."""
    if form == "":
        return spell(value, imports)
    if form == "dtype":
        return spell_dtype(value, imports)
    made = rules.FORMATS[form](value)
    return made if isinstance(made, str) else spell(made, imports)


def _bits(value: Any) -> Any:
    """Return what tells one scalar from another, signs of zeros and NaNs included."""
    if isinstance(value, (int, float, complex)):
        return repr(value)
    # The `str` of an array would cost ten times as much.
    return np.asarray(value).tobytes() if hasattr(value, "dtype") else str(value)
