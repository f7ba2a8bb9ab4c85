"""Example inputs of a generated module."""

import jax
import numpy as np

import untrace


def test_an_argument_that_is_called_like_the_generator_does_not_hide_it():
    def noisy(rng, x):
        return x + jax.random.normal(rng, x.shape)

    src = untrace.source(noisy)(jax.random.PRNGKey(0), np.ones(40, np.float32))
    scope = {}
    exec(compile(str(src), "noisy.py", "exec"), scope)
    args = scope["example_args"]()
    assert list(args) == ["rng", "x"]
    assert args["x"].shape == (40,) and args["rng"].shape == (2,)


def given(*args):
    """Return what `example_args` gives for some arguments, and its text."""

    def f(*args):
        return args

    text = str(untrace.source(f)(*args))
    scope = {}
    exec(compile(text, "given.py", "exec"), scope)
    made = jax.tree.leaves([*scope["example_args"]().values()])
    assert [(a.shape, a.dtype) for a in made] == [(a.shape, a.dtype) for a in args]
    return [*map(np.asarray, made)], text.partition("def example_args")[2]


NOISE = np.random.default_rng(0)


def test_arrays_of_a_pattern_are_what_they_were():
    args = [
        np.zeros((30, 3), np.float32),
        np.ones(40, np.int32),
        np.full((5, 5), 0.3, np.float32),
        np.eye(9, dtype=np.float32),
        np.tri(9, dtype=bool),
        np.linspace(0, 1, 50, dtype=np.float32),
        np.linspace(3, -1, 50, dtype=np.float32),
    ]
    made, text = given(*args)
    for value, arg in zip(made, args):
        np.testing.assert_allclose(value, arg, rtol=1e-6)
    assert "rng" not in text and "np.linspace(3, -1, 50, dtype=" in text


def test_state_of_adam_has_a_root():
    def step(params, nu, grads):
        return params - grads / (nu**0.5 + 1e-8)

    x = NOISE.normal(size=(8, 9)).astype(np.float32)
    for nu in (np.zeros_like(x), 1e-3 * x**2):
        src = untrace.source(step)(x, nu, x)
        scope = {}
        exec(compile(str(src), "step.py", "exec"), scope)
        assert np.isfinite(scope["step"](**scope["example_args"]())).all()


def test_what_is_drawn_is_like_what_was_passed():
    uniform = NOISE.uniform(size=50).astype(np.float32)
    args = {
        "rng.uniform(size=50)": uniform,
        "rng.uniform(0, 9e-07, size=50)": uniform * np.float32(9e-7),
        "rng.uniform(100, 110, size=50)": 100 + 9.9 * uniform,
        "rng.uniform(-3, 0, size=50)": -3 * uniform,
        "np.sort(rng.uniform(0, 50, size=50)": 50 * np.sort(uniform),
        "rng.integers(0, 2, size=50)": (uniform > 0.5).astype(np.float32),
        "rng.integers(2, 7, size=50)": np.int32(uniform * 5) + 2,
        "np.sort(rng.integers(0, 4, size=50)": np.sort(np.int32(uniform * 4)),
        "rng.integers(0, 2, size=50).astype(bool)": uniform > 0.5,
        "rng.uniform(-1, 1, size=50)": np.cos(7 * uniform),
        "rng.uniform(-0.5, 0.5, size=50)": uniform - np.float32(0.5),
        "rng.normal(size=(4, 9))": NOISE.normal(size=(4, 9)).astype(np.float16),
        "rng.normal(scale=0.02, size=": np.float32(0.02 * NOISE.normal(size=(40, 40))),
        "rng.normal(size=(40, 2)).view(": np.complex64(NOISE.normal(size=40) * 1j),
    }
    made, text = given(*map(np.asarray, args.values()))
    for expected in args:
        assert expected in text
    for value, arg in zip(made[:11], args.values()):
        assert np.all(value >= arg.min() - 0.5) and np.all(value <= arg.max() + 0.5)


def test_bounds_of_a_dtype_are_kept():
    uniform = NOISE.uniform(size=50)
    args = [
        np.float32(3.4e38 * uniform),
        np.float32(1e-44 * uniform),
        np.float16(np.where(uniform > 0.5, -np.inf, 0)),
        (448 * uniform).astype(jax.numpy.float8_e4m3fn),
        np.uint32((2**32 - 1) * uniform),
    ]
    made, _ = given(*args)
    assert all(np.isfinite(value.astype(np.float64)).all() for value in made)


def test_few_elements_are_exact_and_many_digits_are_drawn():
    matrix = NOISE.normal(size=(3, 3)).astype(np.float32)
    row = np.arange(16, dtype=np.int32) ** 2 % 10
    bias = NOISE.normal(size=16).astype(np.float32)
    made, text = given(matrix, row, bias)
    assert np.array_equal(made[0], matrix) and np.array_equal(made[1], row)
    assert "rng.normal(size=16)" in text


def test_dtypes_are_written_in_one_way():
    args = [
        NOISE.normal(size=(4, 9)).astype(np.float32),
        np.zeros((40, 40), np.float32),
        np.full((40, 40), 3, np.int32),
        np.array([1.5, 2.5], np.float32),
        np.asarray(jax.numpy.ones((40, 40), jax.numpy.bfloat16)),
    ]
    _, text = given(*args)
    for line in (
        "rng.normal(size=(4, 9)).astype(np.float32)",
        "np.zeros((40, 40), dtype=np.float32)",
        "np.full((40, 40), 3, dtype=np.int32)",
        "np.array([1.5, 2.5], dtype=np.float32)",
        "np.ones((40, 40), dtype=jnp.bfloat16)",
    ):
        assert line in text, text
