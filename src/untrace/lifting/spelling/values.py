"""Write plain Python values: numbers, containers, slices, enums, partials, arrays."""

from __future__ import annotations

import collections
import enum
import functools
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.lifting.spelling.arrays import spell_array, spell_complex, spell_float
from untrace.lifting.spelling.base import Speller, Unspellable, writes
from untrace.syntax.importable import is_importable
from untrace.syntax.names import is_name
from untrace.syntax.text import quote

INLINE_LIMIT = 4096
"""Largest array, in elements, written out inside an expression."""


@writes(float)
def _spell_float(speller: Speller, value: float) -> str:
    return spell_float(float(value))


@writes(complex)
def _spell_complex(speller: Speller, value: complex) -> str:
    return spell_complex(complex(value))


@writes(int)
def _spell_int(speller: Speller, value: int) -> str:
    return repr(int(value))


@writes(str)
def _spell_string(speller: Speller, value: str) -> str:
    """Write an instance of a subclass by that, if it can be imported."""
    kind = type(value)
    if kind is str or not is_importable(kind):
        return quote(value)
    return f"{speller.spell(kind)}({quote(value)})"


@writes(tuple, exact=True)
def _spell_tuple(speller: Speller, value: tuple[Any, ...]) -> str:
    if {int}.issuperset(map(type, value)):
        return repr(value)
    parts = _spell_elements(speller, value)
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


@writes(list, exact=True)
def _spell_list(speller: Speller, value: list[Any]) -> str:
    return f"[{', '.join(_spell_elements(speller, value))}]"


def _spell_elements(speller: Speller, value: Any) -> list[str]:
    """Write the elements; NumPy integers become plain ones, equal to JAX."""
    spell = speller.spell
    return [repr(int(x)) if isinstance(x, np.integer) else spell(x) for x in value]


@writes(dict, exact=True)
def _spell_dict(speller: Speller, value: dict[Any, Any]) -> str:
    items = (f"{speller.spell(k)}: {speller.spell(v)}" for k, v in value.items())
    return f"{{{', '.join(items)}}}"


@writes(collections.OrderedDict, exact=True)
def _spell_ordered_dict(speller: Speller, value: Any) -> str:
    return speller.call(speller.name("collections", "OrderedDict"), [dict(value)])


@writes(collections.defaultdict, exact=True)
def _spell_default_dict(speller: Speller, value: Any) -> str:
    home = speller.name("collections", "defaultdict")
    return speller.call(home, [value.default_factory, dict(value)])


@writes(jaxapi.FrozenDict)
def _spell_frozen_dict(speller: Speller, value: Any) -> str:
    home = speller.name(jaxapi.FrozenDict.__module__, "FrozenDict")
    return speller.call(home, [dict(value.items())])


@writes(frozenset, exact=True)
def _spell_frozenset(speller: Speller, value: frozenset[Any]) -> str:
    names = jaxapi.error_set_names(value)
    if names:
        return " | ".join(
            speller.name("jax.experimental.checkify", name) for name in names
        )
    return (
        f"frozenset({_spell_set_elements(speller, value)})" if value else "frozenset()"
    )


@writes(set, exact=True)
def _spell_set(speller: Speller, value: set[Any]) -> str:
    return _spell_set_elements(speller, value) if value else "set()"


def _spell_set_elements(speller: Speller, value: Any) -> str:
    return f"{{{', '.join(sorted(map(speller.spell, value)))}}}"


@writes(slice)
def _spell_slice(speller: Speller, value: slice) -> str:
    return speller.call("slice", [value.start, value.stop, value.step])


@writes(range)
def _spell_range(speller: Speller, value: range) -> str:
    steps = [value.step] if value.step != 1 else []
    return speller.call("range", [value.start, value.stop, *steps])


@writes(enum.Enum, memo=True)
def _spell_enum(speller: Speller, value: enum.Enum) -> str:
    home = speller.spell(type(value))
    name = value.name
    if type(value).__members__.get(name) is not value:
        if isinstance(value, enum.Flag):
            return speller.call(home, [value.value])
        raise Unspellable(value, "its class has no such member")
    # A member may have any name, also one that is no attribute of the class.
    if is_name(name) and getattr(type(value), name, None) is value:
        return f"{home}.{name}"
    return f"{home}[{quote(name)}]"


@writes(functools.partial)
def _spell_partial(speller: Speller, value: functools.partial[Any]) -> str:
    kind = speller.spell(type(value))
    return speller.call(kind, [value.func, *value.args], **value.keywords)


@writes(np.generic, np.ndarray)
def _spell_array(speller: Speller, value: Any) -> str:
    text = spell_array(value, speller.imports, inline_limit=INLINE_LIMIT)
    if text is None:
        raise Unspellable(value, f"the array has more than {INLINE_LIMIT} elements")
    return text


@writes(jaxapi.JaxArray)
def _spell_jax_array(speller: Speller, value: Any) -> str:
    text = _spell_array(speller, value)
    if jaxapi.is_key_array(value):
        return text
    return f"{speller.imports.module('jax.numpy')}.asarray({text})"
