"""Equations that are written as expressions of terms: uses of names are counted."""

import jax
import jax.numpy as jnp

from untrace.ir import from_jaxpr
from untrace.lifting.lifter import Lifter
from untrace.lifting.recorded.calls.equations import expression
from untrace.lifting.recorded.folding import fold_all
from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Statement
from untrace.options import Options


def test_operand_that_is_used_twice_is_counted_twice() -> None:
    """Values that are used more often than counted were folded, without end."""
    block = from_jaxpr(jax.make_jaxpr(lambda x: x * x)(jnp.ones(3)))
    name = Name("x")
    name.uses = 1
    found = expression(block, [Term([Ref(name)])], Lifter(Options()))
    assert found is not None and name.uses == 2
    made = Statement(name, Term(["jnp.sin(y)"]))
    assert not fold_all([made, Statement(Name("z"), found[0])])
    assert name.folded is None


def test_operand_that_is_not_used_is_not_counted() -> None:
    jaxpr = jax.make_jaxpr(lambda x, y: x + 1.0)(1.0, 2.0)
    first, second = Name("x"), Name("y")
    first.uses = second.uses = 1
    operands = [Term([Ref(first)]), Term([Ref(second)])]
    assert expression(from_jaxpr(jaxpr), operands, Lifter(Options())) is not None
    assert (first.uses, second.uses) == (1, 0)
