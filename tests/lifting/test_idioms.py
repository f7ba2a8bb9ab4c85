"""Public calls come back from the equations that they make, and from no others."""

import re
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.ir import from_jaxpr, to_jaxpr
from untrace.lifting.idioms import rewriting
from untrace.lifting.idioms.attempts import attempt
from untrace.lifting.idioms.learned import learned, trace_example
from untrace.lifting.idioms.regions import meanings
from untrace.lifting.idioms.rewriting import Rewriter
from untrace.lifting.idioms.table import IDIOMS
from untrace.verification.equivalence import equivalent

X = jnp.arange(12.0).reshape(3, 4) / 7
V = jnp.arange(4.0)
SQUARE = jnp.eye(4) + 0.1 * jnp.arange(16.0).reshape(4, 4)
INDEX = jnp.array([2, 0, 1])
LABELS = jnp.array([1, 3, 0])
KEY = jax.random.key(0)
IMAGE = jnp.zeros((4, 3, 5))


def layer_norm(x, scale, bias):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias


def rms_norm(x, scale):
    return x / jnp.sqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6) * scale


# What is called, its arguments, and what the source says.
CALLS = [
    (lambda x: jax.nn.softmax(x, axis=0), (X,), "jax.nn.softmax(x, axis=0)"),
    (lambda x: jax.nn.softmax(x), (X,), "jax.nn.softmax(x, axis=-1)"),
    (lambda x: jax.nn.log_softmax(x), (X,), "jax.nn.log_softmax(x, axis=-1)"),
    (lambda x: jax.nn.logsumexp(x, axis=1), (X,), "logsumexp(x, axis=-1)"),
    (lambda x: jax.nn.gelu(x), (X,), "jax.nn.gelu(x)"),
    (lambda x: jax.nn.gelu(x, approximate=False), (X,), "approximate=False"),
    (lambda x: jax.nn.silu(x), (X,), "jax.nn.silu(x)"),
    (lambda x: jax.nn.relu(x), (X,), "jax.nn.relu(x)"),
    (lambda x: jax.nn.sigmoid(x), (X,), "jax.nn.sigmoid(x)"),
    (lambda x: jax.nn.softplus(x), (X,), "jax.nn.softplus(x)"),
    (lambda x: jax.nn.one_hot(x, 5), (LABELS,), "jax.nn.one_hot(x, 5)"),
    (layer_norm, (X, V, V), "jnp.var(x, axis=-1, keepdims=True)"),
    (rms_norm, (X, V), "jnp.mean("),
    (lambda x, y: x @ y, (X, SQUARE), "x @ y"),
    (lambda x, y: jnp.einsum("ij,kj->ik", x, y), (X, SQUARE), '"ij,kj->ik", x, y'),
    (
        lambda x, y: jnp.einsum("bqhd,bkhd->bhqk", x, y),
        (jnp.ones((2, 3, 4, 5)), jnp.ones((2, 6, 4, 5))),
        "jnp.einsum(",
    ),
    (lambda x: jnp.mean(x, axis=0), (X,), "jnp.mean(x, axis=0)"),
    (lambda x: jnp.mean(x), (X,), "jnp.mean(x)"),
    (lambda x: jnp.var(x, axis=-1), (X,), "jnp.var(x, axis=-1)"),
    (lambda x: jnp.std(x, axis=0), (X,), "jnp.std(x, axis=0)"),
    (lambda x: jnp.linalg.norm(x), (X,), "jnp.linalg.norm(x)"),
    (lambda x: jnp.where(x > 0, x, 0.0), (X,), "jnp.where("),
    (lambda x: jnp.clip(x, 0.0, 1.0), (X,), "jnp.clip(x, 0.0, 1.0)"),
    (lambda x, i: x[i], (X, INDEX), "x[i]"),
    (lambda x, i: x[i], (X, jnp.int32(1)), "x[i]"),
    (lambda x, i: x[:, i], (X, INDEX), "x[:, i]"),
    (lambda x, i: x[i, i], (SQUARE, jnp.int32(1)), "x[i, i]"),
    (lambda x: x[:, -1], (X,), "x[:, -1]"),
    (lambda x: x[..., None], (X,), "x[:, :, None]"),
    (lambda x: x[1:, :-1], (X,), "x[1:, :-1]"),
    (lambda x, i: jnp.take(x, i, axis=1), (X, INDEX), "jnp.take(x, i, axis=-1)"),
    (
        lambda x, i: jnp.take_along_axis(x, i, axis=1),
        (X, jnp.zeros((3, 1), jnp.int32)),
        "jnp.take_along_axis(x, i, axis=-1)",
    ),
    (lambda x, i, y: x.at[i].set(y), (X, INDEX, X), "x.at[i].set(y)"),
    (lambda x, i, y: x.at[i].add(y), (X, INDEX, X), "x.at[i].add(y)"),
    (lambda x: jnp.split(x, 2, axis=1), (X,), "jnp.split(x, 2, axis=-1)"),
    (lambda x, y: jnp.stack([x, y]), (X, X), "jnp.stack([x, y])"),
    (lambda x, y: jnp.concatenate([x, y]), (X, X), "jnp.concatenate([x, y]"),
    (lambda x: jnp.repeat(x, 2, axis=0), (X,), "jnp.repeat(x, 2, axis=0)"),
    (lambda x: jnp.tile(x, 2), (V,), "jnp.tile(x, 2)"),
    (lambda x: jnp.roll(x, 1), (V,), "jnp.roll(x, 1"),
    (lambda: jnp.linspace(0.0, 1.0, 5), (), "jnp.linspace(0.0, 1.0, 5)"),
    (lambda: jnp.arange(5), (), "jnp.arange(5)"),
    (lambda x: jnp.tril(x), (SQUARE,), "jnp.tril(x)"),
    (lambda x: jnp.triu(x, 1), (SQUARE,), "jnp.triu(x, 1)"),
    (lambda x: jnp.cumsum(x, axis=1), (X,), "jnp.cumsum(x, axis="),
    (lambda x: jnp.sort(x, axis=0), (X,), "jnp.sort(x, axis=0)"),
    (lambda x: jnp.argsort(x), (X,), "jnp.argsort(x, axis=-1)"),
    (lambda x: jax.lax.top_k(x, 2), (X,), "jax.lax.top_k(x, 2)"),
    (lambda x: jnp.argmax(x, axis=-1), (X,), "jnp.argmax(x, axis="),
    (lambda x, y: jnp.linalg.solve(x, y), (SQUARE, V), "jnp.linalg.solve(x, y)"),
    (lambda x: jnp.linalg.inv(x), (SQUARE,), "jnp.linalg.inv(x)"),
    (lambda x: jnp.linalg.det(x), (SQUARE,), "jnp.linalg.det(x)"),
    (lambda x: jnp.linalg.cholesky(x), (SQUARE,), "jnp.linalg.cholesky(x)"),
    (lambda x: jnp.fft.rfft(x), (V,), "jnp.fft.rfft(x)"),
    (lambda x: jnp.fft.ifft(x), (V + 0j,), "jnp.fft.ifft(x)"),
    (lambda x, y: jnp.convolve(x, y, mode="same"), (V, V), 'x, y, mode="same"'),
    (lambda x, y: x % y, (X, V), "x % y"),
    (lambda x, y: jnp.searchsorted(x, y), (V, X[0]), "jnp.searchsorted(x, y)"),
    (lambda x: jax.random.normal(x, (3,)), (KEY,), "jax.random.normal(x, (3,))"),
    (lambda x: jax.random.uniform(x, (3,)), (KEY,), "jax.random.uniform(x, (3,))"),
    (
        lambda x: jax.random.randint(x, (3,), 0, 5),
        (KEY,),
        "jax.random.randint(x, (3,), 0, 5)",
    ),
    (lambda x: jax.random.bernoulli(x, 0.5, (3,)), (KEY,), "bernoulli(x, 0.5, (3,))"),
    (lambda x: jax.random.split(x), (KEY,), "jax.random.split(x, 2)"),
    (lambda x, i: jax.random.fold_in(x, i), (KEY, jnp.int32(3)), "fold_in(x, i)"),
    (lambda x, y: jax.random.categorical(x, y), (KEY, V), "categorical(x, y)"),
    (
        lambda x, i: jax.lax.cond(i > 0, jnp.sin, jnp.cos, x),
        (X, jnp.int32(1)),
        "jax.lax.cond(",
    ),
    (
        lambda x, i: jax.lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x),
        (X, jnp.int32(1)),
        "jax.lax.switch(",
    ),
    (
        lambda x, i: jax.ops.segment_sum(x, i, 4),
        (X, INDEX),
        "jax.ops.segment_sum(x, i, 4)",
    ),
]


def lifted(function, *args):
    """Recover a function from its jaxpr alone."""
    jaxpr = jax.make_jaxpr(function)(*args)
    src = untrace.source(jaxpr, level="api", name="recovered")
    assert src.report.is_verified, src.report
    return str(src).split("def example_args")[0]


@pytest.mark.parametrize(
    ("function", "args", "expected"), CALLS, ids=[call[2] for call in CALLS]
)
def test_call_comes_back(function, args, expected):
    assert expected in lifted(function, *args)


@pytest.mark.parametrize(
    ("function", "args", "expected"), CALLS, ids=[call[2] for call in CALLS]
)
def test_call_comes_back_in_a_larger_program(function, args, expected):
    def larger(*args):
        return jax.tree.map(_moved, function(*map(_moved, args)))

    assert lines(function, *args) <= lines(larger, *args)


def lines(function, *args):
    """Find the lines of a function, with its variables left out."""
    block = from_jaxpr(jax.make_jaxpr(function)(*args))
    found = Rewriter(lambda a, b: equivalent(a, b) is None).block(block)
    texts = [e.params["line"].text for e in found.equations if e.name == "idiom"]
    return {re.sub(r"\bv\d+\b", "_", text) for text in texts}


def _moved(value):
    if jnp.issubdtype(value.dtype, jnp.floating):
        return jnp.sin(value)
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return jax.random.clone(value)
    return value


LOOKALIKES = [
    # A softmax whose sum runs over another axis.
    (
        lambda x: jnp.exp(x - x.max(0)) / jnp.exp(x - x.max(0)).sum(1, keepdims=True),
        (SQUARE,),
        "softmax",
    ),
    (lambda x: 0.5 * x * (1 + jnp.tanh(0.79 * (x + 0.044715 * x**3))), (X,), "gelu"),
    (lambda x: x * jax.nn.sigmoid(1.1 * x), (X,), "silu"),
    (lambda x: jnp.sum(x, axis=0) / 4.0, (X,), "jnp.mean"),
    (lambda x: jnp.log(jnp.sum(jnp.exp(x))), (X,), "logsumexp"),
    (lambda x, i: x.at[i].set(0.0, mode="clip"), (X, INDEX), "x.at[i].set(0"),
    (lambda x, i: jnp.take(x, i, axis=0, mode="clip"), (X, INDEX), "x[i]"),
]


@pytest.mark.parametrize(
    ("function", "args", "wrong"), LOOKALIKES, ids=[case[2] for case in LOOKALIKES]
)
def test_lookalike_is_not_taken_for_the_call(function, args, wrong):
    assert wrong not in lifted(function, *args)


def test_value_that_is_needed_elsewhere_stays():
    def both(x):
        exponential = jnp.exp(x - jnp.max(x))
        return exponential, exponential / jnp.sum(exponential)

    assert "jnp.exp(" in lifted(both, V)


def test_jaxpr_without_tracebacks_is_lifted():
    jaxpr = jax.make_jaxpr(lambda x: jax.nn.softmax(x) @ x.T)(X)
    block = from_jaxpr(jaxpr)
    for eqn in block.equations:
        eqn.source_info = eqn.source_info.replace(traceback=None)
    found = Rewriter(lambda a, b: equivalent(a, b) is None).block(block)
    assert [eqn.name for eqn in found.equations] == ["idiom", "idiom"]


def test_nothing_is_lifted_that_is_not_accepted():
    block = from_jaxpr(jax.make_jaxpr(jax.nn.softmax)(X))
    found = Rewriter(lambda a, b: False).block(block)
    assert [e.name for e in found.equations] == [e.name for e in block.equations]


def test_results_have_the_names_of_the_users_variables():
    def attend(queries, keys):
        scores = queries @ keys.T
        weights = jax.nn.softmax(scores, axis=-1)
        return weights

    text = lifted(attend, X, X)
    assert "scores = queries @ keys.T" in text
    assert "weights = jax.nn.softmax(scores, axis=-1)" in text


def test_items_of_an_unpacked_result_have_their_names():
    def halves(x):
        left, right = jnp.split(x, 2, axis=-1)
        return left * jnp.sin(right)

    assert "left, right = jnp.split(x, 2, axis=-1)" in lifted(halves, X)


def test_operators_on_constants_alone_are_staged():
    table = np.arange(6.0, dtype=np.float32).reshape(2, 3)

    def constant(x):
        return x + jnp.asarray(table)[1] * jnp.asarray(table)[0]

    lifted(constant, jnp.ones(3))


def test_idioms_inside_scans_and_branches_are_lifted():
    def loop(x):
        def step(carry, row):
            return jax.nn.softmax(carry + row), jax.nn.logsumexp(carry)

        return jax.lax.scan(step, x[0], x)

    text = lifted(loop, X)
    assert "jax.nn.softmax(" in text
    assert "logsumexp(" in text


def test_most_examples_can_be_traced():
    """An idiom whose every example fails would never be found."""
    for idiom in IDIOMS:
        if not idiom.names:
            made = [trace_example(idiom, example) for example in idiom.examples]
            assert any(block is not None for block in made), idiom.template
    assert learned().by_look


def test_what_is_compared_is_a_jaxpr_without_complaints():
    jaxpr = jax.make_jaxpr(layer_norm)(X, V, V)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        made = to_jaxpr(replace(from_jaxpr(jaxpr), debug_info=None))
    assert str(made) == str(jaxpr)


def test_lines_that_python_warns_of_are_not_used():
    aval = jax.core.ShapedArray((3,), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert attempt("v0[0[:, None]]", [aval]) is None
        assert attempt("v0[0]", [aval]) is not None


def test_lines_take_numbers_of_python_where_weak_scalars_may_be_some():
    weak = jax.make_jaxpr(lambda x: x)(1.0).in_avals[0]
    strong = jax.make_jaxpr(lambda x: x)(np.float32(1)).in_avals[0]
    assert weak.weak_type and not strong.weak_type
    assert attempt("v0.astype(jnp.int32)", [strong]) is not None
    assert attempt("v0.astype(jnp.int32)", [weak]) is None
    assert attempt("jnp.asarray(v0, jnp.int32)", [weak]) is not None
    assert attempt("v0 + v1.astype(jnp.int32)", [weak, strong]) is not None


def test_lines_are_traced_once_for_inputs_of_the_same_types(monkeypatch):
    traced = []

    def counting(text, avals, imports, context):
        traced.append((text, *map(str, avals)))
        return attempt(text, avals, imports, context)

    monkeypatch.setattr(rewriting, "attempt", counting)

    def f(x, i):
        for axis in (0, 1, -1):
            x = jnp.copy(jax.lax.transpose(x, (1, 0))) + x.sum(axis, keepdims=True)
        return x[i] + jnp.take(x, i, axis=1) + x[i, 0] + x[0, i]

    jaxpr = jax.make_jaxpr(f)(jnp.ones((4, 4)), 2)
    assert untrace.source(jaxpr, level="api").report.is_verified
    assert len(traced) == len(set(traced)) > 10


def meanings_of(f, *args):
    return meanings(from_jaxpr(jax.make_jaxpr(f)(*args)))


def test_programs_that_are_equal_mean_the_same():
    def f(x):
        jnp.cos(x)
        return jnp.copy(jax.jit(lambda y: (jnp.tan(y), jnp.sin(y) + 1.0))(x)[1])

    def g(x):
        return jax.jit(lambda y: jnp.copy(y))(jnp.sin(x) + np.float32(1.0))

    x = jnp.ones(3)
    assert meanings_of(f, x) == meanings_of(g, x)
    loop = lambda x, n: jax.lax.fori_loop(0, 3, lambda _, v: jnp.sin(v) * n, x)
    closed = lambda x, n: loop(x, n + 0 * n)  # what a loop takes is left to the proof
    assert meanings_of(loop, x, 2.0) == meanings_of(closed, x, 2.0)


@pytest.mark.parametrize(
    "other",
    [
        lambda x, y: jnp.dot(y, x),
        lambda x, y: jnp.dot(x, y, precision="highest"),
        lambda x, y: jnp.dot(x.T, y),
        lambda x, y: jnp.dot(x, y) + 0.0,
    ],
)
def test_programs_that_mean_something_else_are_not_handed_to_the_proof(other):
    x = jnp.ones((3, 3))
    assert meanings_of(jnp.dot, x, x) != meanings_of(other, x, x)
