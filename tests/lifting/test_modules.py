"""Modules of flax.nnx that are changed in place: what they become is returned."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

import untrace

X = np.linspace(0.1, 1.0, 24, dtype=np.float32).reshape(4, 6)


class Block(nnx.Module):
    """A layer with statistics and a dropout, which counts what it draws."""

    def __init__(self, rngs):
        self.linear = nnx.Linear(6, 6, rngs=rngs)
        self.norm = nnx.BatchNorm(6, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x):
        return x + self.drop(jnp.tanh(self.norm(self.linear(x))))


class Network(nnx.Module):
    """Two blocks and an output."""

    def __init__(self, rngs):
        self.first = Block(rngs)
        self.second = Block(rngs)
        self.out = nnx.Linear(6, 2, rngs=rngs)

    def __call__(self, x):
        return self.out(self.second(self.first(x)))


def loss_fn(model, x):
    return jnp.mean(model(x) ** 2)


@nnx.jit
def train_step(model, optimizer, x):
    loss, grads = nnx.value_and_grad(loss_fn)(model, x)
    optimizer.update(model, grads)
    return loss


def training():
    model = Network(nnx.Rngs(0))
    return model, nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param), X


@pytest.fixture(scope="module", name="source")
def fixture_source():
    source = untrace.source(train_step)(*training())
    assert source.report.is_verified, str(source.report)
    assert "from its equations" not in str(source), source.report.notes
    return source


def test_a_training_step_reads_as_a_person_would_write_it(source):
    text = str(source)
    lines = text[text.index("@jax.jit") :].partition("\n\n\n")[0].splitlines()
    params = lines[2].split()[0]
    assert lines[:6] == [
        "@jax.jit",
        "def train_step(model, optimizer, x):",
        f'    {params} = without(model, "rngs", "mean", "var")',
        "    (loss, state), grads = jax.value_and_grad(",
        "        lambda params, x: loss_fn(params, model, x), has_aux=True",
        f"    )({params}, x)",
    ]
    assert f"new_params = jax.tree.map(jnp.add, {params}, updates)" in text
    assert "merged(model, new_params, state)" in text


def test_functions_return_their_state_in_dicts(source):
    text = str(source)
    assert '{"first": first, "second": second}' in text
    assert text.count("def block(") == text.count("def batch_norm(") == 1


def test_the_note_says_what_is_returned_besides(source):
    (note,) = [n for n in source.report.notes if "in place" in n]
    assert note == (
        "`model` and `optimizer` are changed in place; what they become is returned, too."
    )


def test_what_is_returned_are_the_modules_after_the_step(source):
    model, optimizer, x = training()
    namespace: dict = {}
    exec(str(source), namespace)  # the program that was verified
    plain = nnx.to_pure_dict(nnx.state(jax.tree.map(jnp.asarray, model)))
    state = namespace["example_args"]()["optimizer"]
    loss, new_model, new_state = namespace["train_step"](plain, state, x)
    assert new_state["step"] == 1
    expected = train_step(model, optimizer, x)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    for new, old in zip(
        jax.tree.leaves(new_model), jax.tree.leaves(nnx.state(model)), strict=True
    ):
        if jnp.issubdtype(old.dtype, jnp.floating):
            np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-6)


def test_what_is_not_changed_is_not_returned():
    model = nnx.Linear(6, 2, rngs=nnx.Rngs(0))
    source = untrace.source(lambda model, x: model(x))(model, X)
    assert not any("in place" in note for note in source.report.notes)
    assert len(source.report.notes) == 0


def test_a_function_without_a_result_returns_what_it_changes():
    def count(variable, x):
        variable.value = variable.value + jnp.sum(x)

    for level in ("api", "lax"):
        source = untrace.source(count, level=level)(nnx.Param(jnp.float32(0.0)), X)
        assert source.report.is_verified
        assert "is changed in place" in " ".join(source.report.notes)
        assert "jnp.sum" in str(source) or "reduce_sum" in str(source)


def test_a_module_that_is_returned_anyway_is_returned_once():
    def f(norm, x):
        return norm(x), norm

    source = untrace.source(f)(nnx.BatchNorm(6, rngs=nnx.Rngs(0)), X)
    assert source.report.is_verified
    assert not any("in place" in note for note in source.report.notes)
    assert str(source).count('"mean": mean') == 1


def test_a_sharding_over_no_mesh_is_not_said(source):
    assert "bernoulli(" in str(source) and "out_sharding" not in str(source)
