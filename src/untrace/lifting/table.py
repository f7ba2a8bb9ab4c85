"""The registration table of one-line rules, and how a rule renders.

A rule is a primitive's name and the line it prints: `rule("reduce_sum",
"jnp.sum({0}, axis={axes})", out_sharding=None)`. `{0}` is an operand, `{operands}` all
of them, `{axes}` a param as Python text, `{new_dtype:dtype}` a param through a named
format. Keywords fix params at a value. A param that is neither shown nor fixed makes
the rule decline, and so does a `when` that says no. The first rule that accepts wins.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from untrace.ir import Equation

When = Callable[[Equation], bool]
Spell = Callable[[Any, str], str]

RULES: dict[str, list[Rule]] = {}
_COVERING: dict[tuple[str, tuple[str, ...]], list[Rule]] = {}
_ROOTS = {"jax": "jax", "jnp": "jax.numpy", "np": "numpy", "functools": "functools"}


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One line of the table, parsed once."""

    primitive: str
    template: str
    pieces: tuple[tuple[str, str | int | None, str], ...]
    shown: frozenset[str]
    fixed: tuple[tuple[str, Any], ...]
    when: When | None
    bare: bool
    imports: tuple[tuple[str, str], ...] = ()

    calls_jax: bool = True
    roots: tuple[str, ...] = ()

    def accepts(self, params: Mapping[str, Any]) -> bool:
        """Tell whether the params have the values that the rule fixes."""
        return all(
            key not in params or _same(params[key], value) for key, value in self.fixed
        )

    def covers(self, names: tuple[str, ...]) -> bool:
        """Tell whether the rule shows or fixes every param, and shows none else."""
        known = self.shown.union(key for key, _ in self.fixed)
        return self.shown.issubset(names) and known.issuperset(names)

    def fill(self, params: Mapping[str, Any], spell: Spell) -> str:
        """Write the params into the template, leaving `str.format` operand slots.

        Args:
          params: Params of the equation.
          spell: Called with a param value and a format name ("" for plain text).

        Returns:
          A format string over operand texts.
        """
        parts: list[str] = []
        for text, field, form in self.pieces:
            parts.append(text)
            if isinstance(field, int):
                parts.append(f"{{{field}}}")
            elif field == "operands":
                parts.append("{operands}")
            elif field is not None:
                parts.append(_escape(spell(params[field], form)))
        return "".join(parts)


def clear_memo() -> None:
    """Forget which rules cover which params, after the table has changed."""
    _COVERING.clear()


def candidates(primitive: str, params: Mapping[str, Any]) -> list[Rule]:
    """List the rules that show or fix all of these params, prettiest first."""
    names = tuple(params)
    found = _COVERING.get((primitive, names))
    if found is None:
        found = [rule for rule in RULES.get(primitive, ()) if rule.covers(names)]
        _COVERING[primitive, names] = found
    return [rule for rule in found if rule.accepts(params)]


def rule(
    primitive: str,
    template: str,
    *,
    when: When | None = None,
    bare: bool = False,
    first: bool = False,
    imports: Mapping[str, str] | None = None,
    **fixed: Any,
) -> Rule:
    """Add a rule for a primitive; earlier rules are tried first.

    Args:
      primitive: Name of the primitive.
      template: The expression it prints, see the module's docstring.
      when: Precondition on the equation.
      bare: Print strongly typed literals as bare Python scalars (for operators,
        which give them the other operand's dtype).
      first: Try this rule before the ones that are there.
      imports: Modules of the names in the template, beyond `jax`, `jnp`, `np` and
        `functools`: `{"scale": "mylib.ops"}`.
      **fixed: Params that must have exactly this value.

    Returns:
      The rule.
    """
    pieces = tuple(_parse(template))
    shown = frozenset(f for _, f, _ in pieces if isinstance(f, str) and f != "operands")
    made = Rule(
        primitive,
        template,
        pieces,
        shown,
        tuple(fixed.items()),
        when,
        bare,
        tuple((imports or {}).items()),
        calls_jax=template.startswith(("jax.", "jnp.")),
        roots=tuple(
            module for root, module in _ROOTS.items() if f"{root}." in template
        ),
    )
    clear_memo()
    rules = RULES.setdefault(primitive, [])
    rules.insert(0, made) if first else rules.append(made)
    return made


def _parse(template: str) -> list[tuple[str, str | int | None, str]]:
    pieces: list[tuple[str, str | int | None, str]] = []
    for text, field, form, _ in string.Formatter().parse(template):
        slot = int(field) if field is not None and field.isdigit() else field
        pieces.append((_escape(text), slot, form or ""))
    return pieces


def _escape(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _same(value: Any, wanted: Any) -> bool:
    if value is wanted:
        return True
    return type(value) is type(wanted) and bool(value == wanted)
