"""Equations that are written as expressions of terms: uses of names are counted."""

import ast

import jax
import jax.numpy as jnp
import pytest

from untrace.ir import from_jaxpr
from untrace.lifting.lifter import Lifter
from untrace.lifting.recorded.building import binary
from untrace.lifting.recorded.calls.equation_texts import term_of
from untrace.lifting.recorded.calls.equations import expression
from untrace.lifting.recorded.folding import fold_all
from untrace.lifting.recorded.terms import CALL, Global, Name, Ref, Term
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


@pytest.mark.parametrize(
    "text, written",
    [
        ("f(a_, b_, axis=(1, 2), k=b_)", "f(x, y + z, axis=(1, 2), k=(y + z))"),
        ("a_[b_, 1:2]", "x[(y + z), 1:2]"),
        ("a_[b_,]", "x[(y + z),]"),
        ("-b_", "-(y + z)"),
        ("[a_, (b_,)]", "[x, (y + z,)]"),
        ("f(*b_, **a_)", "f(*(y + z), **x)"),
        ("f((a_), 1)", "f((x), 1)"),
        ('f("a_", g(f, f=1)).T', 'f("a_", g(f, f=1)).T'),
        ("f(i for i in b_)", "f(i for i in (y + z))"),
        ("lambda i: (i, b_)", "lambda i: (i, y + z)"),
        ('a_.at[()].set(f"{1}")', 'x.at[()].set(f"{1}")'),
    ],
)
def test_text_of_an_equation_is_an_expression_with_operands(
    text: str, written: str
) -> None:
    operands = {"a_": Term([Ref(Name("x"))]), "b_": binary(T("y"), "+", T("z"))}
    made = term_of(text, operands, {"f"})
    assert made.render() == written
    n_functions = sum(isinstance(token, Global) for token in made.tokens())
    tree = ast.walk(ast.parse(text))
    names = [node.id for node in tree if isinstance(node, ast.Name)]
    assert n_functions == names.count("f")
    loads = [group for group in made.groups() if group.kind == CALL]
    assert len(loads) <= text.count("(")


def T(text: str) -> Term:
    return Term([text])
