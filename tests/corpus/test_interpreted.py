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
from tests.corpus.shortened import shortened

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


STEPS = {
    "groups": 4,
    "programs": 1201,
    "readability": 120,
    "packages": 100,
    "shortened": 60,
}
"""Every how manyth case is in the sample, or group of cases of the harness."""

WHOLE = ["harness", *(name for name in STEPS if name != "groups")]


@pytest.mark.parametrize("corpus", STEPS)
def test_sample_of_a_corpus_has_the_bits_of_jax(corpus: str) -> None:
    check(interpreted.outcomes(corpus, STEPS[corpus]))


@pytest.mark.corpus
@pytest.mark.parametrize("corpus", WHOLE)
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


def test_shortened_loops_end_early_and_keep_every_equation() -> None:
    def f(x: jax.Array) -> tuple[jax.Array, ...]:
        carry, rows = jax.lax.scan(lambda c, r: (c + r, c * r), x, jnp.ones((5, 3)))
        _, back = jax.lax.scan(
            lambda c, r: (c + r, c + r), x, jnp.ones((5, 3)), reverse=True
        )
        last = jax.lax.while_loop(lambda c: c.sum() < 1e9, lambda c: c * 2, x + 1)
        known = jax.lax.fori_loop(0, 9, lambda i, c: c + i, 0)
        return carry, rows, back, last, known

    x = jnp.arange(3.0)
    short = shortened(jax.make_jaxpr(f)(x), [x], 2)
    names = {e.primitive.name for e in short.eqns}
    assert {"scan", "while"} <= names
    carry, rows, back, last, known = op_by_op(short, [x])
    np.testing.assert_array_equal(carry, x + 2)
    np.testing.assert_array_equal(rows, jnp.stack([x] + [x + 1] * 4))
    np.testing.assert_array_equal(back, jnp.stack([x + 2] * 4 + [x + 1]))
    np.testing.assert_array_equal(last, (x + 1) * 4)
    assert int(known) == 1

    rows = jnp.stack([x, x + 1e9])  # the loop of the second does not begin
    batched = shortened(jax.make_jaxpr(jax.vmap(f))(rows), [rows], 2)
    *_, last, _ = op_by_op(batched, [rows])
    np.testing.assert_array_equal(last, jnp.stack([(x + 1) * 4, x + 1e9 + 1]))
