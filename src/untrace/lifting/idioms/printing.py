"""Print a line in the place of the equations that it traces to."""

from __future__ import annotations

import ast
from types import SimpleNamespace
from typing import Any

from untrace.ir import Equation
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame
from untrace.lifting.printing import Rhs, unpacked
from untrace.syntax.parsed import parsed, replaced

CALL = "idiom"
PRIMITIVE: Any = SimpleNamespace(name=CALL, multiple_results=True)
_ROOTS = {"jax": "jax", "jnp": "jax.numpy", "np": "numpy"}


@control(CALL)
def idiom(eqn: Equation, frame: Frame) -> Rhs:
    """Return the line over the names that its operands have here."""
    line = eqn.params["line"]
    tree = parsed(line.text)
    names = list(tree.names())
    imports = frame.lifter.imports
    for name in names:
        if name.id in _ROOTS and isinstance(tree.parent(name), ast.Attribute):
            imports.module(_ROOTS[name.id])
    texts = frame.texts(eqn.operands)
    is_call = line.text.startswith(("jax.", "jnp."))
    if texts and not is_call and not frame.is_traced(eqn.operands):
        # Operators and indices of constants alone would be worked out by numpy.
        jnp = imports.module("jax.numpy")
        texts = [f"{jnp}.asarray({text})" for text in texts]
    known = {f"v{i}": text for i, text in enumerate(texts)}
    for name, module in line.imports:
        known[name] = imports.attribute(module, name)
    found = [name for name in names if name.id in known]
    text = tree.edited(replaced(tree.span(name), known[name.id]) for name in found)
    if eqn.params["is_sequence"]:
        return Rhs(text, unpacked)
    return Rhs(text, lambda names: names[0])
