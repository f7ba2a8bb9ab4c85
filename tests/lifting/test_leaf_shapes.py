"""Level "api": functions of leaves that make shapes of those of the leaves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting.test_containers import recover

BATCH = {
    "obs": np.ones((4, 2, 3), np.float32),
    "done": np.ones((4, 2), np.float32),
    "image": np.ones((4, 2, 5, 5), np.float32),
}


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (
            lambda x: x.reshape((-1, *x.shape[2:])),
            "lambda x: x.reshape((-1, *x.shape[2:]))",
        ),
        (  # of one leaf, nothing is left of its shape
            lambda x: x.reshape(-1, *x.shape[2:]),
            "lambda x: x.reshape(-1, *x.shape[2:])",
        ),
        (
            lambda x: x.reshape(2, -1, *x.shape[1:]),
            "lambda x: x.reshape(2, -1, *x.shape[1:])",
        ),
        (
            lambda x: jnp.reshape(x, (2, -1, *x.shape[2:])),
            "lambda x: jnp.reshape(x, (2, -1, *x.shape[2:]))",
        ),
        (
            lambda x: jnp.ones(x.shape[1:]) * x[0],
            "lambda x: jnp.ones(x.shape[1:]) * x[0]",
        ),
        (
            lambda x: jnp.broadcast_to(x[None], (3, *x.shape)),
            "lambda x: jnp.broadcast_to(x[None], (3, *x.shape))",
        ),
        (
            lambda x: jnp.zeros((7, *x.shape[1:])) + x[0],
            "lambda x: jnp.zeros((7, *x.shape[1:])) + x[0]",
        ),
    ],
)
def test_a_shape_is_written_after_that_of_a_leaf(function, text):
    src = untrace.source(lambda batch: jax.tree.map(function, batch))(BATCH)
    assert src.report.is_verified, str(src.report)
    assert f"jax.tree.map({text}, batch)" in str(src)


def test_shapes_that_follow_no_leaf_are_written_for_each():
    def f(batch):
        return jax.tree.map(lambda x: x.reshape((2, x.nbytes // 8)), batch)

    src = untrace.source(f)(BATCH)
    assert src.report.is_verified, str(src.report)
    assert "tree.map" not in str(src) and ".reshape((2, 12))" in str(src)


def test_shapes_may_follow_how_many_elements_a_leaf_has():
    def f(batch):
        return jax.tree.map(lambda x: x.reshape((2, x.size // 2)), batch)

    src = untrace.source(f)(BATCH)
    assert src.report.is_verified, str(src.report)
    assert "jax.tree.map(lambda x: x.reshape((2, x.size // 2)), batch)" in str(src)


def test_equal_shapes_stay_numbers():
    same = {"a": BATCH["obs"], "b": BATCH["obs"]}
    src = untrace.source(lambda t: jax.tree.map(lambda x: x.reshape((8, 3)), t))(same)
    assert "x.reshape((8, 3))" in str(src)


def noisy(params, key):
    leaves, treedef = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    noise = [x + 0.1 * jax.random.normal(k, x.shape) for k, x in zip(keys, leaves)]
    return jax.tree.unflatten(treedef, noise)


def limited(params):
    leaves, treedef = jax.tree.flatten(params)
    limits = []
    for x in leaves:
        norm = jnp.linalg.norm(x)
        limits.append(x * jnp.minimum(1.0, 1.0 / (norm + 1e-6)))
    total = jnp.sum(jnp.stack([jnp.sum(x) for x in limits]))
    return jax.tree.unflatten(treedef, limits), total


def split_like(key, tree):
    treedef = jax.tree.structure(tree)
    return jax.tree.unflatten(treedef, jax.random.split(key, treedef.num_leaves))


def scattered(params, key):
    keys = split_like(key, params)
    return jax.tree.map(lambda x, k: x + jax.random.normal(k, x.shape), params, keys)


def private(grads, key):
    flat, treedef = jax.tree_util.tree_flatten(grads)
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in flat))
    flat = [g / jnp.maximum(1.0, norm) for g in flat]
    keys = jax.random.split(key, len(flat))
    noised = [g + 0.5 * jax.random.normal(k, g.shape) for k, g in zip(keys, flat)]
    return jax.tree_util.tree_unflatten(treedef, noised)


LAYER = {"w": np.eye(4, dtype=np.float32), "b": np.zeros(4, np.float32)}


def test_loops_over_leaves_put_them_back_into_a_tree():
    params = {f"layer_{i}": LAYER for i in range(3)}
    text = str(untrace.source(noisy)(params, jax.random.key(0)))
    assert "x + 0.1 * jax.random.normal(k, " in text and "x.shape)" in text
    assert "for k, x in zip(keys, jax.tree.leaves(params))" in text
    assert "return jax.tree.unflatten(jax.tree.structure(params), noise)" in text
    text = str(untrace.source(limited)(params))
    assert "limits.append(x * jnp.minimum(" in text
    assert "jax.tree.unflatten(jax.tree.structure(params), limits)" in text
    assert "[jnp.sum(x) for x in limits]" in text


def test_shapes_of_items_of_a_list_of_leaves():
    params = {f"layer_{i}": LAYER for i in range(3)}
    text = str(untrace.source(private)(params, jax.random.key(0)))
    assert "in zip(keys, flat)" in text and ".shape)" in text
    assert "jax.tree.unflatten(jax.tree.structure(grads), noised)" in text


def test_the_structure_of_an_argument_is_taken_from_it():
    params = {f"layer_{i}": LAYER for i in range(3)}
    text = str(untrace.source(scattered)(params, jax.random.key(0)))
    assert "def split_like(key, tree):" in text
    assert "jax.tree.unflatten(jax.tree.structure(tree), " in text


def test_tuples_of_arrays_beside_shapes_do_not_stop_the_recording():
    def scaled(pair, shape):
        return jnp.zeros(shape) + pair[0] * pair[1]

    def f(xs):
        found = []
        for x in xs:
            found.append(scaled((x, x), x.shape))
        return found

    src = untrace.source(f)([np.ones(n, np.float32) for n in (2, 3, 4)])
    assert not src.report.notes
    assert "scaled(" in str(src)


def test_shapes_that_are_the_same_in_every_turn_are_those_of_the_array():
    def f(x, key):
        for k in jax.random.split(key, 4):
            x = jnp.tanh(x) + jax.random.normal(k, x.shape)
        return x

    text = str(untrace.source(f)(np.ones((3, 2), np.float32), jax.random.key(0)))
    assert "x = jnp.tanh(x) + jax.random.normal(k, x.shape)" in text


def test_leaves_of_a_small_tree_are_put_back_one_by_one():
    src = untrace.source(limited)({"w": np.eye(4, dtype=np.float32)})
    assert src.report.is_verified and "unflatten" not in str(src)


def test_lists_of_leaves_are_those_that_the_function_asked_for():
    def clipped(params, x):
        grads = jax.grad(lambda p: jnp.sum(jnp.tanh(x * p["w"] + p["b"])))(params)
        norms = jax.tree.map(jnp.linalg.norm, grads)
        total = jnp.linalg.norm(jnp.array(jax.tree.leaves(norms)))
        return jax.tree.map(lambda g: g / total, grads)

    def listed(params, x):
        norms = jax.tree.map(jnp.linalg.norm, params)
        return jnp.stack([norms["b"], norms["w"]]) * x[0]

    x = np.linspace(0.5, 1.5, 3, dtype=np.float32)
    params = {"w": x, "b": x}
    assert "jnp.array(jax.tree.leaves(norms))" in recover(clipped, params, x)
    assert 'jnp.stack([norms["b"], norms["w"]])' in recover(listed, params, x)
