"""Derivatives by hand: gradient clipping, rounding straight through, implicit roots."""

import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def clip_gradient(x, low, high):
    return x


def clip_gradient_fwd(x, low, high):
    return x, None


def clip_gradient_bwd(low, high, residuals, cotangent):
    return (jnp.clip(cotangent, low, high),)


clip_gradient.defvjp(clip_gradient_fwd, clip_gradient_bwd)


@jax.custom_vjp
def straight_through(x):
    return jnp.round(x)


def straight_through_fwd(x):
    return jnp.round(x), None


def straight_through_bwd(_, cotangent):
    return (cotangent,)


straight_through.defvjp(straight_through_fwd, straight_through_bwd)


@jax.custom_vjp
def fixed_point(w, b):
    def body(z, _):
        return jnp.tanh(w @ z + b), None

    z, _ = jax.lax.scan(body, jnp.zeros_like(b), length=20)
    return z


def fixed_point_fwd(w, b):
    z = fixed_point(w, b)
    return z, (w, b, z)


def fixed_point_bwd(residuals, cotangent):
    w, b, z = residuals
    _, vjp_z = jax.vjp(lambda z: jnp.tanh(w @ z + b), z)
    _, vjp_params = jax.vjp(lambda w, b: jnp.tanh(w @ z + b), w, b)
    adjoint = jax.lax.fori_loop(0, 20, lambda _, u: cotangent + vjp_z(u)[0], cotangent)
    return vjp_params(adjoint)


fixed_point.defvjp(fixed_point_fwd, fixed_point_bwd)


def loss_fn(params, x):
    hidden = clip_gradient(params["w"] @ x, -0.1, 0.1)
    codes = straight_through(4.0 * hidden) / 4.0
    z = fixed_point(params["recurrent"], codes)
    return jnp.sum(z**2)


def loss_and_grad(params, xs):
    def mean_loss(params):
        losses = jax.vmap(loss_fn, in_axes=(None, 0))(params, xs)
        return jnp.mean(losses)

    return jax.value_and_grad(mean_loss)(params)


def program():
    keys = jax.random.split(jax.random.key(0), 3)
    params = {
        "w": jax.random.normal(keys[0], (8, 5)),
        "recurrent": 0.1 * jax.random.normal(keys[1], (8, 8)),
    }
    return loss_and_grad, (params, jax.random.normal(keys[2], (4, 5)))
