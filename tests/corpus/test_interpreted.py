"""The handler that does nothing changes no bit: samples, and all with `-m corpus`."""

from __future__ import annotations

import collections
from collections.abc import Iterable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus import interpreted
from tests.corpus.op_by_op import op_by_op

pytest.importorskip("absl", reason="the harness of JAX needs absl-py")


def check(outcomes: Iterable[interpreted.Outcome]) -> None:
    counts: collections.Counter[str] = collections.Counter()
    bad: list[str] = []
    for outcome in outcomes:
        counts[outcome.verdict] += 1
        if outcome.verdict in ("different", "error"):
            bad.append(f"{outcome.verdict} {outcome.name}: {outcome.detail[:300]}")
    assert not bad, "\n".join(bad[:20])
    if set(counts) == {"not installed"}:
        pytest.skip("none of its packages is installed")
    assert sum(counts[verdict] for verdict in interpreted.GOOD), counts


STEPS = {"harness": 600, "programs": 601, "readability": 20, "packages": 100}
"""Every how manyth case is in the sample; of the harness one of each group, too."""


@pytest.mark.parametrize("corpus", STEPS)
def test_sample_of_a_corpus_has_the_bits_of_jax(corpus: str) -> None:
    check(interpreted.outcomes(corpus, STEPS[corpus]))


@pytest.mark.corpus
@pytest.mark.parametrize("corpus", STEPS)
def test_whole_corpus_has_the_bits_of_jax(corpus: str) -> None:
    check(interpreted.outcomes(corpus, 1))


def test_the_reference_runs_loops_turn_by_turn() -> None:
    def f(x: jax.Array) -> jax.Array:
        for _ in range(3):
            x = jax.lax.fori_loop(0, 5, lambda i, c: jnp.sin(c) * 1.1 + i, x)
            x = jax.lax.cond(x.sum() > 0, jnp.cos, jnp.tanh, x)
        return jax.lax.while_loop(lambda c: c.sum() < 9, lambda c: c * 1.7 + 1, x)

    x = np.linspace(0, 1, 7, dtype=np.float32)
    with jax.disable_jit():
        wanted = f(jnp.asarray(x))
    found = op_by_op(jax.make_jaxpr(f)(x), [jnp.asarray(x)])[0]
    np.testing.assert_array_equal(found, wanted)
    rows = jnp.stack([x, x * 9])
    batched = op_by_op(jax.make_jaxpr(jax.vmap(f))(rows), [rows])[0]
    np.testing.assert_allclose(batched, jax.vmap(f)(rows), rtol=1e-6)
