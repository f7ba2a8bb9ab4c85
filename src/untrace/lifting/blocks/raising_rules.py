"""Rules that raise, written as functions that raise the same."""

from __future__ import annotations

import contextlib

from untrace.ir import Equation
from untrace.lifting.blocks.derivative_rules import rule_name
from untrace.lifting.frame import Frame
from untrace.lifting.heads import ANY_ARGUMENTS
from untrace.lifting.lifter import Lifter
from untrace.lifting.printing import Function
from untrace.lifting.spelling import Unspellable


def exception_text(error: Exception, lifter: Lifter) -> str:
    """Write an exception of the same class, or of one of its name, and the same text."""
    message = lifter.spell(str(error))
    try:
        kind = lifter.spell(type(error))
    except Unspellable:  # a class of a function
        name = lifter.spell(type(error).__name__)
        return f"type({name}, (Exception,), {{}})({message})"
    args = _alike(error)
    if args is None:
        return f"{lifter.helper('unmade')}({kind}, {message})"
    return f"{kind}({', '.join(map(lifter.spell, args))})"


def _alike(error: Exception) -> tuple[str, ...] | None:
    """Return arguments that make an exception of the same class and text, if any."""
    kind, message = type(error), str(error)
    candidates: list[tuple[str, ...]] = [(message,), ()]
    if all(type(arg) is str for arg in error.args):
        candidates.insert(0, error.args)
    # Constructors may take anything, and fail in any way on a text.
    with contextlib.suppress(Exception):
        # JAX's own errors add the address of a page that explains them.
        candidates.append((message.removesuffix(str(kind(""))),))
    for args in candidates:
        with contextlib.suppress(Exception):
            if str(kind(*args)) == message:
                return args
    return None


def raising_rule(name: str, error: Exception, frame: Frame) -> list[str]:
    """Write a rule, called `name`, that raises an error."""
    lines = [f"raise {exception_text(error, frame.lifter)}"]
    return ["", "", *Function(name, ANY_ARGUMENTS, lines).text_lines()]


def raising_rules(eqn: Equation, name: str, error: str, parent: Frame) -> list[str]:
    """Write one rule that raises in the place of all rules of an equation."""
    rule = rule_name(f"{name}_rule", parent)
    lines = Function(rule, ANY_ARGUMENTS, [f"raise {error}"]).text_lines()
    is_jvp = eqn.name == "custom_jvp_call"
    rules = (rule if is_jvp else f"{rule}, {rule}") + symbolic_zeros(eqn)
    return [
        "",
        "",
        *lines,
        "",
        "",
        f"{name}.{'defjvp' if is_jvp else 'defvjp'}({rules})",
    ]


def symbolic_zeros(eqn: Equation) -> str:
    """Write the option that the rules of an equation were defined with, if it was given."""
    return ", symbolic_zeros=True" * bool(eqn.params["symbolic_zeros"])
