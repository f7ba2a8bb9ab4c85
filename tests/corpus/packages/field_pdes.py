"""Partial differential equations: exponax's spectral steppers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def random_start(n_dims: int, n_points: int, seed: int, channels: int = 1) -> Any:
    """Return a smooth random state of a periodic domain."""
    import exponax

    generator = exponax.ic.RandomTruncatedFourierSeries(n_dims, cutoff=3, max_one=True)
    keys = jax.random.split(jax.random.PRNGKey(seed), channels)
    return jnp.concatenate([generator(n_points, key=key) for key in keys])


@case("exponax", "pde", "fft", "scan", shows="Kuramoto and Sivashinsky, rolled out.")
def kuramoto_sivashinsky_rollout() -> Call:
    import exponax

    stepper = exponax.stepper.KuramotoSivashinsky(1, 60.0, 64, 0.1)
    trajectory = exponax.rollout(stepper, 40, include_init=True)
    return call(trajectory, random_start(1, 64, 0))


@case(
    "exponax",
    "pde",
    "fft",
    "filtered",
    shows="A step of Burgers, the stepper an argument.",
)
def burgers_step_of_stepper() -> Call:
    import exponax

    stepper = exponax.stepper.Burgers(2, 1.0, 24, 0.01, diffusivity=0.01)

    def step(stepper: Any, u: Any) -> Any:
        return stepper(u)

    return call(step, stepper, random_start(2, 24, 1, channels=2))


@case("exponax", "pde", "fft", "scan", shows="A vortex sheet of Kolmogorov flow.")
def kolmogorov_flow_repeated() -> Call:
    import exponax

    stepper = exponax.stepper.KolmogorovFlowVorticity(2, 6.283, 32, 0.01, order=4)
    return call(exponax.repeat(stepper, 10), random_start(2, 32, 2))


@case("exponax", "pde", "fft", "batched", shows="Two chemicals, a batch of states.")
def gray_scott_batched() -> Call:
    import exponax

    stepper = exponax.stepper.reaction.GrayScott(2, 2.5, 16, 1.0)
    steps = exponax.RepeatedStepper(stepper, 5)
    starts = jnp.stack([random_start(2, 16, seed, channels=2) for seed in range(3)])
    return call(jax.vmap(steps), 0.5 + 0.2 * starts)


@case("exponax", "pde", "gradient", "scan", shows="Gradient of the state of KdV.")
def korteweg_de_vries_gradient() -> Call:
    import exponax

    stepper = exponax.stepper.KortewegDeVries(1, 20.0, 48, 0.01)

    def loss(u: Any, target: Any) -> Any:
        return exponax.metrics.MSE(exponax.repeat(stepper, 8)(u), target)

    u = random_start(1, 48, 3)
    return call(jax.value_and_grad(loss), u, jnp.roll(u, 2, axis=-1))


@case("exponax", "pde", "fft", "derivative", shows="Poisson's equation and its check.")
def poisson_and_derivatives() -> Call:
    import exponax

    solve = exponax.poisson.Poisson(2, 1.0, 20)

    def residual(f: Any) -> Any:
        u = solve(f)
        second = exponax.derivative(u, 1.0, order=2)
        spectrum = exponax.get_spectrum(u)
        return u, jnp.sum(second, axis=0, keepdims=True) + f, spectrum

    return call(residual, random_start(2, 20, 4))


@case(
    "exponax", "pde", "training", "network", "filtered", shows="A corrector of a step."
)
def learned_corrector_step() -> Call:
    import equinox as eqx
    import exponax
    import optax

    coarse = exponax.stepper.Burgers(1, 1.0, 32, 0.05, order=1)
    network = eqx.nn.Conv1d(1, 1, 5, padding="SAME", key=jax.random.PRNGKey(5))
    optimizer = optax.adam(1e-3)

    def loss(network: Any, starts: Any, ends: Any) -> Any:
        predicted = jax.vmap(lambda u: coarse(u) + network(u))(starts)
        return jnp.mean((predicted - ends) ** 2)

    def train(network: Any, state: Any, starts: Any, ends: Any) -> Any:
        value, gradient = eqx.filter_value_and_grad(loss)(network, starts, ends)
        updates, state = optimizer.update(gradient, state)
        return eqx.apply_updates(network, updates), state, value

    starts = jnp.stack([random_start(1, 32, seed) for seed in range(4)])
    state = optimizer.init(eqx.filter(network, eqx.is_array))
    return call(train, network, state, starts, 0.9 * starts)
