"""Cases of equinox: modules that are pytrees, filtered transformations, state."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


@case("equinox", "network", "gradient", "optimizer", "filtered", shows="filtered step")
def mlp_filtered_train_step() -> Call:
    """A step of equinox's introductory example: an MLP, a batch and optax."""
    import equinox as eqx
    import optax

    model = eqx.nn.MLP(3, 2, width_size=32, depth=2, key=jax.random.key(0))
    optimizer = optax.adam(1e-3)
    opt_state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    def step(model, opt_state, x, y):
        def loss(model):
            return jnp.mean((jax.vmap(model)(x) - y) ** 2)

        value, grads = eqx.filter_value_and_grad(loss)(model)
        updates, new = optimizer.update(grads, opt_state, model)
        return value, eqx.apply_updates(model, updates), new

    x = jax.random.normal(jax.random.key(1), (8, 3))
    return call(step, model, opt_state, x, jnp.ones((8, 2)))


@case("equinox", "network", "image", "batched", shows="convolutions under vmap")
def convolutional_classifier_log_probabilities() -> Call:
    """The MNIST model of equinox's tutorial, smaller, over a batch."""
    import equinox as eqx

    keys = jax.random.split(jax.random.key(0), 3)
    model = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 3, kernel_size=4, key=keys[0]),
            eqx.nn.MaxPool2d(kernel_size=2),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(3 * 8 * 8, 16, key=keys[1]),
            eqx.nn.Lambda(jax.nn.sigmoid),
            eqx.nn.Linear(16, 10, key=keys[2]),
            eqx.nn.Lambda(jax.nn.log_softmax),
        ]
    )
    params, static = eqx.partition(model, eqx.is_array)

    def predict(params, images):
        return jax.vmap(eqx.combine(params, static))(images)

    images = jax.random.normal(jax.random.key(1), (4, 1, 12, 12))
    return call(predict, params, images)


@case("equinox", "network", "state", "batched", "filtered", shows="BatchNorm's state")
def batch_norm_state_threaded() -> Call:
    """State read and returned by BatchNorm over a named axis."""
    import equinox as eqx

    class Model(eqx.Module):
        linear: eqx.nn.Linear
        norm: eqx.nn.BatchNorm
        head: eqx.nn.Linear

        def __init__(self, key):
            first, second = jax.random.split(key)
            self.linear = eqx.nn.Linear(4, 8, key=first)
            self.norm = eqx.nn.BatchNorm(8, axis_name="batch", mode="batch")
            self.head = eqx.nn.Linear(8, 1, key=second)

        def __call__(self, x, state):
            x, state = self.norm(self.linear(x), state)
            return self.head(jax.nn.relu(x)), state

    model, state = eqx.nn.make_with_state(Model)(jax.random.key(0))

    def forward(model, state, xs):
        batched = jax.vmap(
            model, axis_name="batch", in_axes=(0, None), out_axes=(0, None)
        )
        return batched(xs, state)

    return call(forward, model, state, jax.random.normal(jax.random.key(1), (6, 4)))


@case(
    "equinox", "network", "attention", "gradient", shows="rotary multi-head attention"
)
def rotary_attention_gradient() -> Call:
    """Attention with rotary embeddings through `process_heads`, and its gradient."""
    import equinox as eqx

    attention = eqx.nn.MultiheadAttention(4, 32, key=jax.random.key(0))
    rope = eqx.nn.RotaryPositionalEmbedding(embedding_size=8)
    params, static = eqx.partition(attention, eqx.is_array)

    def rotate(queries, keys, values):
        return jax.vmap(rope, 1, 1)(queries), jax.vmap(rope, 1, 1)(keys), values

    def loss(params, x, mask):
        layer = eqx.combine(params, static)
        return jnp.sum(layer(x, x, x, mask=mask, process_heads=rotate) ** 2)

    x = jax.random.normal(jax.random.key(1), (10, 32))
    mask = jnp.tril(jnp.ones((10, 10), bool))
    return call(jax.value_and_grad(loss), params, x, mask)


@case("equinox", "network", "scan", "recurrent", "gradient", shows="a GRU under scan")
def gru_classifier_gradient() -> Call:
    """The binary classifier of equinox's RNN example over two spirals' points."""
    import equinox as eqx

    class Rnn(eqx.Module):
        cell: eqx.nn.GRUCell
        linear: eqx.nn.Linear

        def __call__(self, xs):
            def step(carry, x):
                return self.cell(x, carry), None

            hidden, _ = jax.lax.scan(step, jnp.zeros(self.cell.hidden_size), xs)
            return jax.nn.sigmoid(self.linear(hidden))[0]

    model = Rnn(
        eqx.nn.GRUCell(2, 12, key=jax.random.key(0)),
        eqx.nn.Linear(12, 1, key=jax.random.key(1)),
    )
    params, static = eqx.partition(model, eqx.is_array)

    def loss(params, xs, ys):
        p = jax.vmap(eqx.combine(params, static))(xs)
        return -jnp.mean(ys * jnp.log(p) + (1 - ys) * jnp.log(1 - p))

    xs = jax.random.normal(jax.random.key(2), (5, 11, 2))
    return call(jax.grad(loss), params, xs, jnp.array([0.0, 1.0, 1.0, 0.0, 1.0]))


@case("equinox", "while", "gradient", shows="a while loop with checkpointed gradients")
def checkpointed_while_gradient() -> Call:
    """The gradient of a bounded loop that stops when a Newton step is small."""
    import equinox.internal as eqxi

    def root(a):
        def unfinished(state):
            _, change = state
            return jnp.any(jnp.abs(change) > 1e-5)

        def newton(state):
            x, _ = state
            change = (x**3 - a) / (3 * x**2)
            return x - change, change

        start = (jnp.ones_like(a), jnp.ones_like(a))
        end = eqxi.while_loop(
            unfinished, newton, start, max_steps=16, kind="checkpointed"
        )
        return end[0].sum()

    return call(jax.value_and_grad(root), jnp.array([2.0, 5.0, 9.0]))


@case("equinox", "callback", "errors", shows="eqx.error_if beside a solve")
def solve_with_runtime_check() -> Call:
    """A Cholesky solve that raises at runtime if the factor is not finite."""
    import equinox as eqx

    def solve(matrix, vector):
        factor = jnp.linalg.cholesky(matrix)
        factor = eqx.error_if(factor, ~jnp.isfinite(factor).all(), "not definite")
        return jax.scipy.linalg.cho_solve((factor, True), vector)

    a = jax.random.normal(jax.random.key(0), (5, 5))
    return call(solve, a @ a.T + jnp.eye(5), jnp.arange(5.0))


@case("equinox", "network", "batched", "gradient", shows="an ensemble by filter_vmap")
def vmapped_ensemble_gradients() -> Call:
    """Gradients of eight stacked MLPs, each with weights of its own."""
    import equinox as eqx

    @eqx.filter_vmap
    def make(key):
        return eqx.nn.MLP(2, "scalar", 8, 2, activation=jnp.tanh, key=key)

    ensemble = make(jax.random.split(jax.random.key(0), 8))
    params, static = eqx.partition(ensemble, eqx.is_array)

    def gradients(params, x, y):
        def loss(params):
            model = eqx.combine(params, static)
            return jnp.mean((jax.vmap(model)(x) - y) ** 2)

        return jax.vmap(jax.grad(loss))(params)

    x = jax.random.normal(jax.random.key(1), (6, 2))
    return call(gradients, params, x, jnp.sin(x[:, 0]))
