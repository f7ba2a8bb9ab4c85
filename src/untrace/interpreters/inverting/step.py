"""What a rule is given: one equation of the program, and what is known around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from untrace.interpreters.inverting.cells import Box, Cell, Mask
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.network import Network, Node

LogDet = Callable[..., Any] | float | None
"""Computes log |det| of what a rule solves from what it solved and the values that it was
solved from; a number that it always is; or None if no formula is known."""


class NotInvertible(Exception):
    """A rule does not apply; the text says why, as the end of a sentence."""


class Step:
    """An equation that is solved.

    Attributes:
      node: The equation in its network.
      network: The program.
    """

    __slots__ = ("network", "node")

    def __init__(self, node: Node, network: Network) -> None:
        self.node = node
        self.network = network

    @property
    def name(self) -> str:
        """The name of the primitive."""
        return self.node.name

    @property
    def params(self) -> Any:
        """The params of the equation."""
        return self.node.eqn.params

    @property
    def operands(self) -> list[Cell]:
        """What the equation reads."""
        return self.node.operands

    @property
    def results(self) -> list[Cell]:
        """What the equation makes."""
        return self.node.results

    @property
    def is_principal(self) -> bool:
        """Whether functions that are not injective are inverted on a branch of them."""
        return self.network.is_principal

    def operand(self, i: int) -> Lazy | None:
        """An operand, if all of it is known."""
        return self.operands[i].whole

    def result(self, i: int = 0) -> Lazy | None:
        """A result, if all of it is known."""
        return self.results[i].whole

    def needed_result(self, i: int = 0) -> Lazy:
        """A result.

        Raises:
          NotInvertible: If it is not known.
        """
        known = self.results[i].whole
        if known is None:
            raise NotInvertible(WAITS)
        return known

    def needed_operands(self, numbers: range) -> list[Lazy]:
        """Operands that have to be known.

        Raises:
          NotInvertible: If one is not.
        """
        known = [self.operands[i].whole for i in numbers]
        if any(each is None for each in known):
            raise NotInvertible(TWO)
        return [each for each in known if each is not None]

    def only_unknown(self) -> int:
        """The number of the only operand that is not known.

        Raises:
          NotInvertible: If there are several.
        """
        unknown = [i for i, cell in enumerate(self.operands) if not cell.is_known]
        if len(unknown) != 1:
            raise NotInvertible(TWO)
        return unknown[0]

    def solve(
        self,
        i: int,
        make: Callable[..., Any],
        *needs: Lazy,
        log_det: LogDet = None,
        counts_new: bool = False,
    ) -> None:
        """Say how an operand is computed.

        Args:
          i: Which operand.
          make: Computes it from the values of `needs`.
          *needs: What is known.
          log_det: log |det| of the derivative of the operand by the result.
          counts_new: Whether it is that of the elements that were not known before.
        """
        if self.operands[i].mask is not None and log_det != 0.0 and not counts_new:
            log_det = None
        lazy = Lazy(make, needs)
        if self.network.learn(self.operands[i], lazy):
            self.record(log_det, [lazy, *needs], self.operands[i])

    def solve_part(self, i: int, where: Box | Mask, lazy: Lazy) -> int:
        """Say which elements of an operand are those of a result; return how many are news.

        They are moved, not computed with: log |det| is 0.
        """
        return self.network.learn_part(self.operands[i], where, lazy)

    def make(self, i: int, lazy: Lazy) -> None:
        """Say how a result is computed."""
        self.network.learn(self.results[i], lazy)

    def record(self, log_det: LogDet, needs: list[Lazy], solved: Cell) -> None:
        """Note log |det| of what was solved; whole numbers have none."""
        dtype = getattr(solved.aval, "dtype", None)
        if not self.network.has_log_det:
            return
        if dtype is None or not jnp.issubdtype(dtype, jnp.inexact):
            return
        if isinstance(log_det, float):
            if log_det:
                self.network.log_dets.append((self.node, Lazy.of(log_det)))
        elif log_det is None:
            self.network.log_dets.append((self.node, None))
        elif callable(log_det):
            self.network.log_dets.append((self.node, Lazy(log_det, needs)))


PART = "information lost: elements outside of the slice reach no result"
WAITS = "its result is not known"
TWO = "two unknowns: several of its operands are not known"

Rule = Callable[[Step], None]
"""Solves an equation; raises `NotInvertible`."""
