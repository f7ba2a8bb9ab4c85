"""Closed-over arrays: module-level names, inline where small, else in the sidecar."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import jax

from untrace import jaxapi
from untrace.errors import LiftingError
from untrace.lifting.imports import Imports
from untrace.lifting.spelling import spell
from untrace.lifting.spelling.arrays import storage_view
from untrace.lifting.spelling.jax_arrays import spell_constant, with_weak_type
from untrace.syntax.names import Scope
from untrace.syntax.text import quote

_MAKERS = ("array", "zeros", "ones", "full", "eye", "arange")

INLINE_LIMIT = 64
"""Elements of an array that is written into the text of a function."""


class Constants:
    """The array constants of a generated module, each named once.

    Attributes:
      keeps_jax: Arrays of JAX stay such: their operators and methods are traced, those
        of NumPy's are computed at once.
      numbers: Definitions of numbers.
      lines: The definitions.
      stored: Arrays for the sidecar.
      stored_lines: Their definitions.
      refs: Definitions of mutable arrays.
    """

    def __init__(self, scope: Scope, imports: Imports) -> None:
        self._scope = scope
        self._imports = imports
        self._names: dict[int, str] = {}
        self._equal: dict[Any, list[str]] = {}  # names of arrays that are equal
        self._hints: dict[str, str] = {}
        self._alive: list[Any] = []
        self.keeps_jax = False
        self.numbers: list[str] = []
        self.lines: list[str] = []
        self.stored: dict[str, Any] = {}
        self.stored_lines: list[str] = []
        self.refs: list[str] = []

    def name(self, const: Any, hint: str = "", other_than: Collection[str] = ()) -> str:
        """Return the text that stands for a constant.

        Args:
          const: An array.
          hint: What to name it if it is new. Small arrays that are equal keep names of
            their own.
          other_than: Names of arrays that JAX has to tell from this one, equal or not.
        """
        if const is None:  # of an open jaxpr, whose operands stand for its constants
            raise LiftingError(
                "a sub-program closes over values that its equation gives it; only the "
                "function that made the equation could be called. Register a rule with "
                "`untrace.register`."
            )
        known = self._names.get(id(const))
        if known is None and isinstance(const, jaxapi.Tracer):
            raise LiftingError(
                f"the program closes over a {jaxapi.short_type(const.aval)} of another trace, "
                "which has no value any more; JAX cannot run it either. Pass it as an argument."
            )
        if known is None and jaxapi.is_ref(const):
            known = self._names[id(const)] = self._define_ref(const)
            self._alive.append(const)
        if known is None or known in other_than:
            equal = self._equal.setdefault(jaxapi.array_key(const), [])
            others = [name for name in equal if name not in other_than]
            if hint and const.size <= INLINE_LIMIT:
                others = [name for name in others if self._hints[name] == hint]
            if not others:
                others.append(self._define(const, hint))
                self._hints[others[0]] = hint
                equal += others
            known = self._names[id(const)] = others[0]
            self._alive.append(const)
        return known

    def _define(self, const: Any, hint: str) -> str:
        number = len(self.lines) + len(self.stored_lines)
        name = self._scope.fresh_global(hint or f"CONST_{number}")
        text = spell_constant(const, self._imports, inline_limit=INLINE_LIMIT)
        if text is not None:
            self.lines.append(f"{name} = {self._placed(text, const)}")
            return name
        stored, template = storage_view(const, self._imports)
        self.stored[name] = stored
        loaded = template.format(array=f"CONSTANTS[{quote(name)}]")
        loaded = with_weak_type(loaded, const, self._imports)
        self.stored_lines.append(f"{name} = {self._placed(loaded, const)}")
        return name

    def _placed(self, text: str, const: Any) -> str:
        """Shard a constant as it was: its type may say so."""
        sharding = jaxapi.placement(const, None)
        if sharding is None:
            is_numpy = text.startswith(("np.", "CONSTANTS["))
            if self.keeps_jax and is_numpy and isinstance(const, jax.Array):
                return _of_jax(text, self._imports.module("jax.numpy"))
            return text
        return f"{self._imports.module('jax')}.device_put({text}, {spell(sharding, self._imports)})"

    def _define_ref(self, ref: Any) -> str:
        """Make a mutable array anew, with the content it has now."""
        content = self.name(jaxapi.ref_content(ref))
        name = self._scope.fresh_global(f"REF_{len(self.refs)}")
        self._imports.module("jax")
        self.refs.append(f"{name} = jax.new_ref({content})")
        return name


def _of_jax(text: str, jnp: str) -> str:
    """Turn the text of an array of NumPy into one of JAX.

    >>> _of_jax("np.zeros(3, dtype=np.int32)", "jnp"), _of_jax("np.bool_(True)", "jnp")
    ('jnp.zeros(3, dtype=jnp.int32)', 'jnp.asarray(np.bool_(True))')
    """
    head, dot, dtype = text.partition("dtype=np.")
    if head.startswith(tuple([f"np.{maker}(" for maker in _MAKERS])):
        rest = f"dtype={jnp}.{dtype}" if dot else ""
        if "np." not in head[3:] and "np." not in dtype:
            return f"{jnp}.{head[3:]}{rest}"
    return f"{jnp}.asarray({text})"
