"""Texts of literals and params, remembered for the whole module."""

from __future__ import annotations

from typing import Any

from untrace.lifting import rules
from untrace.lifting.arrays import spell_scalar
from untrace.lifting.imports import Imports
from untrace.lifting.spelling import spell, spell_dtype


class Literals:
    """Writes scalars and params, each distinct one once."""

    def __init__(self, imports: Imports) -> None:
        self._imports = imports
        self._exact: dict[Any, str] = {}

    def exact(self, value: Any, aval: Any) -> str:
        """Write a scalar so that tracing gives this literal: dtype and weak type too."""
        key = (type(value), aval.dtype, aval.weak_type, str(value))
        text = self._exact.get(key)
        if text is None:
            text = self._exact[key] = spell_scalar(value, aval, self._imports)
        return text

    def bare(self, value: Any) -> str:
        """Write a scalar as a bare Python scalar, for operators."""
        key = (type(value), str(value))
        text = self._exact.get(key)
        if text is None:
            text = self._exact[key] = spell(getattr(value, "item", lambda: value)(), self._imports)
        return text

    def param(self, value: Any, form: str) -> str:
        """Write a param value through a named format ("" for plain)."""
        if form == "":
            return spell(value, self._imports)
        if form == "dtype":
            return spell_dtype(value, self._imports)
        made = rules.FORMATS[form](value)
        return made if isinstance(made, str) else spell(made, self._imports)
