"""Inner functions take what is around them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from tests.lifting.test_containers import recover


class Pendulum(NamedTuple):
    length: jax.Array
    drag: jax.Array

    def motion(self, x):
        angle, speed = x
        return jnp.stack([speed, -jnp.sin(angle) / self.length - self.drag * speed])


def test_the_object_of_a_method_is_called_after_its_class():
    def linearised(pendulum, x):
        return jax.jacfwd(pendulum.motion)(x) @ pendulum.motion(x)

    text = recover(linearised, Pendulum(jnp.array(1.5), jnp.array(0.2)), jnp.ones(2))
    assert "def pendulum_motion(pendulum, x):\n" in text, text


def test_inner_functions_take_slices_of_what_is_around():
    def predict(params, x):
        for w, b in params[:-1]:
            x = jnp.tanh(w @ x + b)
        w, b = params[-1]
        return w @ x + b

    def loss(params, x, v):
        n = len(params) // 2

        def encoder(x):
            return predict(params[:n], x)

        z, pull = jax.vjp(encoder, x)
        (back,) = pull(v)
        again, forth = jax.jvp(lambda z: predict(params[n:], z), [z], [v])
        return jnp.sum((again - x) ** 2) + back @ forth

    x = jnp.arange(3.0)
    params = [(jnp.eye(3) * (i + 1), x) for i in range(8)]
    text = recover(jax.grad(loss), params, x, x)
    assert "return predict(params[:4], x)" in text
    assert "predict(params[4:], z)" in text
