"""What the program passes by keyword is passed so; values from outside are passed as ever."""

import jax
import jax.numpy as jnp
import numpy as np

import untrace

X = np.linspace(0.1, 1.0, 9, dtype=np.float32).reshape(3, 3)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", str(src.report)
    return src.text


def attend(q, k, v, *, mask, scale=2.0, shift=1.0):
    s = q @ k.T * scale + shift
    return jnp.where(mask, s, -jnp.inf) @ v


def test_a_call_has_the_keywords_that_every_call_has():
    def model(q, mask):
        out = attend(q, k=q, v=q, mask=mask, shift=3.0)
        return out + attend(q, q, v=2 * q, mask=mask)

    text = recover(model, X, X > 0.5)
    assert "def attend(q, k, v, mask, scale=2.0, shift=1.0):" in text, text
    # `k` is passed by position once, and `scale` has its default.
    assert "attend(q, q, v=q, mask=mask, shift=3.0)" in text, text
    assert "attend(q, q, v=2 * q, mask=mask)" in text, text


def test_a_method_and_what_it_closes_over():
    shift = jnp.arange(3.0)

    class Layer:
        def __init__(self, scale):
            self.scale = scale

        def apply(self, x, train):
            y = jnp.sin(x) * self.scale + shift
            return y if train else jnp.cos(y)

    text = recover(lambda x: Layer(0.3).apply(x=x, train=True), X)
    assert "return apply(x=x)" in text, text


def test_numbers_that_functions_get_have_keywords_behind_others():
    def scaled(x, weight, power):
        return jnp.tanh(x * weight) ** power + jnp.sin(x) * jnp.cos(x) * power

    def model(x):
        return scaled(x, weight=0.5, power=2) * scaled(x, weight=1.5, power=3)

    text = recover(model, X)
    assert "scaled(x, weight=0.5, power=2) * scaled(x, weight=1.5, power=3)" in text


def test_a_local_of_the_same_name_is_not_the_function():
    def loss(z, x):
        r = z - x
        return jnp.sum(r * jnp.sin(r))

    def outer(w, x):
        def mse(z):
            return loss(z=z, x=x)

        def body(z, _):
            return z - 0.1 * jax.grad(mse)(z), None

        z, _ = jax.lax.scan(body, w, None, length=3)
        return mse(z=z), z

    text = recover(outer, X[0], X[1])
    assert "loss(z=z, x=x)" in text, text


def test_starred_arguments_stay():
    def total(first, *rest, scale):
        return first + sum(rest) * scale

    text = recover(lambda x, y: total(x, y, 2 * y, scale=x[0]), X[0], X[1])
    assert "def total(first, scale, *rest):" in text, text
