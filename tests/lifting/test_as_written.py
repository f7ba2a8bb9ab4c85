"""What the user wrote and JAX does not need: names of numbers, parentheses, defaults."""

import inspect

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest

import untrace
from untrace.static_check import check_file

X = np.linspace(0.1, 1.0, 18, dtype=np.float32).reshape(6, 3)
y = np.linspace(0.3, 2.0, 6, dtype=np.float32)
KY = np.linspace(0.3, 2.0, 9, dtype=np.float32).reshape(3, 3)
GAMMA = 0.99
TAU = 0.005
DX = 0.1
_SCALE = 3.5
low = -0.3

M, V = np.eye(3, dtype=np.float32) + 1, np.ones(3, np.float32)


def functions_of(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", str(src.report)
    return src.module.body.split("def example_args")[0]


def line_of(function, *args):
    (line,) = [t for t in functions_of(function, *args).split("\n") if "return" in t]
    return line.strip().removeprefix("return ")


# ---- names --------------------------------------------------------------------------


def fitted(w):
    return jnp.mean((X @ w - y) ** 2) + jnp.sum(KY @ w)


def test_arrays_of_one_letter_keep_their_names():
    assert line_of(fitted, V) == "jnp.mean((X @ w - y) ** 2) + jnp.sum(KY @ w)"


def local_y(w):
    y = jnp.sin(w)
    return (fitted(y) + jnp.sum(y)) * (jnp.cos(y) + y)


def test_a_local_variable_of_that_name_is_another():
    assert "y = jnp.sin(w)" in functions_of(local_y, V)


def updated(value, target):
    return value + GAMMA * target, (1 - TAU) * value + TAU * target


def scaled(x):
    return x / DX**2


def shifted(x):
    return x - low


def _helper(x):
    y = jnp.sin(x)
    return y * jnp.cos(y)


def _private(x):
    return _helper(x * _SCALE)


def test_constants_of_the_users_module_keep_their_names():
    text = functions_of(updated, V, V)
    assert "GAMMA = 0.99\nTAU = 0.005\n" in text
    line = "return value + GAMMA * target, (1 - TAU) * value + TAU * target"
    assert line in text
    assert line_of(scaled, V) == "x / DX**2"
    text = functions_of(_private, V)
    assert "_SCALE = 3.5\n" in text and "return _helper(x * _SCALE)" in text
    assert line_of(shifted, V) == "x - low"
    anonymous = untrace.source(updated, anonymous=True)(V, V).text
    assert "GAMMA" not in anonymous and "TAU" not in anonymous


MATRIX = jnp.arange(9.0).reshape(3, 3) / 7


def test_attributes_of_constants_and_modules_of_statistics():
    def program(x):
        return MATRIX @ x @ MATRIX.T + jax.scipy.stats.norm.logpdf(x)

    text = functions_of(program, jnp.eye(3))
    assert "return MATRIX @ x @ MATRIX.T + norm.logpdf(x)" in text


# ---- parentheses --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (lambda a, b, c: (a * b) @ c, "(a * b) @ c"),
        (lambda a, b, c: a * b @ c, "a * b @ c"),
        (lambda a, b, c: (a @ b) / 2.0 + c, "(a @ b) / 2.0 + c"),
        (lambda a, b, c: a @ b / (3.0) + c, "a @ b / 3.0 + c"),
        (lambda a, b, c: (a + b) + c, "(a + b) + c"),
        (lambda a, b, c: a + (b + c), "a + (b + c)"),
        (lambda a, b, c: (jnp.sin(a)) * (b) - c, "jnp.sin(a) * b - c"),
        (lambda a, b, c: a - (b - c), "a - (b - c)"),
    ],
)
def test_parentheses_are_the_authors(function, shown):
    assert line_of(function, M, M, M) == shown


def folded(a, b, c):
    product = a * b
    return product @ c


def test_what_is_folded_into_a_product_of_matrices_has_parentheses():
    assert line_of(folded, M, M, M) in ("(a * b) @ c", "product @ c")


# ---- arguments -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "shown"),
    [
        (lambda x: jax.nn.softmax(x, axis=-1), "jax.nn.softmax(x, axis=-1)"),
        (lambda x: jax.nn.softmax(x, -1), "jax.nn.softmax(x, -1)"),
        (lambda x: jax.nn.softmax(x), "jax.nn.softmax(x)"),
        (lambda x: jnp.sum(x, keepdims=False), "jnp.sum(x, keepdims=False)"),
    ],
)
def test_default_values_that_the_user_wrote_stay(function, shown):
    assert line_of(function, M) == shown


def diagonal(x):
    d = jnp.diag_indices(3)
    return x.at[d].add(1.0) + x[d]


def solved(a, b):
    factor = jax.scipy.linalg.cho_factor(a)
    return jax.scipy.linalg.cho_solve(factor, b)


def other_flag(a, b):
    factor, is_lower = jax.scipy.linalg.cho_factor(a, lower=True)
    return jax.scipy.linalg.cho_solve((factor, is_lower), b)


def two_factors(a, b):
    upper, is_lower = jax.scipy.linalg.cho_factor(a)
    factor, is_other = jax.scipy.linalg.cho_factor(a + 1, lower=True)
    first = jax.scipy.linalg.cho_solve((upper, is_lower), b)
    return jax.scipy.linalg.cho_solve((factor, is_other), first)


def own_flag(a, b):
    factor = jnp.linalg.cholesky(a)
    return jax.scipy.linalg.cho_solve((factor, True), b)


def solved_in_rows(a, b):
    factor, is_lower = jax.scipy.linalg.cho_factor(a, lower=True)

    def solve(row):
        return jax.scipy.linalg.cho_solve((factor, is_lower), row)

    return jax.vmap(solve)(b)


def test_flags_that_come_with_arrays_go_with_them():
    assert inspect.getsource(solved_in_rows) in functions_of(solved_in_rows, M, M)
    text = functions_of(two_factors, M, V)
    assert "cho_solve((upper, is_lower), b)" in text
    assert "cho_solve((factor, is_other), first)" in text
    assert "cho_solve((factor, True), b)" in functions_of(own_flag, M, V)


def test_tuples_are_passed_whole():
    assert "x.at[d].add(1.0) + x[d]" in functions_of(diagonal, M)
    assert "cho_solve(factor, b)" in functions_of(solved, M, V)
    assert "cho_solve((factor, is_lower), b)" in functions_of(other_flag, M, V)


# ---- limits -------------------------------------------------------------------------


def masked(x):
    dtype = x.dtype
    return jnp.where(x > 1, x, jnp.finfo(dtype).min)


def guarded(x):
    low = jnp.finfo(jnp.float32)
    return jnp.maximum(x, float(low.eps)) + jnp.float32(low.tiny) + float(low.min)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_limits_of_types_are_written_as_such(dtype):
    expected = f"jnp.where(x > 1, x, jnp.finfo(jnp.{dtype}).min)"
    assert line_of(masked, V.astype(dtype)) == expected


def test_limits_may_be_numbers_of_python():
    src = untrace.source(guarded)(V)
    for text in ("float(jnp.finfo(jnp.float32).eps)", ".tiny", "jnp.float32).min)"):
        assert text in src.module.body
    assert check_file(src.text.encode()) == []
    assert line_of(lambda x: jnp.maximum(x, 0.0078125), V).endswith("(x, 0.0078125)")


# ---- lists --------------------------------------------------------------------------


def features(t):
    found = []
    for k in (1, 2, 3):
        found += [jnp.sin(k * t), jnp.cos(k * t)]
    return jnp.stack(found)


def test_a_list_that_gets_several_items_a_turn_is_no_comprehension():
    text = functions_of(features, V)
    assert "for k in range(1, 4):\n        found += [jnp.sin(k * t), jnp.cos(k" in text


def written_out(u, v, s, w):
    east = 0.5 * (u + v)
    east_flux = east * jnp.where(east > 0, u, s) * w
    west = 0.5 * (v + s)
    west_flux = west * jnp.where(west > 0, v, u) * w
    north = 0.5 * (s + u)
    north_flux = north * jnp.where(north > 0, s, v) * w
    return east_flux, west_flux, north_flux


def test_what_the_user_has_written_three_times_is_no_function():
    """It was one of a name that says nothing, `written_out_step`."""
    src = untrace.source(written_out)(*[np.ones(3, np.float32)] * 4)
    assert src.report.strength == "identical", str(src.report)
    assert inspect.getsource(written_out) in src.text, src.text
