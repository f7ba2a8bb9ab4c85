"""The registration table of idioms: the line each prints, and what it is traced on.

An idiom is declared as the line it prints: `idiom("jax.nn.softmax({x}, axis={axis})",
axis=AXIS)`. A field is an operand, or a param if a keyword gives its domain, which lists
the texts to try for a region of equations. What the idiom's equations look
like is nowhere written: it is learned by tracing the line on the operands of its examples.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from untrace.lifting.idioms.regions import Region

IDIOMS: list[Idiom] = []
NAMED: dict[str, list[Idiom]] = {}


@dataclass(frozen=True, slots=True)
class Domain:
    """Where the texts of a param come from.

    Attributes:
      texts: Lists the texts to try for a region, most plausible first.
      default: What an example has if it does not say.
    """

    texts: Callable[[Region], Iterable[str]]
    default: str


@dataclass(frozen=True, slots=True, eq=False)
class Idiom:
    """One line of the table.

    Attributes:
      template: The expression, with fields in braces.
      operands: Names of the fields that are operands, in order of appearance.
      params: Names of the other fields, each with the texts to try.
      examples: Operand types to learn on, and perhaps params, as in "f32[2,3] i32[]; axis=1".
      imports: Modules of names in the template, beyond `jax`, `jnp` and `np`.
      names: Names of jitted functions that the line calls; such an idiom is tried for
        these alone.
    """

    template: str
    operands: tuple[str, ...]
    params: tuple[tuple[str, Domain], ...]
    examples: tuple[str, ...]
    imports: tuple[tuple[str, str], ...] = ()
    names: tuple[str, ...] = ()


def idiom(
    template: str,
    *examples: str,
    imports: dict[str, str] | None = None,
    names: tuple[str, ...] = (),
    **params: Domain,
) -> Idiom:
    """Add an idiom; earlier ones are tried first where they look alike.

    Args:
      template: The expression it prints.
      *examples: Types of its operands; `f32[2,3]` for each by default.
      imports: Modules of names in the template, beyond `jax`, `jnp` and `np`.
      names: Names of jitted functions, for idioms that are sought by name alone.
      **params: Domains of the fields that are no operands.

    Returns:
      The idiom.
    """
    fields = [field for _, field, _, _ in string.Formatter().parse(template) if field]
    operands = tuple(dict.fromkeys(field for field in fields if field not in params))
    made = Idiom(
        template,
        operands,
        tuple(params.items()),
        examples or (" ".join(["f32[2,3]"] * len(operands)),),
        tuple((imports or {}).items()),
        names,
    )
    IDIOMS.append(made)
    for name in names:
        NAMED.setdefault(name, []).append(made)
    return made
