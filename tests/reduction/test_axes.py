"""Axes change together through a whole program, and only those that must."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from untrace import jaxapi
from untrace.axes.factors import Factor, equate, equate_reshaped, leaves
from untrace.reduction.applying import apply, program_from
from untrace.reduction.axes import (
    all_removed,
    all_resized,
    find_axes,
    resized,
    resized_together,
    without_axis,
)

RANDOM = np.random.RandomState(0)


def floats(*shape):
    return RANDOM.randn(*shape).astype(np.float32)


def ids(limit, *shape):
    return RANDOM.randint(0, limit, shape).astype(np.int32)


def program(function, *args):
    values, tree = jax.tree.flatten(args)

    def flat(*values):
        return jax.tree.leaves(function(*jax.tree.unflatten(tree, values)))

    jaxpr = jax.make_jaxpr(flat)(*values)
    return program_from(jaxpr, values, [""] * len(values), "f")


def inputs(p):
    return [value.aval.shape for value in p.block.inputs]


def outputs(p):
    return [atom.aval.shape for atom in p.block.outputs]


def sizes(p):
    return sorted(axis.size for axis in find_axes(p.block).groups)


def find(p, place):
    """Return the only axis that varies at a place of an input."""
    (axis,) = (
        axis
        for axis in find_axes(p.block).groups
        if any(p.block.inputs[place[0]] is v and place[1] == i for v, i in axis.places)
    )
    return axis


def run(p):
    return jax.jit(jaxapi.as_function(p.block.jaxpr))(*p.values)


# ---- products of factors --------------------------------------------------------------


def test_an_axis_that_is_split_becomes_a_product():
    heads, width, both, other = Factor(4), Factor(16), Factor(64), Factor(64)
    equate([both], [other])
    equate([both], [heads, width])
    assert leaves([other]) == leaves([heads, width])


def test_two_products_get_their_common_refinement():
    left, right = [Factor(4), Factor(6)], [Factor(2), Factor(12)]
    equate(left, right)
    assert [leaf.size for leaf in leaves(left)] == [2, 2, 6]
    assert leaves(left) == leaves(right)
    assert not any(leaf.is_frozen for leaf in leaves(left))


def test_products_without_a_common_refinement_are_frozen():
    batch, left, right = Factor(5), [Factor(6), Factor(4)], [Factor(4), Factor(6)]
    equate_reshaped((batch, *left), (Factor(5), *right))
    assert all(leaf.is_frozen for leaf in leaves([*left, *right]))
    assert not batch.is_frozen


def test_axes_of_size_1_are_found_again_after_a_reshape():
    left = (Factor(1), Factor(6), Factor(1))
    right = (Factor(1), Factor(2), Factor(3), Factor(1), Factor(1))
    equate_reshaped(left, right)
    assert leaves(left[:1]) == leaves(right[:1])
    assert leaves(left[2:]) == leaves(right[3:4]) != leaves(right[4:])


# ---- one rule after another -----------------------------------------------------------

KEY = np.array([0, 7], np.uint32)
CONV = partial(lax.conv_general_dilated, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def conv(strides, padding, groups=1):
    def loss(x, w):
        return (CONV(x, w, strides, padding, feature_group_count=groups) ** 2).sum()

    return jax.grad(loss, argnums=(0, 1))


def pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


RULES = {
    "element-wise": (lambda x, y: jnp.where(x > 0, x * y, 0), floats(4, 6), floats(6)),
    "outer": (lambda x, y: x[:, None] * y, floats(4), floats(6)),
    "transpose": (lambda x: x.transpose(2, 0, 1), floats(2, 3, 4)),
    "reshape": (lambda x: (x.reshape(4, 6), x.reshape(-1)), floats(2, 2, 6)),
    "reshape by columns": (lambda x: lax.reshape(x, (24,), (1, 0)), floats(4, 6)),
    "dot_general": (
        partial(jnp.einsum, "bij,bjk->kbi"),
        floats(2, 3, 4),
        floats(2, 4, 5),
    ),
    "ragged_dot": (lax.ragged_dot, floats(6, 8), floats(3, 8, 5), np.int32([2, 1, 3])),
    "reductions": (
        lambda x: (x.sum(0), x.max(1), x.argmin(0), (x > 0).any()),
        floats(4, 6),
    ),
    "cumulative": (
        lambda x: (x.cumsum(1), lax.cummax(x, 0, reverse=True)),
        floats(4, 6),
    ),
    "sort": (lambda x: lax.sort((x, x * 2), dimension=0, num_keys=2), floats(4, 6)),
    "argsort": (lambda x: jnp.argsort(x, 0), floats(4, 6)),
    "top_k": (lambda x: lax.top_k(x, 3), floats(4, 6)),
    "rev": (lambda x: x[::-1], floats(4, 6)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y]), floats(4, 6), floats(3, 6)),
    "concatenate equal": (
        lambda x, y: jnp.concatenate([x, y], 1),
        floats(4, 6),
        floats(4, 6),
    ),
    "rotate half": (
        lambda x: jnp.concatenate([-x[:, 4:], x[:, :4]], 1) * x,
        floats(3, 8),
    ),
    "split": (lambda x: [y * 2 for y in jnp.split(x, 3, 1)], floats(4, 6)),
    "split unevenly": (lambda x: jnp.split(x, [2], 1), floats(4, 6)),
    "stack": (lambda x, y: jnp.stack([x, y], 1), floats(4, 6), floats(4, 6)),
    "tile": (lambda x: (jnp.tile(x, (1, 2)), jnp.repeat(x, 3, 1)), floats(4, 6)),
    "slice": (lambda x: (x[1:3], x[:, ::2], x[:, 1::2], x[:-1], x[0]), floats(4, 6)),
    "gradient of slices": (
        jax.grad(lambda x: (x[1:3] ** 2).sum() + (x[:, ::2] ** 2).sum()),
        floats(4, 6),
    ),
    "pad": (
        lambda x: (jnp.pad(x, 1), lax.pad(x, 0.0, [(-1, 0, 0), (1, 1, 1)])),
        floats(4, 6),
    ),
    "dynamic slice": (
        lambda x, i: (
            lax.dynamic_slice(x, (i, 0), (2, 6)),
            lax.dynamic_update_slice(x, x[:1] * 2, (i, i)),
        ),
        floats(4, 6),
        np.int32(1),
    ),
    "embedding": (lambda table, i: table[i], floats(20, 8), ids(20, 4, 6)),
    "gradient of an embedding": (
        jax.grad(lambda table, i: (table[i] ** 2).sum()),
        floats(20, 8),
        ids(20, 4, 6),
    ),
    "take_along_axis": (
        lambda x, i: jnp.take_along_axis(x, i, 1),
        floats(4, 9),
        ids(9, 4, 3),
    ),
    "a label for each row": (lambda x, i: x[jnp.arange(4), i], floats(4, 9), ids(9, 4)),
    "batched gather": (jax.vmap(lambda t, i: t[i]), floats(4, 9, 8), ids(9, 4, 3)),
    "scatter": (
        lambda x, i: (x.at[i].add(1.0), x.at[i].set(2.0), x.at[:, 1:3].multiply(3.0)),
        floats(9, 8),
        ids(9, 6),
    ),
    "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i, 5), floats(9, 3), ids(5, 9)),
    "one-hot": (lambda x, i: (jax.nn.one_hot(i, 9) * x).sum(), floats(4, 9), ids(9, 4)),
    "iota": (lambda x: x * lax.broadcasted_iota(jnp.float32, (4, 6), 1), floats(4, 6)),
    "triangle": (jnp.tril, floats(6, 6)),
    "same convolution": (conv((1, 1), "SAME"), floats(2, 8, 9, 3), floats(3, 3, 3, 4)),
    "strided convolution": (
        conv((2, 2), "SAME"),
        floats(2, 8, 8, 3),
        floats(3, 3, 3, 4),
    ),
    "valid convolution": (
        conv((2, 1), "VALID"),
        floats(2, 9, 9, 3),
        floats(3, 3, 3, 4),
    ),
    "grouped convolution": (
        conv((1, 1), "SAME", 2),
        floats(2, 8, 8, 6),
        floats(3, 3, 3, 4),
    ),
    "depthwise": (conv((1, 1), "SAME", 6), floats(2, 8, 8, 6), floats(3, 3, 1, 12)),
    "transposed convolution": (
        lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"),
        floats(2, 8, 8, 3),
        floats(4, 4, 3, 4),
    ),
    "pooling": (jax.grad(lambda x: (pool(x) ** 2).sum()), floats(2, 8, 8, 3)),
    "random": (lambda k: (jax.random.normal(k, (4, 6)), jax.random.split(k, 3)), KEY),
    "random in a batch": (
        lambda k: jax.vmap(lambda k: jax.random.uniform(k, (6,)))(
            jax.random.split(k, 3)
        ),
        KEY,
    ),
    "fft": (lambda x: (jnp.fft.fft(x), jnp.fft.rfft(x, axis=0)), floats(4, 6)),
    "cholesky": (lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(6)), floats(6, 4)),
    "triangular_solve": (
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b),
        floats(2, 5, 5),
        floats(2, 5, 3),
    ),
    "lu, eigh, qr": (
        lambda a: (lax.linalg.lu(a), jnp.linalg.eigh(a), jnp.linalg.qr(a)),
        floats(5, 5),
    ),
    "scan": (
        lambda c, xs: lax.scan(lambda c, x: (c + x, c * 2), c, xs, unroll=2),
        floats(6),
        floats(4, 6),
    ),
    "while": (
        lambda c: lax.while_loop(lambda c: c.sum() < 3, lambda c: c + 1, c),
        floats(4),
    ),
    "cond": (
        lambda x, y: lax.cond(x.sum() > 0, lambda a, b: a @ b, lambda a, b: b, x, y),
        floats(6, 6),
        floats(6, 3),
    ),
    "custom derivatives": (
        jax.grad(lambda x: jax.nn.relu(x).sum() + jax.nn.logsumexp(x)),
        floats(4, 6),
    ),
    "composite": (
        lambda x: lax.composite(lambda y: jnp.sin(y) @ y.T, name="my.product")(x),
        floats(4, 6),
    ),
    "bits": (lambda x: lax.bitcast_convert_type(x, jnp.int8), floats(4, 6)),
    "barrier": (lambda x, y: lax.optimization_barrier((x, y)), floats(6), floats(4)),
}


@pytest.mark.parametrize("name", RULES)
def test_every_axis_can_be_any_shorter(name):
    p = program(*RULES[name])
    axes = [axis for axis in find_axes(p.block).groups if axis.size > 1]
    assert axes
    for axis in axes:
        for size in {1, axis.size // 2, axis.size - 1}:
            edits = resized(p, axis, size)
            assert edits is not None
            smaller = apply(p, edits)
            assert smaller is not None, (axis.size, size)
            _check_places(p, smaller, axis, size)


def _check_places(p, smaller, axis, size):
    """Check that inputs are shorter exactly where the axis is."""
    for value, array in zip(p.block.inputs, p.values):
        expected = np.array(array.shape, int)
        for place, i in axis.places:
            if place is value:
                expected[i] = expected[i] // axis.size * size
        if len(smaller.block.inputs) == len(p.block.inputs):
            index = p.block.inputs.index(value)
            assert list(smaller.values[index].shape) <= expected.tolist()


@pytest.mark.parametrize("name", RULES)
def test_all_axes_can_be_short_together(name):
    p = program(*RULES[name])
    edits = all_resized(p, find_axes(p.block), 1)
    smaller = apply(p, edits)
    assert smaller is not None
    run(smaller)


@pytest.mark.parametrize("name", RULES)
def test_axes_of_size_1_can_be_removed(name):
    p = program(*RULES[name])
    p = apply(p, all_resized(p, find_axes(p.block), 1))
    for axis in find_axes(p.block).groups:
        if axis.size == 1:
            edits = without_axis(p, axis)
            without = edits and apply(p, edits)
            assert edits is None or without is not None
            assert without is None or _n_axes(without) < _n_axes(p)
    edits = all_removed(p, find_axes(p.block))
    assert edits is None or apply(p, edits) is not None


def _n_axes(p):
    return sum(
        len(aval.shape)
        for value in (*p.block.inputs, *_results(p.block))
        if hasattr(aval := value.aval, "shape")
    )


def _results(block):
    return [r for eqn in block.equations for r in eqn.results if r is not None]


def test_removing_an_axis_keeps_the_numbers():
    def f(x, y):
        z = jnp.einsum("bij,bjk->bik", x, y)
        z = z / jnp.linalg.norm(z, axis=-1, keepdims=True)
        return jnp.concatenate([z, z[:, ::-1]], 2).transpose(2, 0, 1).cumsum(1)

    p = program(f, floats(1, 3, 4), floats(1, 4, 5))
    without = apply(p, without_axis(p, find(p, (0, 0))))
    assert inputs(without) == [(3, 4), (4, 5)]
    (before,), (after,) = run(p), run(without)
    np.testing.assert_allclose(np.squeeze(before), after, rtol=1e-5)


def test_an_equation_that_does_nothing_any_more_goes():
    p = program(
        lambda x: x.sum(0) + x.reshape(6) + lax.cumsum(x.T, 1)[:, 0], floats(1, 6)
    )
    without = apply(p, without_axis(p, find(p, (0, 0))))
    assert [eqn.name for eqn in without.block.equations] == ["add", "add"]


def test_no_axis_is_removed_where_that_needs_more_equations():
    p = program(lambda x: jnp.linalg.cholesky(x * 2.0), floats(1, 1))
    assert all(without_axis(p, axis) is None for axis in find_axes(p.block).groups)


# ---- whole models ---------------------------------------------------------------------

HEADS, WIDTH, FEATURES, HIDDEN, BATCH, TOKENS = 4, 16, 64, 256, 64, 10


def attention(p, x):
    batch, tokens, _ = x.shape
    heads = p["q"].shape[1] // WIDTH if p["q"].shape[1] > 1 else 1
    q, k, v = ((x @ p[n]).reshape(batch, tokens, heads, -1) for n in "qkv")
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 4.0
    mask = jnp.tril(jnp.ones((tokens, tokens), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9))
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
    x = x + mixed.reshape(batch, tokens, -1) @ p["o"]
    return x + jax.nn.gelu(x @ p["up"]) @ p["down"]


def parameters(*leading):
    inner = HEADS * WIDTH
    return {
        "q": floats(*leading, FEATURES, inner),
        "k": floats(*leading, FEATURES, inner),
        "v": floats(*leading, FEATURES, inner),
        "o": floats(*leading, inner, FEATURES),
        "up": floats(*leading, FEATURES, HIDDEN),
        "down": floats(*leading, HIDDEN, FEATURES),
    }


def block_program(leading=(), batch=BATCH):
    return parameters(*leading), floats(batch, TOKENS, FEATURES)


def loss(p, x):
    return (attention(p, x) ** 2).sum()


def layers_loss(p, x):
    layer = jax.checkpoint(lambda x, p: (attention(p, x), None))
    return (lax.scan(layer, x, p)[0] ** 2).sum()


@pytest.mark.parametrize("function", [attention, loss, jax.grad(loss)])
def test_axes_of_a_transformer_block_are_independent(function):
    p = program(function, *block_program())
    # Widths of queries and keys, and of values, are two.
    expected = sorted([BATCH, TOKENS, FEATURES, HIDDEN, HEADS, WIDTH, WIDTH])
    assert [size for size in sizes(p) if size > 1] == expected
    # Inputs in the order of a dictionary: down, k, o, q, up, v, x.
    axes = {
        "batch": (find(p, (6, 0)), lambda n: [(6, 0, n)]),
        "tokens": (find(p, (6, 1)), lambda n: [(6, 1, n)]),
        "features": (
            find(p, (6, 2)),
            lambda n: [(6, 2, n), (4, 0, n), (0, 1, n), (2, 1, n)],
        ),
        "hidden": (find(p, (4, 1)), lambda n: [(4, 1, n), (0, 0, n)]),
    }
    for axis, expected in axes.values():
        smaller = apply(p, resized(p, axis, 3, start=2))
        shapes = [list(shape) for shape in inputs(p)]
        changed = {(i, n): size for i, n, size in expected(3)}
        for value, i in axis.places:
            shapes[p.block.inputs.index(value)][i] = 3
        assert [list(shape) for shape in inputs(smaller)] == shapes
        assert all(inputs(smaller)[i][n] == size for (i, n), size in changed.items())


def test_heads_are_cut_out_of_the_features_of_all_heads():
    p = program(attention, *block_program())
    (heads,) = (axis for axis in find_axes(p.block).groups if axis.size == HEADS)
    smaller = apply(p, resized(p, heads, 1, start=2))
    assert inputs(smaller)[3] == (FEATURES, WIDTH)
    np.testing.assert_array_equal(smaller.values[3], p.values[3][:, 32:48])
    width = next(a for a in find_axes(p.block).groups if a.size == WIDTH)
    smaller = apply(p, resized(p, width, 1))
    place, i = width.places[0]
    index = p.block.inputs.index(place)
    taken = np.take(p.values[index], range(0, HEADS * WIDTH, WIDTH), axis=i)
    np.testing.assert_array_equal(smaller.values[index], taken)


def test_layers_of_a_scan_are_an_axis():
    p = program(jax.grad(layers_loss), *block_program((3,)))
    assert 3 in sizes(p)
    smaller = apply(p, resized(p, find(p, (0, 0)), 1))
    assert all(shape[0] == 1 for shape in inputs(smaller)[:-1])
    assert all(shape[0] == 1 for shape in outputs(smaller))
    run(smaller)


def test_all_of_a_train_step_shrinks_at_once_and_loses_its_axes():
    p = program(jax.grad(layers_loss), *block_program((3,)))
    small = apply(p, all_resized(p, find_axes(p.block), 1))
    assert all(set(shape) <= {1} for shape in inputs(small))
    bare = apply(small, all_removed(small, find_axes(small.block)))
    assert {shape for shape in inputs(bare)} <= {(1,), ()}  # layers stay
    run(bare)


def test_a_batch_of_one_can_be_removed_from_a_transformer():
    p = program(jax.grad(loss), *block_program(batch=1))
    without = apply(p, without_axis(p, find(p, (6, 0))))
    assert inputs(without)[6] == (TOKENS, FEATURES)
    assert len(without.block.equations) <= len(p.block.equations)
    for before, after in zip(run(p), run(without)):
        np.testing.assert_allclose(before, after, rtol=2e-2, atol=1e-2)


def test_a_convolutional_net_shrinks_in_batch_space_and_channels():
    def net(w1, w2, dense, x):
        x = jax.nn.relu(CONV(x, w1, (1, 1), "SAME"))
        x = pool(x)
        x = jax.nn.relu(CONV(x, w2, (2, 2), "SAME"))
        return (x.reshape(x.shape[0], -1) @ dense).sum()

    args = (
        floats(3, 3, 3, 8),
        floats(3, 3, 8, 16),
        floats(256, 10),
        floats(5, 16, 16, 3),
    )
    p = program(jax.grad(net), *args)
    small = apply(p, all_resized(p, find_axes(p.block), 1))
    # Pooling and the stride take every fourth pixel.
    assert inputs(small)[-1] == (1, 4, 4, 1)
    run(small)


def test_embedding_and_cross_entropy_shrink_in_vocabulary_and_tokens():
    def entropy(table, w, tokens):
        h = table[tokens[:, :-1]]
        logs = jax.nn.log_softmax(h @ w)
        picked = jnp.take_along_axis(logs, tokens[:, 1:, None], -1)
        return -picked.mean()

    args = (floats(50, 8), floats(8, 50), ids(50, 4, 7))
    p = program(jax.value_and_grad(entropy, argnums=(0, 1)), *args)
    for place in ((0, 0), (0, 1), (1, 1), (2, 0), (2, 1)):
        axis = find(p, place)
        smaller = apply(p, resized(p, axis, 2))
        assert inputs(smaller)[place[0]][place[1]] == 2
        assert all(np.isfinite(value).all() for value in run(smaller))


def test_indices_into_an_axis_are_clipped_when_it_shrinks():
    def f(x, table, rows, columns):
        return x[rows, columns] + table[jnp.where(columns < 0, 0, columns)].sum()

    args = floats(9, 8), floats(8), ids(9, 30), ids(8, 30)
    p = program(f, *args)
    smaller = apply(p, resized(p, find(p, (0, 0)), 2))
    assert smaller.values[2].max() == 1
    np.testing.assert_array_equal(smaller.values[3], args[3])


def test_equal_sizes_of_different_meaning_stay_apart():
    p = program(lambda x, w: (x @ w).T @ x, floats(64, 64), floats(64, 64))
    batch = find(p, (0, 0))
    smaller = apply(p, resized(p, batch, 2))
    assert inputs(smaller) == [(2, 64), (64, 64)]


def test_sizes_that_depend_on_others_follow():
    p = program(lambda x: (x[1:] - x[:-1], jnp.concatenate([x, x[:3]])), floats(9, 4))
    smaller = apply(p, resized(p, find(p, (0, 0)), 2))
    assert outputs(smaller) == [(1, 4), (3, 4)]


def test_two_axes_change_at_once():
    p = program(lambda x, y: x @ y, floats(4, 5), floats(5, 6))
    rows, inner = find(p, (0, 0)), None
    axes = find_axes(p.block)
    rows, inner = (next(a for a in axes.groups if a.size == n) for n in (4, 5))
    smaller = apply(p, resized_together(p, {rows: 2, inner: 1}))
    assert inputs(smaller) == [(2, 1), (1, 6)]


def test_keys_are_sliced_too():
    keys = jax.random.split(jax.random.key(0), 5)
    p = program(jax.vmap(lambda k: jax.random.normal(k, (6,))), keys)
    smaller = apply(p, resized(p, find(p, (0, 0)), 2, start=3))
    assert outputs(smaller) == [(2, 6)]
    np.testing.assert_array_equal(
        jax.random.key_data(smaller.values[0]), jax.random.key_data(keys[3:])
    )


def test_axes_of_unknown_primitives_stay():
    def f(x):
        return jax.pure_callback(lambda x: x, x, x) * 2

    assert sizes(program(f, floats(4, 6))) == []


def test_the_order_of_axes_is_always_the_same():
    p = program(jax.grad(loss), *block_program())
    first, second = find_axes(p.block), find_axes(p.block)
    assert [a.places for a in first.groups] == [a.places for a in second.groups]


def test_axes_of_a_primitive_nobody_knows_are_guessed():
    primitive = jaxapi.Primitive("untold")
    primitive.def_abstract_eval(
        lambda x, w: x.update(shape=(*x.shape[:-1], w.shape[0]))
    )
    args = floats(4, 6), floats(5, 6)
    p = program(lambda x, w: primitive.bind(x * 2.0, w) + 1.0, *args)
    smaller = apply(p, resized(p, find(p, (0, 0)), 1))
    assert outputs(smaller) == [(1, 5)]
