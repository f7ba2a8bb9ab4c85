"""The equations of a program as a network in which knowledge spreads.

The results are known, and the inputs are wanted. An equation whose operands are known
makes its results known; one whose results and enough operands are known makes the other
operands known, by the rule of its primitive. Each time that something becomes known the
equations around it are looked at again, until nothing is news: the work is linear in the
number of equations. Calls are entered when their whole is of no help; then elements of
arrays are followed one by one (masks), and systems of linear equations solved.

Nothing is computed here: what becomes known is a `Lazy`.
"""

from __future__ import annotations

import operator
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from untrace import jaxapi
from untrace.interpreters.inverting.cells import Box, Cell, Mask
from untrace.interpreters.inverting.lazy import Lazy, as_number, is_plain_scalar
from untrace.interpreters.sub_programs import split

IDENTITY = "copy"
"""The name of a node without an equation, which says that two values are one."""


class Node:
    """An equation of the network.

    Attributes:
      eqn: The equation; None for an identity.
      operands: What it reads.
      results: What it makes.
      parent: The call that it is in, if that was entered.
      is_open: Whether its body takes its part.
      refusal: Why its rule did not apply when it was last tried.
      is_waiting: Whether it will be looked at.
    """

    __slots__ = (
        "eqn",
        "is_open",
        "is_waiting",
        "operands",
        "parent",
        "refusal",
        "results",
    )

    def __init__(
        self,
        eqn: Any,
        operands: list[Cell],
        results: list[Cell],
        parent: Node | None = None,
    ) -> None:
        self.eqn = eqn
        self.parent = parent
        self.operands = operands
        self.results = results
        self.is_open = False
        self.is_waiting = False
        self.refusal = ""

    @property
    def name(self) -> str:
        """The name of its primitive."""
        return IDENTITY if self.eqn is None else self.eqn.primitive.name

    @property
    def is_spent(self) -> bool:
        """Whether everything around it is known."""
        return all(cell.is_known for cell in (*self.operands, *self.results))

    def forward(self) -> list[Lazy]:
        """Return its results as they are computed from its operands, all known."""
        needs = [cell.whole for cell in self.operands if cell.whole is not None]
        return evaluated(self.eqn, needs)


def maker_of(cell: Cell) -> Node | None:
    """Return the equation that makes a value, if one that is not open does."""
    return next((node for node in cell.nodes if cell in node.results), None)


def evaluated(eqn: Any, needs: Sequence[Lazy]) -> list[Lazy]:
    """Return the results of an equation at some operands."""
    if eqn is None:
        return list(needs)

    def bind(*operands: Any) -> Any:
        primitive = eqn.primitive
        with eqn.ctx.manager:
            if primitive.name in _OPERATORS and is_plain_scalar(*operands):
                one, other = map(as_number, operands)
                return _OPERATORS[primitive.name](one, other)
            return primitive.bind(*operands, **primitive.get_bind_params(eqn.params))

    if not eqn.primitive.multiple_results:
        return [Lazy(bind, needs, None if is_pure(eqn) else False)]
    whole = Lazy(bind, needs, None if is_pure(eqn) else False)
    return [_item(whole, i) for i in range(len(eqn.outvars))]


_OPERATORS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
}
"""How a person writes a primitive of which one operand is a constant: `x * 2.0`."""


def _item(whole: Lazy, i: int) -> Lazy:
    return Lazy(lambda results: results[i], [whole])


def is_pure(eqn: Any) -> bool:
    """Return whether an equation may be evaluated while the program is planned."""
    return not eqn.effects


class Network:
    """A program that is solved.

    Args:
      invert: Solves an equation for what it lacks, or notes in it why it does not.
      calls: Which sub-program stands for an equation and can be entered, if one can.
      later: What is tried, in this order, when the rules lead no further; each returns
        whether anything became known.
      is_principal: Whether functions that are not injective are inverted on a branch.
      has_log_det: Whether log |det| of what is solved is wanted.

    Attributes:
      fresh: Equations around which something became known since they were looked at
        element by element.
      memory: What others remember of equations.
      log_dets: An equation and log |det| of what it was solved for, for each that was;
        None where no formula is known.
    """

    def __init__(
        self,
        invert: Callable[[Network, Node], None],
        calls: Callable[[Any], Any],
        later: Sequence[Callable[[Network], bool]] = (),
        is_principal: bool = False,
        has_log_det: bool = False,
    ) -> None:
        self.invert = invert
        self.calls = calls
        self.later = later
        self.is_principal = is_principal
        self.has_log_det = has_log_det
        self.nodes: list[Node] = []
        self.log_dets: list[tuple[Node, Lazy | None]] = []
        self.fresh: dict[Node, None] = {}
        self.memory: dict[Any, Any] = {}
        self._agenda: deque[Node] = deque()

    def like(self) -> Network:
        """Return an empty network that is solved in the same way, for a sub-program."""
        return Network(
            self.invert, self.calls, self.later, self.is_principal, self.has_log_det
        )

    # ---- making it -----------------------------------------------------------------

    def add(
        self, jaxpr: Any, inputs: Sequence[Cell], parent: Node | None = None
    ) -> list[Cell]:
        """Add the equations of a jaxpr; return its outputs."""
        body, consts = split(jaxpr)
        cells: dict[Any, Cell] = dict(zip(body.invars, inputs, strict=True))
        for var, const in zip(body.constvars, consts, strict=True):
            cells[var] = _constant(var.aval, const)

        def cell(atom: Any) -> Cell:
            if hasattr(atom, "val"):
                return _constant(atom.aval, atom.val)
            if atom not in cells:
                cells[atom] = Cell(atom.aval)
            return cells[atom]

        for eqn in body.eqns:
            self.add_node(
                Node(
                    eqn,
                    [cell(a) for a in eqn.invars],
                    [cell(v) for v in eqn.outvars],
                    parent,
                )
            )
        return [cell(atom) for atom in body.outvars]

    def add_node(self, node: Node) -> None:
        """Add an equation."""
        self.nodes.append(node)
        for each in {id(c): c for c in (*node.operands, *node.results)}.values():
            each.nodes.append(node)
        self._look_at(node)

    def tie(self, one: Cell, other: Cell, parent: Node | None = None) -> None:
        """Say that two values are one."""
        self.add_node(Node(None, [one], [other], parent))

    def replace(self, node: Node, cell: Cell) -> None:
        """Let a value take the place of an equation with one result, which makes it, too."""
        self._take_out(node)
        self.tie(cell, node.results[0], node)

    def enter(self, node: Node) -> bool:
        """Let the body of a call take its place; return whether it has one."""
        body = None if node.eqn is None else self.calls(node.eqn)
        if body is None or node.is_open:
            return False
        self.open(node, body, node.operands)
        return True

    def open(self, node: Node, body: Any, inputs: Sequence[Cell]) -> None:
        """Let a body take the place of an equation, with some of its operands."""
        self._take_out(node)
        outputs = self.add(body, inputs, node)
        for inner, outer in zip(outputs, node.results, strict=True):
            self.tie(inner, outer, node)

    def _take_out(self, node: Node) -> None:
        """Let something else take the place of an equation."""
        node.is_open = True
        for cell in {id(c): c for c in (*node.operands, *node.results)}.values():
            cell.nodes.remove(node)

    # ---- solving it ----------------------------------------------------------------

    def solve(self, wanted: Sequence[Cell]) -> bool:
        """Spread what is known; return whether all that is wanted became known."""
        while True:
            self._spread(wanted)
            if all(cell.is_known for cell in wanted):
                return True
            if not any(more(self) for more in self.later):
                return False

    def learn(self, cell: Cell, lazy: Lazy) -> bool:
        """Know a value; return whether that is news."""
        is_news = cell.learn(lazy)
        if is_news:
            self._look_around(cell)
        return is_news

    def learn_part(self, cell: Cell, where: Box | Mask, lazy: Lazy) -> int:
        """Know elements of a value; return how many are news."""
        n_new = cell.learn_part(where, lazy)
        if n_new:
            self._look_around(cell)
        return n_new

    def _look_around(self, cell: Cell) -> None:
        for node in cell.nodes:
            self._look_at(node)

    def _look_at(self, node: Node) -> None:
        self.fresh[node] = None
        if not (node.is_waiting or node.is_open):
            node.is_waiting = True
            self._agenda.append(node)

    def _spread(self, wanted: Sequence[Cell]) -> None:
        while self._agenda:
            node = self._agenda.popleft()
            node.is_waiting = False
            if not (node.is_open or node.is_spent):
                self._advance(node)

    def _advance(self, node: Node) -> None:
        if all(cell.is_known for cell in node.operands):
            for cell, lazy in zip(node.results, node.forward()):
                self.learn(cell, lazy)
            return
        self.invert(self, node)


def enter_told(network: Network) -> bool:
    """Enter calls of whose results something is known; return whether there are any."""
    told = [
        node for node in _closed(network) if any(c.is_touched for c in node.results)
    ]
    return any([network.enter(node) for node in told])


def enter_all(network: Network) -> bool:
    """Enter all calls; return whether there are any."""
    return any([network.enter(node) for node in _closed(network)])


def _closed(network: Network) -> list[Node]:
    """List the calls that can be entered."""
    return [
        node
        for node in network.nodes
        if not (node.is_open or node.is_spent or node.eqn is None)
        and network.calls(node.eqn) is not None
    ]


def _constant(aval: Any, value: Any) -> Cell:
    cell = Cell(aval)
    if getattr(aval, "weak_type", False):
        number = as_number(value)
        is_same = jaxapi.aval_of(number) == aval  # not a float of another precision
        value = number if is_same else value
    cell.learn(Lazy.of(value, is_static=True))
    return cell
