"""How a network of equations is solved: with which rules, and what is tried after them."""

from __future__ import annotations

from untrace.interpreters.inverse_rules.calls import body_of, call_rule
from untrace.interpreters.inverse_rules.table import rule_of

# It fills the tables.
from untrace.interpreters.inverse_rules.tables import TABLES as TABLES
from untrace.interpreters.inverting.affine import solve_linear
from untrace.interpreters.inverting.bins import solve_splines
from untrace.interpreters.inverting.elements import follow_elements
from untrace.interpreters.inverting.fractional import solve_fractional
from untrace.interpreters.inverting.network import Network, Node, enter_all, enter_told
from untrace.interpreters.inverting.selections import solve_selections
from untrace.interpreters.inverting.step import NotInvertible, Step


def new_network(principal: bool = False, has_log_det: bool = False) -> Network:
    """Return an empty network with all rules."""
    later = (
        enter_told,
        follow_elements,
        enter_all,
        solve_fractional,
        solve_linear,
        solve_selections,
        solve_splines,
    )
    return Network(_invert, body_of, later, principal, has_log_det)


def _invert(network: Network, node: Node) -> None:
    """Solve an equation by the rule of the function that it calls, or of its primitive."""
    own = None if node.eqn is None else call_rule(node.eqn)
    rule = own or rule_of(node)
    node.refusal = ""
    if rule is None:
        return
    try:
        rule(Step(node, network))
    except NotInvertible as reason:
        node.refusal = str(reason)
