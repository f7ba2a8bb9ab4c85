"""Write computations that `jax.export` has lowered: their fields, the module as text.

Serialising them the public way needs a package that JAX does not bring along, and the
file is to run with JAX alone. Their derivatives are computations of the same kind, which
JAX makes on demand, one of the other without end; as many orders are written as
derivative rules are followed.
"""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

from untrace import jaxapi
from untrace.lifting.spelling.base import Speller, writes
from untrace.syntax.text import quote


@writes(jaxapi.Exported)
def _spell_exported(speller: Speller, value: Any) -> str:
    return _define(speller, value, jaxapi.MAX_RULE_REPEATS)


def _define(speller: Speller, value: Any, n_orders: int) -> str:
    for known, name in speller.imports.defined():
        if known is value:
            return name
    speller = _with_dimensions(speller, value)
    parts: list[str] = []
    for field in dataclasses.fields(value):
        if field.name == "_get_vjp":
            text = _derivative(speller, value, n_orders)
        elif field.name == "mlir_module_serialized":
            decode = speller.name("base64", "b64decode")
            module = base64.b64encode(value.mlir_module_serialized).decode()
            text = f"{decode}({quote(module)})"
        else:
            text = speller.spell(getattr(value, field.name))
        parts.append(f"{field.name}={text}")
    text = f"{speller.name('jax.export', 'Exported')}({', '.join(parts)})"
    return speller.imports.define("exported", text, value)


def _with_dimensions(speller: Speller, value: Any) -> Speller:
    """Make the symbolic dimensions of the types, in a scope like their own."""
    found = jaxapi.exported_dimensions(value)
    if found is None:
        return speller
    scope, names, constraints = found
    defined = [name for known, name in speller.imports.defined() if known is scope]
    if defined:
        dims = defined[0]
    else:
        given = f", constraints={speller.spell(constraints)}" if constraints else ""
        make = speller.name("jax.export", "symbolic_shape")
        text = f"{make}({speller.spell(', '.join(names))}{given})"
        dims = speller.imports.define("dimensions", text, scope)
    identifiers = {name: f"{dims}[{i}]" for i, name in enumerate(names)}
    return Speller(speller.imports, identifiers)


def _derivative(speller: Speller, value: Any, n_orders: int) -> str:
    if n_orders == 0 or not value.has_vjp():
        return "None"
    return f"lambda _: {_define(speller, value.vjp(), n_orders - 1)}"
