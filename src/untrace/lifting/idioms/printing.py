"""Print a line in the place of the equations that it traces to."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from untrace.ir import Equation
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame
from untrace.lifting.printing import Rhs, unpacked

CALL = "idiom"
PRIMITIVE: Any = SimpleNamespace(name=CALL, multiple_results=True)
_OPERAND = re.compile(r"\bv(\d+)\b")


@control(CALL)
def idiom(eqn: Equation, frame: Frame) -> Rhs:
    """Write the line over the names that its operands have here."""
    line = eqn.params["line"]
    for root, module in (("jax.", "jax"), ("jnp.", "jax.numpy"), ("np.", "numpy")):
        if re.search(rf"(?<![\w.]){re.escape(root)}", line.text):
            frame.lifter.imports.module(module)
    texts = frame.texts(eqn.operands)
    is_call = line.text.startswith(("jax.", "jnp."))
    if texts and not is_call and not frame.is_traced(eqn.operands):
        # Operators and indices of constants alone would be worked out by numpy.
        jnp = frame.lifter.imports.module("jax.numpy")
        texts = [f"{jnp}.asarray({text})" for text in texts]
    text = _OPERAND.sub(lambda found: texts[int(found[1])], line.text)
    for name, module in line.imports:
        bound = frame.lifter.imports.attribute(module, name)
        text = re.sub(rf"\b{name}\b", bound, text)
    if eqn.params["is_sequence"]:
        return Rhs(text, unpacked)
    return Rhs(text, lambda names: names[0])
