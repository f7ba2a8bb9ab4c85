"""Write any static param of an equation as a Python expression.

`spell(value, imports)` gives text that evaluates, in a fresh process with the same
imports, to an equal object; what cannot be written so raises `Unspellable`. Public
spellings are preferred (`jax.lax.Precision.HIGHEST`, `jnp.dtype("float32")`). Strings
go through `repr` and identifiers come from importable objects only, so that values
cannot inject code. Sub-programs are not params here: the caller prints them.

The writers are in `values`, `dtypes`, `records`, `meshes`, `exports` and
`jax_objects`; the machinery in `base`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from untrace.lifting.spelling import (
    exports,  # writers register
    jax_objects,
    meshes,
    records,
    values,
)
from untrace.lifting.spelling.base import Imports as Imports
from untrace.lifting.spelling.base import PlainImports as PlainImports
from untrace.lifting.spelling.base import Speller as Speller
from untrace.lifting.spelling.base import Unspellable as Unspellable
from untrace.lifting.spelling.dtypes import spell_dtype as spell_dtype

_WRITER_MODULES = (exports, jax_objects, meshes, records, values)
_latest: list[Speller] = []


def spell(value: Any, imports: Imports, dims: Mapping[str, str] | None = None) -> str:
    """Write `value` as an expression that evaluates to an equal object.

    A loop over many values is served best by one `Speller`, which remembers texts.

    Args:
      value: A static param of an equation, or a part of one.
      imports: Receives the imports that the text needs.
      dims: Identifiers of symbolic dimensions by their name in JAX.

    Raises:
      Unspellable: If no expression rebuilds the value in a fresh process.

    >>> spell((1, None, "x"), PlainImports())
    "(1, None, 'x')"
    """
    return _speller(imports, dims).spell(value)


def spell_primitive(primitive: Any, imports: Imports) -> str:
    """Write the importable name of a primitive: `sin_p`, imported from public modules.

    Raises:
      Unspellable: If no importable module holds it.
    """
    return _speller(imports, None).spell(primitive)


def spell_home(home: tuple[str, str], imports: Imports) -> str:
    """Write the name of what stands at a module and a qualified name, imported."""
    return _speller(imports, None).name(*home)


def spell_aval_struct(aval: Any, imports: Imports) -> str:
    """Write the `jax.ShapeDtypeStruct` that describes a `ShapedArray`."""
    return jax_objects.spell_aval_struct(_speller(imports, None), aval)


def _speller(imports: Imports, dims: Mapping[str, str] | None) -> Speller:
    """Return the speller that served these imports last, if it did."""
    dims = dims or getattr(imports, "dims", None) or None
    for speller in tuple(_latest):
        if speller.imports is imports and speller.dims is dims:
            return speller
    speller = Speller(imports, dims)
    _latest[:] = [speller]
    return speller
