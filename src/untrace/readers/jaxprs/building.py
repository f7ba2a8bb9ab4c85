"""Make a jaxpr of the tree of a printed one.

Every equation is made by the rules of its primitive, which say the types of its results;
these must be those that are printed. Nothing of the text is executed.
"""

from __future__ import annotations

import contextlib
import re
from bisect import bisect_right
from collections.abc import Generator, Sequence
from itertools import accumulate
from typing import Any, NoReturn

from untrace.errors import ParseError
from untrace.jaxapi import close_jaxpr, jax_version, printed, short_type
from untrace.jaxapi.rule_params import known_params
from untrace.readers.jaxprs.block import BlockBuilder
from untrace.readers.jaxprs.constants import with_constants_as_inputs
from untrace.readers.jaxprs.cursor import ADVICE
from untrace.readers.jaxprs.dropped import with_names_of_dropped
from untrace.readers.jaxprs.library import Library
from untrace.readers.jaxprs.params import Params
from untrace.readers.jaxprs.syntax import (
    Binder,
    Block,
    Equation,
    Printed,
)
from untrace.readers.jaxprs.types import Types
from untrace.readers.jaxprs.weak import WeakTypes


def build(tree: Printed, text: str) -> Any:
    """Return the closed jaxpr of a tree, whose constants are its first arguments.

    Raises:
      ParseError: If the tree is none, or does not hold all of it.
    """
    tree = with_names_of_dropped(with_constants_as_inputs(tree))
    builder = Builder(text, tree.shared)
    block = tree.block
    binders = [*block.constvars, *block.invars]
    block = block._replace(constvars=[], invars=binders)
    needs = builder.weak.of(block)
    avals = [
        builder.binder_type(binder, is_weak)
        for binder, is_weak in zip(binders, needs.inputs)
    ]
    return close_jaxpr(builder.block(block, avals, ()))


class Lines:
    """The lines of a text, by where they begin."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in self._lines)]

    def at(self, place: int) -> tuple[int, str]:
        """Return the number of the line at a place, from 1, and what it says."""
        row = bisect_right(self._starts, place) - 1
        return row + 1, self._lines[row].strip()


class Builder:
    """What is known while the jaxprs of one text are made."""

    def __init__(
        self, text: str, shared: dict[str, Block], lines: Lines | None = None
    ) -> None:
        self.text = text
        self.shared = shared
        self.types = Types()
        self.weak = WeakTypes(shared)
        self.params = Params(self)
        self.library = Library()
        self._made: dict[Any, Any] = {}
        self._mixed: dict[int, int] = {}
        self.alike: dict[Any, Any] = {}
        self._active: set[int] = set()
        self._short: dict[Any, str] = {}
        self.mesh: Any = None
        self.lines = lines or Lines(text)

    def line(self, at: int) -> tuple[int, str]:
        """Return the line of a place in the text: its number, from 1, and what it says."""
        return self.lines.at(at)

    @contextlib.contextmanager
    def region(self, mesh: Any) -> Generator[None, None, None]:
        """Enter what is done on each device of a mesh, where types mean others."""
        before = self.mesh, self.types
        self.mesh, self.types = mesh, Types(mesh.axis_names)
        try:
            yield
        finally:
            self.mesh, self.types = before

    def fail(self, problem: str, at: int, advice: str = "") -> NoReturn:
        """Say that something in the text cannot be made."""
        raise ParseError(problem, self.text, at, advice or ADVICE)

    def inner(self, tree: Printed) -> Any:
        """Return the open jaxpr of one that stands with its own shared ones."""
        return Builder(self.text, tree.shared, self.lines).from_text(tree.block)

    # -- types

    def type(self, text: str, at: int) -> Any:
        """Return the aval that a type says."""
        try:
            return self.types.read(text)
        except (ValueError, TypeError, OverflowError) as error:
            self.fail(f"{error}", at)

    def binder_type(self, binder: Binder, is_weak: bool = False) -> Any:
        """Return the aval of an input that only the text tells."""
        if not binder.type:
            self.fail(
                f"the type of `{binder.name}` is not printed",
                binder.at,
                "Print the jaxpr with types, as JAX does by default.",
            )
        aval = self.type(binder.type, binder.at)
        return printed.with_weak_type(aval, True) if is_weak else aval

    def short(self, aval: Any) -> str:
        """Write a type as JAX prints it."""
        found = self._short.get(aval)
        if found is None:
            found = self._short[aval] = short_type(aval)
        return found

    # -- jaxprs

    def shared_block(self, name: str, at: int) -> Block:
        """Return the jaxpr that `let name = ...` defines."""
        found = self.shared.get(name)
        if found is None:
            self.fail(
                f"no jaxpr is called `{name}`",
                at,
                f"The text must begin with `let {name} = {{ lambda ... }} in`.",
            )
        return found

    def from_text(self, block: Block) -> Any:
        """Return the open jaxpr of a block that takes no operands of an equation."""
        needs = self.weak.of(block)
        avals = [
            self.binder_type(binder, is_weak)
            for binder, is_weak in zip(block.invars, needs.inputs)
        ]
        return self.block(block, avals, ())

    def block(self, block: Block, avals: Sequence[Any], needed: tuple[int, ...]) -> Any:
        """Return the open jaxpr of a block at the types of its inputs.

        Args:
          block: It has no constants.
          avals: The types of its inputs.
          needed: Results that must be weak.
        """
        key = (id(block), tuple(avals), needed, self.mesh)
        found = self._made.get(key)
        if found is None:
            if id(block) in self._active:
                self.fail("this jaxpr is used in its own definition", block.at)
            self._active.add(id(block))
            made = BlockBuilder(self, block, avals, needed)
            jaxpr = made.made()
            self._active.discard(id(block))
            found = self._made[key] = jaxpr
            self._mixed[id(jaxpr)] = made.n_mixed
        return found

    def n_mixed(self, jaxpr: Any) -> int:
        """Return how many equations of a jaxpr mix weak and strong types.

        The functions of `jax.numpy` convert what they mix: more of such equations make it
        less likely that a type was weak.
        """
        return self._mixed[id(jaxpr)]

    # -- equations

    def inferred(
        self, eqn: Equation, primitive: Any, avals: Sequence[Any], params: Any
    ) -> tuple[list[Any], Any]:
        """Return the types of the results of an equation and its effects."""
        try:
            return printed.infer(primitive, avals, params)
        except ParseError:
            raise
        except Exception as error:  # the rules of primitives raise anything
            kinds = " ".join(map(short_type, avals))
            said = (str(error) or type(error).__name__).split("\n")[0]
            unknown = _UNKNOWN.search(said)
            if unknown is not None and unknown[1] in eqn.params:
                self._fail_at_param(unknown[1], eqn)
            self.fail(f"`{eqn.primitive}` is not possible for {kinds}: {said}", eqn.at)

    def known(
        self, eqn: Equation, primitive: Any, params: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the params that this release has; others may be there if they are None.

        A name with a leading underscore says itself that no rule reads the param.
        """
        names = None if printed.is_call(primitive) else known_params(primitive)
        if names is None:
            return params
        known = {n: v for n, v in params.items() if n in names or n.startswith("_")}
        for name, value in params.items():
            if value is not None and name not in known:
                self._fail_at_param(name, eqn)
        return known

    def _fail_at_param(self, name: str, eqn: Equation) -> NoReturn:
        self.fail(
            f"`{eqn.primitive}` has no param `{name}` in jax {jax_version()}",
            eqn.at,
            "If a newer JAX printed the text, read it with that.",
        )


_UNKNOWN = re.compile(r"unexpected keyword argument '(\w+)'")
