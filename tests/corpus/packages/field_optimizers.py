"""Cases of optimisers: optax, its contrib, rollfast, and jax-privacy's gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def mlp_params(*widths: int) -> dict[str, Any]:
    """Return the parameters of a dense network, a layer for each pair of widths."""
    keys = jax.random.split(jax.random.key(0), len(widths) - 1)
    shapes = zip(keys, widths, widths[1:], strict=False)
    return {
        f"layer{i}": {"w": jax.random.normal(key, (m, n)) / m**0.5, "b": jnp.zeros(n)}
        for i, (key, m, n) in enumerate(shapes)
    }


def mlp_loss(params: dict[str, Any], x: jax.Array, y: jax.Array) -> jax.Array:
    """Return the mean squared error of the network on a batch."""
    *hidden, last = params.values()
    for layer in hidden:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return jnp.mean((x @ last["w"] + last["b"] - y) ** 2)


def train_step(optimizer: Any, *, with_value: bool = False) -> Call:
    """Return the call of a step of an optimizer on a small network."""
    import optax

    params = mlp_params(4, 8, 8, 2)

    def step(params, opt_state, x, y):
        value, grads = jax.value_and_grad(mlp_loss)(params, x, y)
        extra = {"value": value} if with_value else {}
        updates, opt_state = optimizer.update(grads, opt_state, params, **extra)
        return optax.apply_updates(params, updates), opt_state, value

    x = jax.random.normal(jax.random.key(1), (6, 4))
    return call(step, params, optimizer.init(params), x, x[:, :2] ** 2)


@case("optax", "optimizer", "gradient", shows="clipping, schedule and AdamW in a chain")
def adamw_chain_with_schedule() -> Call:
    """The usual recipe: clip by norm, AdamW, warm-up and cosine decay."""
    import optax

    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-3, 10, 100)
    return train_step(
        optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule))
    )


@case("optax", "optimizer", "cond", shows="gradients accumulated over four steps")
def multi_steps_accumulation() -> Call:
    """MultiSteps holds updates back until it has seen four batches."""
    import optax

    optimizer = optax.MultiSteps(optax.adam(1e-3), every_k_schedule=4)
    return train_step(optimizer)


@case("optax", "optimizer", "mask", shows="two optimizers for two labels")
def partitioned_optimizers() -> Call:
    """Weights under LAMB, biases under sign descent, by optax.partition."""
    import optax

    def labels(params):
        return {k: {"w": "matrix", "b": "vector"} for k in params}

    tx = {"matrix": optax.lamb(1e-3), "vector": optax.lion(1e-4)}
    return train_step(optax.partition(tx, labels))


@case(
    "optax", "optimizer", "linesearch", "while", shows="L-BFGS with a zoom line search"
)
def lbfgs_minimisation_loop() -> Call:
    """A whole minimisation, as the example of optax.lbfgs writes it."""
    import optax
    import optax.tree_utils as otu

    def objective(w):
        return jnp.sum(100.0 * (w[1:] - w[:-1] ** 2) ** 2 + (1.0 - w[:-1]) ** 2)

    optimizer = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(objective)

    def step(carry):
        w, state = carry
        value, grad = value_and_grad(w, state=state)
        updates, state = optimizer.update(
            grad, state, w, value=value, grad=grad, value_fn=objective
        )
        return optax.apply_updates(w, updates), state

    def unfinished(carry):
        count = otu.tree_get(carry[1], "count")
        error = otu.tree_norm(otu.tree_get(carry[1], "grad"))
        return (count == 0) | ((count < 20) & (error >= 1e-3))

    def minimise(w):
        return jax.lax.while_loop(unfinished, step, (w, optimizer.init(w)))[0]

    return call(minimise, jnp.array([-1.2, 1.0, 0.5, 1.5]))


@case("optax", "optimizer", "linalg", shows="Muon's Newton-Schulz orthogonalisation")
def muon_step() -> Call:
    """Muon on the matrices and Adam on the rest."""
    import optax.contrib

    return train_step(optax.contrib.muon(1e-2))


@case(
    "optax", "optimizer", "state", shows="schedule-free AdamW and its evaluation point"
)
def schedule_free_step() -> Call:
    """A contrib optimizer that interpolates between two sequences of weights."""
    import optax.contrib

    return train_step(optax.contrib.schedule_free_adamw(1e-2, warmup_steps=5))


@case("optax", "optimizer", "cond", shows="a scale reduced on a plateau of the loss")
def reduce_on_plateau_step() -> Call:
    """The value of the loss goes to an optimizer as an extra argument."""
    import optax
    import optax.contrib

    plateau = optax.contrib.reduce_on_plateau(patience=3, cooldown=1, factor=0.5)
    return train_step(optax.chain(optax.sgd(0.1, 0.9), plateau), with_value=True)


@case("optax", "loss", "scan", "gradient", shows="CTC loss by its forward algorithm")
def ctc_loss_gradient() -> Call:
    """The gradient of the CTC loss over padded logits and labels."""
    import optax

    logits = jax.random.normal(jax.random.key(0), (2, 9, 5))
    frames = jnp.array([[0.0] * 9, [0.0] * 7 + [1.0] * 2])
    labels = jnp.array([[1, 2, 2], [3, 1, 0]])
    padding = jnp.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])

    def loss(logits, frames, labels, padding):
        return optax.ctc_loss(logits, frames, labels, padding).mean()

    return call(jax.value_and_grad(loss), logits, frames, labels, padding)


@case("optax", "projection", "sorting", "gradient", shows="sparsemax and a simplex")
def simplex_projected_descent() -> Call:
    """Projected gradient steps on the simplex, its projection by sorting."""
    import optax.projections

    def solve(a, b):
        def step(x, _):
            x = x - 0.1 * jax.grad(lambda x: jnp.sum((a @ x - b) ** 2))(x)
            return optax.projections.projection_simplex(x), None

        return jax.lax.scan(step, jnp.full(5, 0.2), length=12)[0]

    a = jax.random.normal(jax.random.key(0), (7, 5))
    return call(jax.jacobian(solve, argnums=1), a, jnp.ones(7))


@case("rollfast", "optimizer", "linalg", shows="PSGD Kron's factored preconditioner")
def kron_step() -> Call:
    """A step of the Kronecker-factored preconditioned descent of rollfast."""
    import rollfast

    return train_step(rollfast.kron(1e-2))


@case("rollfast", "optimizer", "spectral", shows="PRISM's spectral shaping")
def prism_step() -> Call:
    """A step of rollfast's PRISM on matrices."""
    import rollfast

    return train_step(rollfast.prism(1e-2))


@case("rollfast", "optimizer", "state", shows="Adam without a schedule")
def schedule_free_adam_step() -> Call:
    """A step of rollfast's schedule-free Adam."""
    import rollfast

    return train_step(rollfast.schedule_free_adam(1e-2, total_steps=100))


@case("jax-privacy", "privacy", "gradient", "batched", shows="per-example clipping")
def clipped_gradient_of_users() -> Call:
    """The sum of clipped per-example gradients with their norms and values."""
    from jax_privacy import clipped_grad

    gradient = clipped_grad(
        mlp_loss,
        l2_clip_norm=1.0,
        batch_argnums=(1, 2),
        return_values=True,
        return_grad_norms=True,
    )
    x = jax.random.normal(jax.random.key(1), (8, 4))
    return call(gradient, mlp_params(4, 16, 2), x, jnp.ones((8, 2)))


@case("jax-privacy", "privacy", "optimizer", "prng", shows="a DP-SGD step")
def dp_sgd_step_with_gaussian_noise() -> Call:
    """Clip in microbatches, add noise, and step by Adam."""
    import optax
    from jax_privacy import clipped_grad, noise_addition

    gradient = clipped_grad(
        mlp_loss, l2_clip_norm=1.0, batch_argnums=(1, 2), microbatch_size=4
    )
    privatizer = noise_addition.gaussian_privatizer(
        stddev=0.5, prng_key=jax.random.key(2)
    )
    optimizer = optax.adam(1e-3)

    def step(params, noise_state, opt_state, x, y):
        total = gradient(params, x, y)
        noisy, noise_state = privatizer.update(total, noise_state)
        updates, opt_state = optimizer.update(noisy, opt_state)
        return optax.apply_updates(params, updates), noise_state, opt_state

    params = mlp_params(4, 8, 2)
    states = privatizer.init(params), optimizer.init(params)
    x = jax.random.normal(jax.random.key(1), (8, 4))
    return call(step, params, *states, x, jnp.ones((8, 2)))


@case(
    "jax-privacy",
    "privacy",
    "linalg",
    "gradient",
    shows="a strategy optimised",
    x64=True,
)
def buffered_toeplitz_error_gradient() -> Call:
    """The gradient of the expected error of a buffered Toeplitz mechanism."""
    from jax_privacy.matrix_factorization import buffered_toeplitz, toeplitz

    def error(buf_decay, output_scale):
        strategy = buffered_toeplitz.BufferedToeplitz.build(
            buf_decay=buf_decay, output_scale=output_scale
        )
        return toeplitz.loss(strategy.toeplitz_coefs(20), n=20)

    arrays = jnp.array([0.9, 0.5]), jnp.array([0.2, 0.1])
    return call(jax.value_and_grad(error, argnums=(0, 1)), *arrays)
