"""Equations that call jaxprs with their operands: calls, branches and loops."""

from __future__ import annotations

from typing import Any

from untrace.errors import ParseError
from untrace.jaxapi import printed
from untrace.jaxapi.evaluation import without_leading_axis
from untrace.readers.jaxprs.bodies import Body
from untrace.readers.jaxprs.operands import Operands
from untrace.readers.jaxprs.syntax import Equation, Literal


class Calls(Operands):
    """What is known while one jaxpr is made, and the jaxprs that it calls."""

    def called(
        self, eqn: Equation, inner: list[Body]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the operands of an equation, and the jaxprs that it calls with them."""
        needed = [i for i, b in enumerate(eqn.binders) if b.name in self.needs.names]
        wanted = [tuple(body.results(needed)) for body in inner]
        atoms = self.given(eqn, inner, wanted)
        avals = [None if atom is None else atom.aval for atom in atoms]
        first = self.body(inner[0], avals, wanted[0])
        if inner[0].carried is None:
            first = self.weaker(eqn, inner, wanted, atoms, avals, first)
        loop = inner[0].carried
        while loop is not None:
            carried = inner[0].operands[loop:]
            weaker = [
                operand
                for operand, result in zip(carried, printed.result_types(first))
                if printed.is_weak(avals[operand]) and not printed.is_weak(result)
            ]
            if not weaker:
                break
            for operand in weaker:
                avals[operand] = printed.with_weak_type(avals[operand], False)
                if isinstance(eqn.operands[operand], Literal):
                    atoms[operand] = printed.retyped(atoms[operand], avals[operand])
            first = self.body(inner[0], avals, wanted[0])
        jaxprs: dict[str, list[Any]] = {inner[0].param: [first]}
        for body, results in zip(inner[1:], wanted[1:]):
            made = self.body(body, avals, results)
            jaxprs.setdefault(body.param, []).append(made)
        self.n_mixed += sum(
            self.builder.n_mixed(jaxpr) for found in jaxprs.values() for jaxpr in found
        )
        uncalled = [i for i, atom in enumerate(atoms) if atom is None]
        for i in uncalled:
            atoms[i] = self.operand(eqn.operands[i], False, None)
        return atoms, jaxprs

    def weaker(
        self,
        eqn: Equation,
        inner: list[Body],
        wanted: list[tuple[int, ...]],
        atoms: list[Any],
        avals: list[Any],
        strong: Any,
    ) -> Any:
        """Make the literals of a call weak, as numbers of Python are, if that may be.

        Returns the first jaxpr, and changes operands and their types.
        """
        numbers = [
            position
            for position, atom in enumerate(eqn.operands)
            if isinstance(atom, Literal)
            and atoms[position] is not None
            and avals[position].dtype in printed.DEFAULT_DTYPES
            and not printed.is_weak(avals[position])
        ]
        if not numbers:
            return strong
        weak = list(avals)
        for position in numbers:
            weak[position] = printed.with_weak_type(avals[position], True)
        try:
            found = self.body(inner[0], weak, wanted[0])
        except ParseError:  # such as of branches whose results differ then
            return strong
        if self.builder.n_mixed(found) > self.builder.n_mixed(strong):
            return strong
        for position in numbers:
            avals[position] = weak[position]
            atoms[position] = printed.retyped(atoms[position], weak[position])
        return found

    def given(
        self, eqn: Equation, inner: list[Body], wanted: list[tuple[int, ...]]
    ) -> list[Any]:
        """Return the operands of a call; None for what is no input of its jaxprs.

        A literal is as weak as the jaxpr needs it; what a loop carries is weak if it can.
        """
        found: list[Any] = [None] * len(eqn.operands)
        for body, results in zip(inner, wanted):
            needs = self.builder.weak.of(body.block, results).inputs
            for place, (position, binder) in enumerate(
                zip(body.operands, body.block.invars)
            ):
                if found[position] is not None and not needs[place]:
                    continue
                kind = binder.type
                like = self.builder.type(kind, binder.at) if kind else None
                is_carried = body.carried is not None and place >= body.carried
                atom = eqn.operands[position]
                found[position] = self.operand(atom, needs[place] or is_carried, like)
        return found

    def body(self, body: Body, avals: list[Any], results: tuple[int, ...]) -> Any:
        """Return a jaxpr that an equation calls with operands of some types."""
        given = [avals[position] for position in body.operands]
        if body.stacked is not None:
            first = body.stacked
            given[first:] = map(without_leading_axis, given[first:])
        return self.builder.block(body.block, given, results)
