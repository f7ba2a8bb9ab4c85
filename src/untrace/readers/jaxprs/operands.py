"""Operands of equations: variables, and literals at the types that they must have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from untrace.jaxapi import aval_of, printed
from untrace.readers.jaxprs.making import Making
from untrace.readers.jaxprs.syntax import Block, Equation, Literal, Name
from untrace.readers.jaxprs.weak import Needs


class Operands:
    """What is known while one jaxpr is made: its variables, and what must be weak.

    Attributes:
      n_mixed: How many equations mix weak and strong types.
    """

    def __init__(
        self, builder: Making, block: Block, avals: Sequence[Any], needs: Needs
    ) -> None:
        self.builder = builder
        self.tree = block
        self.avals = avals
        self.needs = needs
        self.env: dict[str, Any] = {}
        self.n_mixed = 0

    def named_literal(self, name: Name) -> Literal:
        """Return the constant that a name is if no variable is called so."""
        value = {"inf": float("inf"), "nan": float("nan")}.get(name.text)
        if value is None:
            self.builder.fail(f"`{name.text}` is not defined before", name.at)
        return Literal(value, "", name.at)

    def literal(self, atom: Literal, is_weak: bool, like: Any) -> Any:
        """Return a literal; `like` is the aval that it has where it says none."""
        builder = self.builder
        if atom.value is ...:
            builder.fail(
                "the values of this constant are not printed",
                atom.at,
                "Pass it to the function as an argument, and print the jaxpr again.",
            )
        if atom.type:
            aval = builder.type(atom.type, atom.at)
        elif like is not None:
            aval = printed.array_type((), like.dtype)
        else:
            try:
                aval = aval_of(atom.value)
            except OverflowError as error:
                builder.fail(f"{error}", atom.at)
        is_weak = is_weak or printed.is_rounded(atom.value, aval.dtype)
        aval = printed.literal_type(printed.with_weak_type(aval, is_weak))
        try:
            return printed.literal(atom.value, aval)
        except (TypeError, ValueError, OverflowError) as error:
            builder.fail(f"this is no {builder.short(aval)}: {error}", atom.at)

    def operand(self, atom: Any, is_weak: bool, like: Any) -> Any:
        """Return a variable, or a literal as it is wanted."""
        if isinstance(atom, Name):
            var = self.env.get(atom.text)
            if var is not None:
                return var
            atom = self.named_literal(atom)
        return self.literal(atom, is_weak, like)

    def index_literal(self, value: Any) -> Any:
        """Return a number in an index as a literal."""
        return printed.literal(value, aval_of(int(value)))

    def operands(self, eqn: Equation) -> list[Any]:
        """Return the operands of an equation that calls nothing."""
        atoms = eqn.operands
        found = [
            self.env.get(atom.text) if isinstance(atom, Name) else None
            for atom in atoms
        ]
        if None not in found:
            self.note_mixed(found)
            return found
        others = [var.aval for var in found if var is not None]
        is_needed = any(binder.name in self.needs.names for binder in eqn.binders)
        wanted = self.literal_types(eqn, others)
        for position, atom in enumerate(atoms):
            if found[position] is None:
                if isinstance(atom, Name):
                    atom = self.named_literal(atom)
                found[position] = self.operand_literal(atom, wanted, others, is_needed)
        self.note_mixed(found)
        return found

    def note_mixed(self, atoms: list[Any]) -> None:
        """Count an equation that computes with a weak and a strong type."""
        kinds: dict[Any, bool] = {}
        for atom in atoms:
            is_weak = printed.is_weak(atom.aval)
            dtype = getattr(atom.aval, "dtype", None)
            if kinds.setdefault(dtype, is_weak) != is_weak:
                self.n_mixed += 1
                return

    def operand_literal(
        self, atom: Literal, wanted: list[Any], others: list[Any], is_needed: bool
    ) -> Any:
        """Return a literal operand: weak if everything beside it is."""
        if atom.type:
            like = self.builder.type(atom.type, atom.at)
        else:
            fitting = (
                aval for aval in wanted if printed.can_be(atom.value, aval.dtype)
            )
            like = next(fitting, None)
        dtype = None if like is None else getattr(like, "dtype", None)
        beside = [a.weak_type for a in others if getattr(a, "dtype", None) == dtype]
        return self.literal(atom, all(beside) if beside else is_needed, like)

    def literal_types(self, eqn: Equation, others: list[Any]) -> list[Any]:
        """Return the types that literals may have which say none, likeliest first."""
        if eqn.primitive == "random_fold_in":
            return [printed.array_type((), np.dtype(np.uint32))]
        found = [aval for aval in others if printed.is_plain_array(aval)]
        if eqn.binders and eqn.binders[0].type:
            said = self.builder.type(eqn.binders[0].type, eqn.binders[0].at)
            if printed.is_plain_array(said):
                first = eqn.primitive in _LIKE_RESULT
                found = [said, *found] if first else [*found, said]
        return found


_LIKE_RESULT = ("select_n", "broadcast_in_dim", "full")
