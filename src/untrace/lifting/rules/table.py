"""The registration table of one-line rules, and how a rule renders.

A rule is a primitive's name and the line it prints: `rule("reduce_sum",
"jnp.sum({0}, axis={axes})", out_sharding=None)`. `{0}` is an operand, `{operands}` all
of them, `{axes}` a param as Python text, `{new_dtype:dtype}` a param through a named
format. Keywords fix params at a value. A param that is neither shown nor fixed makes
the rule decline, and so does a `when` that says no. The first rule that accepts wins.
"""

from __future__ import annotations

import enum
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from untrace.ir import Equation

When = Callable[[Equation], bool]
Spell = Callable[[Any, str], str]

RULES: dict[str, list[Rule]] = {}
# Bounds of a memo that lives as long as the process.
MAX_ACCEPTED, MAX_KEY_ITEMS = 4096, 256
_COVERING: dict[tuple[str, tuple[str, ...]], list[Rule]] = {}
_ACCEPTED: dict[Any, Accepted] = {}
_SELF_KEYED = frozenset([type(None), bool, int])
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
    of_literal: str | None = None
    calls_jax: bool = True
    roots: tuple[str, ...] = ()
    is_variadic: bool = False

    def accepts(self, params: Mapping[str, Any]) -> bool:
        """Whether the params have the values that the rule fixes."""
        return all(
            key not in params or _same(params[key], value) for key, value in self.fixed
        )

    def covers(self, names: tuple[str, ...]) -> bool:
        """Whether the rule shows or fixes every param, and shows none else."""
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


class Accepted:
    """The rules that accept some params, and the forms they give, if any program shares them.

    Attributes:
      rules: Prettiest first.
      of_values: Those for equations whose first operand is no literal.
      forms: Format strings that are the same in every module, each with the modules
        that it names.
    """

    __slots__ = ("_of_literals", "forms", "of_values", "rules")

    def __init__(self, rules: list[Rule]) -> None:
        self.rules = rules
        self.of_values = [rule for rule in rules if rule.of_literal is None]
        self.forms: dict[Rule, tuple[str, tuple[str, ...]] | None] = {}
        self._of_literals: dict[str, list[Rule]] = {}

    def of_literal(self, dtype: str) -> list[Rule]:
        """List the rules for equations whose first operand is a literal of a dtype."""
        found = self._of_literals.get(dtype)
        if found is None:
            wanted = (None, "", dtype)
            found = [rule for rule in self.rules if rule.of_literal in wanted]
            self._of_literals[dtype] = found
        return found


def clear_memo() -> None:
    """Forget which rules accept which params, after the table has changed."""
    _COVERING.clear()
    _ACCEPTED.clear()


def candidates(primitive: str, params: Mapping[str, Any]) -> list[Rule]:
    """List the rules that show or fix all of these params, prettiest first."""
    names = tuple(params)
    found = _COVERING.get((primitive, names))
    if found is None:
        found = [rule for rule in RULES.get(primitive, ()) if rule.covers(names)]
        _COVERING[primitive, names] = found
    return [rule for rule in found if rule.accepts(params)]


def accepted(primitive: str, params: Mapping[str, Any]) -> tuple[Accepted, bool]:
    """Find the rules that accept these params; tell whether all programs share them.

    They are remembered for the whole process where all params are plain values. Then
    they depend on the table alone, and the memo keeps no array, tracer or sub-program
    alive.
    """
    values = exact_key(tuple(params.values()))
    if values is None:
        return Accepted(candidates(primitive, params)), False
    key = (primitive, tuple(params), values)
    known = _ACCEPTED.get(key)
    if known is None:
        if len(_ACCEPTED) >= MAX_ACCEPTED:
            _ACCEPTED.clear()
        known = _ACCEPTED[key] = Accepted(candidates(primitive, params))
    return known, True


def exact_key(value: Any) -> Any:
    """Return a key that only values of the same text share; None if there is none.

    `True == 1 == 1.0` and `0.0 == -0.0`, but they are not written alike.
    """
    kind: Any = type(value)
    if kind in _SELF_KEYED or isinstance(value, (np.dtype, enum.Enum)):
        return kind, value
    if kind is float:
        return kind, repr(value)
    if isinstance(value, (str, tuple)) and len(value) > MAX_KEY_ITEMS:
        return None
    if kind is str:
        return kind, value
    if kind is tuple or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        keys = tuple([exact_key(item) for item in value])
        return None if None in keys else (kind, keys)
    return None


def rule(
    primitive: str,
    template: str,
    *,
    when: When | None = None,
    bare: bool = False,
    first: bool = False,
    imports: Mapping[str, str] | None = None,
    of_literal: str | None = None,
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
      of_literal: The rule is only for equations whose first operand is a literal of
        this dtype ("" for any); others need not ask its `when`.
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
        of_literal,
        calls_jax=template.startswith(("jax.", "jnp.")),
        roots=tuple(
            module for root, module in _ROOTS.items() if f"{root}." in template
        ),
        is_variadic=any(f == "operands" for _, f, _ in pieces),
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
