"""Calls under transformations that cannot be proved: only those are lowered."""

import equinox as eqx
import equinox.internal as eqxi
import jax
import jax.numpy as jnp
import numpy as np

import untrace

W = np.linspace(0.5, 1.0, 12, dtype=np.float32).reshape(4, 3)
X = np.ones((2, 4), np.float32)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.is_verified, str(src.report)
    notes = " ".join(src.report.notes)
    assert "Written from its equations" not in notes
    return str(src), notes


def test_loop_of_a_library_under_vmap():
    def root(c):
        def is_far(x):
            return jnp.abs(x * x - c) > 1e-3

        return eqxi.while_loop(is_far, lambda x: 0.5 * (x + c / x), c, kind="lax")

    def f(w, x):
        hidden = jax.nn.softplus(x @ w)
        return jax.nn.softmax(jax.vmap(root)(hidden[0]) + 1.0)

    text, notes = recover(f, W, X)
    assert "`vmap`" in notes
    assert "jax.nn.softplus(x @ w)" in text and "jax.nn.softmax(" in text


def test_check_at_run_time_under_vmap(caplog):
    def safe_root(x, y):
        x, y = eqx.error_if((x, y), x < 0, "negative")
        return jnp.sqrt(x) + y

    def f(w, x):
        hidden = jax.nn.softplus(x @ w)
        return jax.nn.softmax(jax.vmap(safe_root, in_axes=(0, None))(hidden[0], 1.0))

    text, _ = recover(f, W, X)
    assert "jax.nn.softplus(x @ w)" in text and "jax.nn.softmax(" in text
    assert (
        not caplog.records
    )  # the text that differs raises where the original does not
