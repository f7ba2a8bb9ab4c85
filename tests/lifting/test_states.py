"""Names of what frameworks hand around: states of a training, collections, hashes of scopes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

nn = pytest.importorskip("flax.linen")
optax = pytest.importorskip("optax")
train_state = pytest.importorskip("flax.training.train_state")

X = np.ones((2, 8), dtype=np.float32)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.is_verified, str(src.report)
    assert "Written from its equations" not in src.text
    return src.text


class Net(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        for _ in range(3):
            x = nn.Dense(8)(x)
            x = nn.Dropout(0.1)(x, deterministic=not train)
        return x.sum()


def test_a_state_is_not_called_like_the_parameters_that_it_holds():
    net, key = Net(), jax.random.key(0)
    params = net.init(key, X, train=False)
    state = train_state.TrainState.create(
        apply_fn=net.apply, params=params, tx=optax.adam(0.1)
    )

    def step(state, x, key):
        def loss(params):
            return state.apply_fn(params, x, train=True, rngs={"dropout": key})

        return state.apply_gradients(grads=jax.grad(loss)(state.params))

    text = recover(step, state, X, key)
    assert "def apply_gradients(train_state, grads):" in text, text
    assert "params.params" not in text, text
    # The number of each dropout has flax's name for it.
    assert "def dropout(inputs, key, hash_int):" in text, text


class Layer(nn.Module):
    """A module that computes before it is called."""

    def setup(self):
        self.gain = jnp.exp(self.param("gain", nn.initializers.ones, (8,)))
        self.norm = nn.BatchNorm(use_running_average=False, axis_name="batch")

    def __call__(self, x):
        return jnp.tanh(self.norm(x)) * self.gain


Batched = nn.vmap(
    Layer,
    in_axes=0,
    variable_axes={"params": None, "batch_stats": None},
    split_rngs={"params": False},
    axis_name="batch",
)


def test_collections_of_a_mapped_module_have_their_names():
    net = Batched()
    variables = net.init(jax.random.key(0), X[:, None])

    def step(variables, x):
        return net.apply(variables, x, mutable=["batch_stats"])

    text = recover(step, variables, X[:, None])
    assert "value_2" not in text and "call_wrapped_method" not in text, text
    assert "def batch_norm(batch_stats, params, x):" in text, text
    assert "setup(" in text, text


class Solver:
    """No tree, no array: JAX hands it on as it is."""

    def __init__(self, step):
        self.step = step

    def __call__(self, f, y):
        return y + self.step * f(y)


def test_objects_that_a_wrapped_method_is_mapped_with_are_left_out():
    eqx = pytest.importorskip("equinox")

    class Field(eqx.Module):
        w: jax.Array

        def advance(self, y, solver):
            return solver(lambda y: jnp.sin(y) * self.w, y)

        def forward(self, ys, solver):
            return jax.vmap(self.advance, (0, None))(ys, solver)

    solver = Solver(0.1)
    text = recover(lambda f, ys: f.forward(ys, solver), Field(jnp.ones(8)), X)
    assert "is written from its equations" not in text, text
    assert "jax.vmap(lambda y: advance(field, y), in_axes=(0,))(ys)" in text, text


class Keys:
    """Hands out keys, and is a leaf of what `locals()` returns."""

    def __init__(self, key):
        self.key = key

    def __call__(self):
        self.key, key = jax.random.split(self.key)
        return key


def test_objects_and_functions_among_what_a_loss_returns_are_none():
    def step(params, x, key):
        keys = Keys(key)

        def loss_fn(params):
            noise = jax.random.normal(keys(), x.shape)

            def forward(w):
                return jnp.tanh((x + noise) * w)

            y = forward(params)
            loss = jnp.mean(y**2)
            return loss, locals()

        (_, aux), grads = jax.value_and_grad(loss_fn, has_aux=True)(params)
        return params - 0.1 * grads, {name: aux[name] for name in ("loss", "y")}

    text = recover(step, X, X, jax.random.key(0))
    assert "is written from its equations" not in text, text
    assert '"forward": None,\n' in text and '"keys": None,\n' in text, text
