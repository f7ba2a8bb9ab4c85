"""Write single equations of two programs as statements, with one name for one value.

Each is written as `untrace.source(level="lax")` writes it, but for sub-programs, which
are named and not written out. A value of the second program that is one of the first has
its name. The text is for reading: it is never executed.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.errors import LiftingError
from untrace.interpreters.comparing.matching import Matching
from untrace.interpreters.comparing.sides import CONSTANT, INPUT, Operand, Side
from untrace.ir import Atom, Block, Equation, Literal, Value
from untrace.lifting.frame import Frame
from untrace.lifting.lifter import Lifter
from untrace.lifting.names.naming import block_name, input_hints, result_name
from untrace.lifting.printing import Group
from untrace.options import Options
from untrace.printable import printable
from untrace.syntax.names import Scope, identifier

MAX_LINES = 6
"""Of a statement; the rest of one that needs functions of its own is left out."""

Names = dict[Value, str]


class Writer:
    """Writes the equations of a pair of blocks."""

    def __init__(
        self,
        found: Matching,
        hints: Mapping[Value, str],
        inputs: tuple[Sequence[str], Sequence[str]] | None = None,
    ) -> None:
        lifter = Lifter(Options())
        self._names = Scope()
        before = self._named_before(found.before, hints, inputs and inputs[0])
        after = self._named_after(found, before, hints, inputs and inputs[1])
        lifter.scope.reserve((*before.values(), *after.values()))
        self._sides = found.before, found.after
        self._frames = [
            _NamedFrame(lifter, side.block, names)
            for side, names in zip(self._sides, (before, after))
        ]

    def statement(self, which: int, index: int) -> str:
        """Write an equation of the first (0) or second (1) block."""
        return self._frames[which].statement(self._sides[which].block.equations[index])

    def name_functions(self, index: int, other: int) -> None:
        """Call the sub-programs of an equation as those of its partner."""
        eqn = self._sides[0].block.equations[index]
        twin = self._sides[1].block.equations[other]
        for name, param in eqn.params.items():
            pairs = zip(_blocks(param), _blocks(twin.params.get(name)))
            for block, mate in pairs:
                self._frames[1].functions[id(mate)] = block

    def returned(self, which: int) -> str:
        """Write the return statement of a block."""
        frame = self._frames[which]
        outputs = self._sides[which].block.outputs
        return f"return {', '.join(map(frame.shown, outputs)) or 'None'}"

    def operand(self, which: int, atom: Atom) -> str:
        """Write an operand."""
        return self._frames[which].shown(atom)

    def _named_before(
        self, side: Side, hints: Mapping[Value, str], inputs: Sequence[str] | None
    ) -> Names:
        names: Names = {}
        _name_inputs(side.block, inputs, names, self._names.fresh)
        for eqn in side.block.equations:
            self._name_results(eqn, names, hints)
        return names

    def _named_after(
        self,
        found: Matching,
        before: Names,
        hints: Mapping[Value, str],
        inputs: Sequence[str] | None,
    ) -> Names:
        mine, theirs = found.before.block, found.after.block
        names: Names = {}
        known, others = _open_inputs(mine), _open_inputs(theirs)
        for position, other in found.inputs.items():
            names[others[other]] = before[known[position]]
        _name_inputs(theirs, inputs, names, self._names.fresh)
        for index, eqn in enumerate(theirs.equations):
            first = found.after.first[index]
            if first != index:  # what is computed again has the name that it had
                again = theirs.equations[first].results
                _take_over(eqn, again, names, names)
            partner = found.mate.get(first)
            if partner is not None:
                _take_over(eqn, mine.equations[partner].results, before, names)
            self._name_results(eqn, names, hints)
        return names

    def _name_results(
        self, eqn: Equation, names: Names, hints: Mapping[Value, str]
    ) -> None:
        for value in eqn.results:
            if value is not None and value not in names:
                hint = hints.get(value) or result_name(eqn)
                names[value] = self._names.fresh(hint)


def _blocks(param: Any) -> list[Block]:
    items: Any = param if isinstance(param, tuple) else (param,)
    return [item for item in items if isinstance(item, Block)]


def _take_over(
    eqn: Equation, results: Sequence[Value | None], known: Names, names: Names
) -> None:
    """Name results after those of another equation."""
    for value, other in zip(eqn.results, results):
        if value is not None and other is not None and other in known:
            names[value] = known[other]


def _open_inputs(block: Block) -> list[Value]:
    """The inputs of a block, before them the constants whose values are not known."""
    _, consts = jaxapi.split_jaxpr(block.jaxpr)
    constants = [] if consts else [value for value, _ in block.constants]
    return [*constants, *block.inputs]


def _name_inputs(
    block: Block,
    given: Sequence[str] | None,
    names: Names,
    fresh: Callable[[str], str],
) -> None:
    """Name the inputs that have no name yet, by the access to them if it is known."""
    for position, value in enumerate(block.inputs):
        if value in names:
            continue
        if given is not None and position < len(given):
            names[value] = printable(given[position])
        else:
            names[value] = fresh(identifier(input_hints(block)[position], "x"))
    for value in _open_inputs(block):
        if value not in names:
            names[value] = fresh("constant")


class _NamedFrame(Frame):
    """Writes statements of a block whose values have names already."""

    def __init__(self, lifter: Lifter, block: Block, names: Names) -> None:
        ambient = jaxapi.ambient_context()
        super().__init__(lifter, Scope(lifter.scope), dict(names), ambient=ambient)
        self.block = block
        self.functions: dict[int, Block] = {}
        for value, const in block.constants:
            self.constants.add(value)
            if value not in self.env:
                self.env[value] = self._constant(const)

    def _constant(self, const: Any) -> str:
        try:
            return self.lifter.constants.name(const)
        except LiftingError:  # a value of a trace that has ended
            return "captured"

    def define(self, value: Value, hint: str) -> str:
        return self.env.get(value) or super().define(value, hint)

    def callable(
        self,
        block: Block,
        hint: str,
        captured: Sequence[Atom],
        groups: Sequence[Group],
        results: Callable[[Frame], str],
        given: Sequence[Atom] = (),
    ) -> str:
        """Name a sub-program, which is not written out."""
        called = self.functions.get(id(block), block)
        name = identifier(block_name(called, hint), "function")
        if not captured:
            return name
        return f"functools.partial({', '.join([name, *self.texts(captured)])})"

    def statement(self, eqn: Equation) -> str:
        """Write one equation."""
        self.lines.clear()
        self.open = None
        try:
            self.equation(eqn)
        except Exception:
            # A program may be edited by hand or by a tool: what no rule expects in it
            # is what a comparison has to show.
            return self._plainly(eqn)
        lines = [line for line in self.lines if line.strip()]
        return "\n".join(lines[-MAX_LINES:])

    def shown(self, atom: Atom) -> str:
        """Write an operand for reading."""
        if isinstance(atom, Literal):
            return literal_text(atom)
        return self.env.get(atom, "?")

    def _plainly(self, eqn: Equation) -> str:
        """Write an equation that no rule can write."""
        targets = [
            "_" if value is None else self.env.get(value, "_") for value in eqn.results
        ]
        operands = ", ".join(map(self.shown, eqn.operands))
        target = f"{', '.join(targets)} = " if targets else ""
        return f"{target}{printable(eqn.name)}({operands})"


def literal_text(literal: Literal) -> str:
    """Write a literal for reading, with the digits that its type has."""
    dtype = getattr(literal.aval, "dtype", None)
    is_plain = isinstance(dtype, np.dtype)
    value = np.asarray(literal.value, dtype if is_plain else None)
    return printable(str(value[()] if value.ndim == 0 else value))


def operand_atom(side: Side, operand: Operand, atoms: Sequence[Atom], at: int) -> Atom:
    """The first value that is what an operand is."""
    if operand.owner in (INPUT, CONSTANT):
        return atoms[at]
    return side.block.equations[operand.owner].results[operand.position] or atoms[at]


def user_line(eqn: Equation) -> tuple[str, str]:
    """The place of the user's statement behind an equation, "model.py:12", and its text."""
    place = eqn.source_info and jaxapi.innermost(eqn.source_info)
    if not place:
        return "", ""
    file, line, is_backward = place
    text = linecache.getline(file, line).strip()
    where = f"{os.path.basename(file)}:{line}"
    return printable(where + " (backward)" * is_backward), printable(text)
