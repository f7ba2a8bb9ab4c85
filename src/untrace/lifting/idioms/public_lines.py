"""Tell which equations level "lax" writes as anyone would: they are left as they are."""

from __future__ import annotations

from untrace.ir import Equation, Literal
from untrace.lifting.idioms.regions import Region
from untrace.lifting.rules.table import Rule, accepted
from untrace.lifting.rules.when import dtype_name

# Their indices are nicer with the signs and the ellipsis that people write.
_IMPROVED = "slice squeeze iota broadcast_in_dim reshape random_seed"
IMPROVED = frozenset(_IMPROVED.split())


def is_public(region: Region) -> bool:
    """Whether a region is one equation whose rule prints no `jax.lax`."""
    if len(region.equations) != 1:
        return False
    root = region.root
    if root.name in IMPROVED:
        return False
    rule = _first_rule(root)
    return rule is not None and not rule.template.startswith("jax.lax")


def _first_rule(eqn: Equation) -> Rule | None:
    choices, _ = accepted(eqn.name, eqn.params)
    operands = eqn.operands
    if operands and isinstance(operands[0], Literal):
        rules = choices.of_literal(dtype_name(operands[0]))
    else:
        rules = choices.of_values
    return next((r for r in rules if r.when is None or r.when(eqn)), None)
