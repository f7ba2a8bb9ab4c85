"""Calls that are written as functions of their equations, inside functions of calls."""

import jax
import jax.numpy as jnp

import untrace
from untrace.lifting.recorded.unwritable import Unwritable


def test_results_that_are_kept_whole_have_a_name_of_their_own(monkeypatch):
    """One was called as the first of the results that are taken from it in two lines."""

    def unwritable(*args):
        raise Unwritable("a test")

    def scale(updates, state):
        mapped = jax.tree.map(lambda a, b: jnp.sin(a) * b, updates, state)
        total = sum(jax.tree.leaves(mapped))
        return jax.tree.map(lambda m, s: m * total + s, mapped, state), mapped

    monkeypatch.setattr("untrace.lifting.recorded.calls.calls.tree_call", unwritable)
    tree = {f"layer_{i}": {"b": jnp.ones(3), "w": jnp.ones(3)} for i in range(6)}
    src = untrace.source(lambda xs, ys: scale(xs, ys))(tree, tree)
    assert src.report.is_verified, str(src.report)
    notes = [n for n in src.report.notes if n.startswith("`map`")]
    assert len(notes) == 2 and "mapped_6 = mapped_25[:6]" in src.text, src.text
