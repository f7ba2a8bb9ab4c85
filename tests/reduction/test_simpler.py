"""Programs in other dtypes, and with simpler params."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from untrace import jaxapi, keep
from untrace.ir import all_blocks, all_equations
from untrace.reduction.applying import apply, program_from
from untrace.reduction.edits import Edits
from untrace.reduction.passes.contents import _one_by_one, simplify_contents
from untrace.reduction.passes.outliers import outlying
from untrace.reduction.passes.types import shrink_axes
from untrace.reduction.search import Search
from untrace.reduction.simpler_params import simpler_params
from untrace.reduction.simpler_types import dtype_changes, retyped
from untrace.reduction.trials import Judge

TO_64 = {np.dtype(np.float32): np.dtype(np.float64)}
TO_32 = {np.dtype(np.float64): np.dtype(np.float32)}


def program(function, *args):
    values, tree = jax.tree.flatten(args)

    def flat(*values):
        return jax.tree.leaves(function(*jax.tree.unflatten(tree, values)))

    jaxpr = jax.make_jaxpr(flat)(*values)
    return program_from(jaxpr, values, [""] * len(values), "f")


def floats(*shape):
    return np.random.RandomState(0).randn(*shape).astype(np.float32)


def dtypes(p):
    made = [r for eqn in all_equations(p.block) for r in eqn.results if r is not None]
    return {str(value.aval.dtype) for value in (*p.block.inputs, *made)}


def run(p):
    return jax.jit(jaxapi.as_function(p.block.jaxpr))(*p.values)


def layers(ws, x):
    def layer(c, w):
        return jnp.tanh(c @ w).astype(c.dtype), c.mean()

    x, means = lax.scan(layer, x, ws)
    return ((x.astype(jnp.float32) ** 2).sum() + means.sum()).astype(jnp.float32)


# ---- dtypes ---------------------------------------------------------------------------


def test_narrow_floats_become_ordinary_and_casts_go():
    ws, x = floats(3, 8, 8).astype(jnp.bfloat16), floats(4, 8).astype(jnp.bfloat16)
    p = program(jax.grad(layers), ws, x)
    (mapping,) = dtype_changes(p)
    plain = apply(p, retyped(p, mapping))
    assert dtypes(plain) == {"float32"}
    assert len(plain.block.equations) < len(p.block.equations)
    run(plain)


@pytest.mark.parametrize("wide", [True, False])
def test_a_whole_train_step_changes_its_width(wide):
    with jax.enable_x64(True):
        old = np.float32 if wide else np.float64
        p = program(
            jax.grad(layers), floats(3, 8, 8).astype(old), floats(4, 8).astype(old)
        )
        other = apply(p, retyped(p, TO_64 if wide else TO_32))
        assert dtypes(other) == {"float64" if wide else "float32"}
        for before, after in zip(run(p), run(other)):
            np.testing.assert_allclose(before, after, rtol=1e-3, atol=1e-4)


WIDTHS = {
    "complex": lambda x: jnp.abs(jnp.fft.fft(x).conj() * 2j),
    "reduce": lambda x: lax.reduce(x, 1.0, lambda a, b: a * b - 1, (0,)),
    "reduce_window": lambda x: lax.reduce_window(
        x, 1.0, lambda a, b: a * b, (2,), (1,), "SAME"
    ),
    "scatter": lambda x: x.at[jnp.argsort(x)[:3]].add(1.0).at[0].set(3.0),
    "linear algebra": lambda x: jnp.linalg.eigh(jnp.outer(x, x) + jnp.eye(8)),
    "loops": lambda x: lax.fori_loop(0, 3, lambda i, c: jnp.where(c > i, c / 2, c), x),
    "integers": lambda x: (
        jnp.argmax(x),
        jnp.searchsorted(jnp.sort(x), x),
        x.astype(int),
    ),
    "custom": jax.grad(lambda x: jax.nn.relu(x).sum() + jax.nn.logsumexp(x)),
}


@pytest.mark.parametrize("name", WIDTHS)
def test_wide_numbers_become_ordinary(name):
    with jax.enable_x64(True):
        p = program(WIDTHS[name], floats(8).astype(np.float64))
        mapping = next(iter(dtype_changes(p)))
        plain = apply(p, retyped(p, mapping))
        assert not dtypes(plain) & {"float64", "int64", "complex128"}
        for before, after in zip(run(p), run(plain)):
            if before.ndim < 2:  # signs of eigenvectors are free
                np.testing.assert_allclose(before, after, rtol=1e-3, atol=1e-4)


def test_bits_are_read_in_the_old_dtype():
    with jax.enable_x64(True):
        p = program(
            lambda k: jax.random.normal(k, (3,), jnp.float32), jax.random.key(0)
        )
        wide = apply(p, retyped(p, TO_64))
        assert str(wide.block.outputs[0].aval.dtype) == "float64"
        np.testing.assert_allclose(run(p)[0], run(wide)[0], rtol=1e-4)


def test_arrays_that_sub_programs_hold_are_retyped():
    with jax.enable_x64(True):
        p = program(jax.scipy.special.spence, np.float32(3))
        assert any(block.constants for block in all_blocks(p.block))
        wide = apply(p, retyped(p, TO_64))
        assert "float32" not in dtypes(wide)
        np.testing.assert_allclose(run(p)[0], run(wide)[0], rtol=1e-5)


@pytest.mark.filterwarnings("error")
def test_what_does_not_fit_a_dtype_is_cast_in_silence():
    with jax.enable_x64(True):
        p = program(jnp.sin, np.array([1e300, np.nan]))
        assert np.isinf(apply(p, retyped(p, TO_32)).values[0][0])


def test_a_program_without_the_dtype_is_not_retyped():
    p = program(jnp.sin, floats(3))
    assert retyped(p, TO_32) is None
    assert list(dtype_changes(p)) == []


@pytest.mark.parametrize("least", [1, 2, 7, 11, 19, 20])
def test_a_bisection_asks_the_same_whatever_runs_beside_it(least, monkeypatch):
    asked = []

    def first(search, candidates):
        for i, k in enumerate(candidates):
            asked.append(k)
            if k >= least:
                search.n_passed = i
                return True
        return False

    monkeypatch.setattr(Search, "first", first)
    search = Search(program(jnp.sin, floats(3)), Judge(keep.nan()))
    assert search.smallest(0, 20, lambda k: k) == least
    assert len(asked) <= 5


def test_dtypes_are_proposed_together_and_then_each():
    with jax.enable_x64(True):
        p = program(lambda t, i: t[i] * 1.0, floats(5).astype(np.float64), np.arange(3))
        first, *others = dtype_changes(p)
        assert {str(old) for old in first} == {"float64", "int64"}
        assert [set(map(str, change)) for change in others] == [{"float64"}, {"int64"}]


# ---- params ---------------------------------------------------------------------------


def conv(x, w):
    return lax.conv_general_dilated(
        x,
        w,
        (2, 2),
        "SAME",
        rhs_dilation=(2, 1),
        feature_group_count=2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision="highest",
    )


PARAMS = {
    "dot": (
        lambda x, y: jnp.dot(x, y, precision="highest"),
        floats(3, 4),
        floats(4, 5),
    ),
    "conv": (conv, floats(2, 8, 8, 4), floats(3, 3, 2, 4)),
    "scan": (
        lambda x: lax.scan(lambda c, y: (c + y, c), x[0], x, unroll=2, reverse=True),
        floats(4, 8),
    ),
    "indexing": (
        lambda x: x.at[np.array([0, 1])].add(1.0, mode="clip", unique_indices=True),
        floats(4, 8),
    ),
    "sort": (lambda x: lax.sort((x, x), num_keys=2, is_stable=False), floats(4)),
    "reduction": (lambda x: x.sum((0, 2)), floats(4, 5, 6)),
    "pad": (lambda x: lax.pad(x, 0.0, [(1, 1, 1), (0, 2, 0)]), floats(4, 5)),
    "pool": (
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "SAME"),
        floats(9, 8),
    ),
    "jit": (
        jax.jit(jnp.sin, donate_argnums=0, keep_unused=True, inline=False),
        floats(4),
    ),
    "accuracy": (lambda x: lax.exp(x, accuracy=lax.AccuracyMode.HIGHEST), floats(4)),
    "slice": (lambda x: lax.slice(x, (0,), (4,), (1,)), floats(5)),
}


def proposals(p):
    return [
        (eqn, params)
        for eqn in all_equations(p.block)
        for params in simpler_params(eqn)
    ]


@pytest.mark.parametrize("name", PARAMS)
def test_taking_what_is_proposed_comes_to_an_end(name):
    p = program(*PARAMS[name])
    assert proposals(p)
    for _ in range(50):
        candidates = (
            (apply(p, Edits(params={e: c})), len(proposals(p))) for e, c in proposals(p)
        )
        simpler, n = next((found for found in candidates if found[0]), (None, 0))
        if simpler is None:
            break
        assert len(proposals(simpler)) < n
        p = simpler
    else:
        raise AssertionError("no end")


@pytest.mark.parametrize("name", PARAMS)
def test_nothing_proposed_is_set_already(name):
    for eqn, params in proposals(program(*PARAMS[name])):
        ((key, value),) = params.items()
        assert eqn.params[key] != value


def test_a_plain_program_has_nothing_to_simplify():
    p = program(lambda x: jnp.sin(x).sum() + lax.cumsum(x)[0], floats(4))
    assert proposals(p) == []


def test_all_numbers_of_an_input_may_become_the_one_that_fails():
    x = np.float32([1, 2, -3, 0.5])
    program = program_from(jax.make_jaxpr(jnp.log)(x), (x,), ("x",), "f")
    search = Search(program, Judge(keep.nan()))
    simplify_contents(search)
    (left,) = search.best.values
    assert (left == left[0]).all() and left[0] < 0


def test_contents_that_were_refused_are_not_tried_again():
    x, y = np.float32([-2.5, 3.25]), np.float32([1.5, 2.5])
    jaxpr = jax.make_jaxpr(lambda x, y: jnp.log(x + 2.25) * y)(x, y)
    search = Search(program_from(jaxpr, (x, y), "xy", "f"), Judge(keep.nan()))
    simplify_contents(search)
    n_runs = search.stats.runs
    search.verdicts.clear()
    search.simplify(_one_by_one)
    assert search.stats.runs == n_runs


def test_numbers_unlike_the_others_are_found():
    assert outlying(np.float32([[3, 1], [np.nan, 2]])) == [2, 0]
    assert outlying(np.float32([3, 0, 2, 5])) == [1, 3]
    assert outlying(np.array([1, 2, 9])) == [2, 0]
    assert outlying(np.array([1j, 3 + 4j, 2])) == [1, 0]
    assert outlying(jnp.ones(3, "bfloat16")) == [0]
    assert outlying(np.float32(2)) == [] == outlying(np.zeros((0, 3)))
    assert outlying(jax.random.split(jax.random.key(0), 3)) == []


def test_axes_shrink_to_the_element_that_fails():
    x = 1 + np.abs(floats(16, 2, 12))
    x[11, 1, 7] = -1
    jaxpr = jax.make_jaxpr(lambda x: jnp.log(x.reshape(32, 12)).T)(x)
    search = Search(program_from(jaxpr, (x,), "x", "f"), Judge(keep.nan()))
    shrink_axes(search)
    assert search.stats.runs == 1
    assert search.best.values[0].shape == (1, 1, 1)
