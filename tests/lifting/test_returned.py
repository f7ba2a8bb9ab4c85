"""What a function returns is written where it returns it, unless it had a name."""

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import logsumexp

import untrace
from untrace.lifting.heads import Parameter
from untrace.lifting.recorded.folding import finish
from untrace.lifting.recorded.printing import render
from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Draft, Statement

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", str(src.report)
    return str(src)


def test_unnamed_results_stay_in_the_returned_tuple():
    def posterior(a, b):
        return jnp.exp(a - logsumexp(a, axis=-1, keepdims=True)), logsumexp(b + a[-1])

    assert "    return (\n        jnp.exp(" in recover(posterior, X, X)


def test_named_results_keep_their_names():
    def posterior(a, b):
        weights = jnp.exp(a - logsumexp(a, axis=-1, keepdims=True))
        return weights, {"evidence": logsumexp(b + a[-1], axis=0), "largest": a.max()}

    text = recover(posterior, X, X)
    assert "    return weights, {\n" in text
    assert "exponential" not in text


def test_long_expressions_are_one_statement_as_they_were():
    def bce(logits, x):
        return jnp.sum(
            jnp.maximum(logits, 0) - logits * x + jnp.log1p(jnp.exp(-jnp.abs(logits)))
        )

    assert "return jnp.sum(\n" in recover(bce, X, X)


def test_what_is_computed_before_a_kept_statement_stays_before_it():
    first, second = Name("first"), Name("second")
    kept = Name("kept", is_given=True, is_foreign=True)
    x = Name("x", True, is_parameter=True)
    draft = Draft("f", [Parameter(x)])
    for name, function, of in [
        (first, "f", x),
        (kept, "g" * 60, x),
        (second, "h", kept),
    ]:
        draft.statements.append(Statement(name, use(function, of)))
    draft.result = Term([*use("", first).parts, " + ", *use("", second).parts])
    finish(draft)
    assert render(draft).lines[:2] == ["first = f(x)", f"kept = {'g' * 60}(x)"]


def use(function, name):
    name.uses += 1
    return Term([f"{function}(", Ref(name), ")"])
