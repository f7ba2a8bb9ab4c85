"""Floats are written as the program computed them from floats that are parameters."""

import dataclasses
import functools
import importlib
import inspect
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 12, dtype=np.float32).reshape(3, 4)
RATE = 0.25
N_PARTS = 2


def installed(name, text, tmp_path, monkeypatch):
    """Install a module, whose source can be read."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    return importlib.import_module(name)


def recover(function, *args, **options):
    src = untrace.source(function, **options)(*args)
    assert "Written from its equations" not in str(src), src.report.notes
    assert src.report.strength == "identical", str(src.report)
    return str(src)


def average(x, y, decay):
    return decay * x + (1 - decay) * y


def step(x, sigma):
    size = RATE * sigma**2
    noise = jnp.sin(x) * math.sqrt(size)
    return x + 0.5 * size * noise - size


def reassigned(x, scale):
    scale = scale * 3.0
    y = x * (scale + 1.0)
    scale = scale / 2
    return y * (scale + 1.0)


def branching(x, scale):
    factor = 2.5
    if scale > 0.3:
        factor = scale * 2
    return x * (factor + 1)


def negative(x, scale):
    return jnp.clip(x, -scale, 2 * scale) ** (1 / scale)


def both(function):
    return lambda x: function(function(x, 0.7), 0.1)


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (
            lambda x: average(average(x, x + 1, 0.9), x, 0.3),
            ["return decay * x + (1 - decay) * y", ", 0.9), "],
        ),
        (
            both(step),
            [
                "size = RATE * sigma**2",
                "jnp.sin(x) * math.sqrt(size)",
                "x + 0.5 * size * noise - size",
            ],
        ),
        (both(reassigned), []),
        (both(branching), []),
        (both(negative), ["jnp.clip(x, -scale, 2 * scale) ** (1 / scale)"]),
    ],
)
def test_floats_that_depend_on_parameters(function, lines):
    text = recover(function, X)
    for line in lines:
        assert line in text, text
    text = recover(lambda x: jax.grad(lambda y: jnp.sum(function(y)))(x), X)
    for line in lines:
        assert line in text, text


def test_functions_and_parameters_may_be_called_math():
    root = math

    def f(x):
        def math(x):
            return jnp.sin(x) * jnp.cos(x) + x

        def step(x, s):
            return math(x) * root.sqrt(s) + math(x + 1)

        return step(step(x, 0.5), 0.7)

    def g(x, math):
        def scaled(y, s):
            return y * root.sqrt(s * 2) + math

        return scaled(scaled(x, 0.5), 0.7)

    assert "math(x) * math_2.sqrt(s) + math(x + 1)" in recover(f, X)
    assert "y * math_2.sqrt(s * 2) + math" in recover(g, X, X)


def test_floats_that_depend_on_no_parameter_stay_numbers():
    rate = 0.25

    def f(x):
        scale = 0.5 * rate
        return x * (scale / 2) + 0.1 * 0.3

    text = recover(f, X)
    assert "x * 0.0625 + 0.03" in text


def test_floats_that_depend_on_a_constant_of_the_module_name_it():
    def f(x):
        scale = 0.5 * RATE
        return x * (scale / 2) + 0.1 * 0.3

    text = recover(f, X)
    assert "\nRATE = 0.25\n" in text and "scale = 0.5 * RATE\n" in text
    assert "x * (scale / 2) + 0.03" in text


def test_source_that_has_changed_is_not_believed(tmp_path):
    path = tmp_path / "program.py"
    before = "def scaled(x, s):\n    return x * (s * 2.0)\n"
    path.write_text(before)
    space = {}
    exec(compile(before, str(path), "exec"), space)
    path.write_text(before.replace("2.0", "3.0"))
    text = recover(lambda x: space["scaled"](space["scaled"](x, 0.3), 0.7), X)
    assert "3.0" not in text and "x * 0.6" in text


def test_parameters_that_hold_one_float_are_told_apart():
    def f(x):
        def force(x, scale=2.0, mass=1.0, length=1.0):
            def inner(y):
                return y * length - mass / (scale * length**2)

            return jax.vmap(inner)(x * mass) + length

        return force(x)

    text = recover(f, X)
    assert "def force(x, scale=2.0, mass=1.0, length=1.0):" in text
    assert (
        "return force(x)" in text and "y * length - mass / (scale * length**2)" in text
    )
    assert "(x * mass) + length" in text


def test_a_float_that_no_variable_of_several_is_known_to_be_stays_a_number():
    def f(x):
        def shifted(x, low=1.0, high=1.0):
            other = low
            return (x * other + low) / high

        return shifted(x)

    text = recover(f, X)
    assert "(x * 1.0 + low) / high" in text


def test_sizes_are_those_of_the_arrays_that_the_source_names():
    def attend(q, k):
        scores = q @ k.T / math.sqrt(q.shape[-1]) + jnp.eye(q.shape[0])
        return scores / jnp.sqrt(k.shape[-1] - 1) * jnp.zeros((q.shape[0], 1))

    x = np.ones((3, 4), np.float32)
    src = untrace.source(attend)(x, x)
    assert src.report.strength == "identical"
    assert "q @ k.T / math.sqrt(q.shape[-1]) + jnp.eye(q.shape[0])" in str(src)
    assert "jnp.sqrt(k.shape[-1] - 1) * jnp.zeros((q.shape[0], 1))" in str(src)


def test_sizes_of_arrays_that_a_function_does_not_see_are_numbers():
    class Model:
        def __init__(self, weights):
            self.weights = weights

        def apply(self, x):
            return jnp.tanh(x) / self.weights.shape[0] + jnp.cos(x)

    def outer(w, x):
        n = w * 2
        scale = jax.vmap(lambda row: row.sum() / n.shape[0])
        return Model(w).apply(x) + scale(x)[:, None]

    x = np.ones((3, 3), np.float32)
    src = untrace.source(outer)(x, x)
    assert src.report.is_verified
    assert "row.sum() / n.shape[0]" in str(src) and "/ 3 + jnp.cos(x)" in str(src)


class Cache(NamedTuple):
    k: Any
    v: Any


class Bag(NamedTuple):
    p: Any


class Attention:
    def __init__(self, w):
        self.w = w

    def __call__(self, x):
        return x @ self.w / math.sqrt(self.w.shape[0])


def of_fields(x):
    cache = Cache(x, 2 * x)
    return jnp.arange(cache.k.shape[0])[:, None] * jnp.ones((len(cache.k), 1)) / cache.v


def of_items(params):
    n_in, n_out = params["layers"][1]["w"].shape
    return jnp.zeros((n_in, n_out)) + params["layers"][1]["w"] / params["b"].shape[0]


def of_what_was_there_before(x):
    cache = {"k": x}
    n = cache["k"].shape[0]
    cache = {"k": jnp.zeros((1, 1))}
    return jnp.ones((n, 1)) + x * cache["k"].shape[0]


@pytest.mark.parametrize(
    ("function", "given", "written"),
    [
        (of_fields, X, ["jnp.arange(x.shape[0])", "jnp.ones((len(x), 1))"]),
        (
            lambda c: jnp.ones((len(c.k), c.v.shape[1])) + c.k,
            Cache(X, X),
            ["jnp.ones((len(c.k), c.v.shape[1]))"],
        ),
        (
            of_items,
            {"layers": [{}, {"w": X}], "b": X},
            ['n_in, n_out = params["layers"][1]["w"].shape', '/ params["b"].shape[0]'],
        ),
        (
            lambda w: Attention(w)(w.T),
            X,
            ["x @ w / math.sqrt(w.shape[0])"],
        ),
        (
            lambda x, y: x.sum() / x.size + jnp.sum(y.p, axis=y.p.ndim - 1),
            (X, Bag(X)),
            ["x.sum() / x.size", "axis=y.p.ndim - 1"],
        ),
        (of_what_was_there_before, X, ["jnp.ones((3, 1))", "x * zeros.shape[0]"]),
    ],
)
def test_sizes_of_parts_of_what_variables_hold(function, given, written):
    given = given if type(given) is tuple else (given,)
    src = untrace.source(function)(*given)
    assert src.report.strength == "identical", str(src.report)
    for part in written:
        assert part in src.text, src.text


def test_operands_of_assignments_that_compute():
    def program(x):
        d_k = x.shape[-1]
        score = x @ x.T
        score /= d_k**0.5
        score *= np.sqrt(d_k)
        return score

    src = untrace.source(program)(X)
    assert src.report.strength == "identical", str(src.report)
    assert "/ d_k**0.5" in src.text and "* np.sqrt(d_k)" in src.text, src.text


HALF_LOG = 0.5 * np.log(2 * np.pi)


def of_numpy(x, weights):
    n, d = x.shape
    scale = 1.0 / np.sqrt(d)
    y = x * scale + scale - np.maximum(n, 2.5) * HALF_LOG
    return y / np.sqrt(2.0 / (x.shape[0] + weights.shape[1])) - 0.5 * np.log(2 * np.pi)


def test_functions_of_numpy_are_computed_as_the_program_did():
    for sizes in ((3, 4), (5, 2)):
        x = np.ones(sizes, np.float32)
        src = untrace.source(of_numpy, symbolic=True)(x, x)
        assert src.report.strength == "identical", str(src.report)
        for part in (
            "HALF_LOG = np.float64(0.9189385332046727)",
            "scale = 1.0 / np.sqrt(d)",
            "x * scale + scale - np.maximum(n, 2.5) * HALF_LOG",
            "y / np.sqrt(2.0 / (x.shape[0] + weights.shape[1]))",
            "- 0.5 * np.log(2 * jnp.pi)",
        ):
            assert part in src.text, src.text


def test_functions_of_numpy_that_a_module_calls_otherwise_are_numbers():
    """Only the very number counts, and a name may hold another function."""

    class Numpy:
        @staticmethod
        def sqrt(x):
            return np.sqrt(x + 1)

    def program(x, np=Numpy):
        return x / np.sqrt(x.shape[0])

    src = untrace.source(lambda x: program(x))(X)
    assert src.report.strength == "identical" and "np.float64(2.0)" in src.text


def split(x, n_parts):
    rows, columns = x.shape
    x = x.reshape(rows, n_parts, columns // n_parts)
    return jnp.tanh(x).reshape(rows, columns) + jnp.zeros((rows, columns))


def halved(x):
    wide = jnp.concatenate([x, x], axis=1)
    n = wide.shape[1]
    half = n // 2
    wide = wide[:, half:] * jnp.arange(half)
    return wide.sum() / n


def rolled(x, n_steps, order=2):
    for _ in range(n_steps):
        x = x + jnp.tanh(x) ** order
    return x


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        (
            lambda x: split(x + 1, N_PARTS),
            [
                "N_PARTS = 2",
                "def split(x, n_parts):",
                "rows, columns = x.shape",
                "x.reshape(rows, n_parts, columns // n_parts)",
                "reshape(rows, columns) + jnp.zeros((rows, columns))",
                "split(x + 1, N_PARTS)",
            ],
        ),
        (  # columns // n_parts and n_parts are one number
            lambda x: split(x, 2) + split(x, 4),
            ["rows, columns = x.shape", "return split(x, 2) + split(x, 4)"],
        ),
        (
            halved,
            ["n = wide.shape[1]", "half = n // 2", "[:, half:] * jnp.arange(half)"],
        ),
        (
            lambda x: rolled(x, 4) + rolled(x, 5, order=3),
            [
                "def rolled(x, n_steps, order=2):",
                "for _ in range(n_steps):",
                "jnp.tanh(x) ** order",
                "return rolled(x, 4) + rolled(x, 5, order=3)",
            ],
        ),
    ],
)
def test_integers_that_are_of_sizes_and_parameters_keep_their_names(function, lines):
    text = recover(function, X)
    for line in lines:
        assert line in text, text


def test_a_size_that_was_taken_of_what_a_variable_held_before_is_that_array_s():
    def f(x, y):
        if y.ndim > 1:
            x = x * 2
        n, m = x.shape
        x = y
        return x.reshape(n * m) + jnp.ones((n * m,)) * n

    text = recover(f, X, X.reshape(12))
    assert "n, m" not in text and "jnp.ones((12,))" in text


def test_shapes_and_dtypes_that_are_passed_are_those_of_arrays():
    def f(x, y):
        def body(c, row):
            return c + jnp.ones(c.shape) * row.sum(), jnp.zeros(x.shape).sum()

        noise = jax.random.normal(jax.random.key(0), x.shape, x.dtype)
        total, _ = jax.lax.scan(body, noise, y)
        return total + jnp.full(x.shape, 2.0, dtype=y.dtype)

    text = recover(f, X, X.astype(np.float16))
    assert "jax.random.normal(jax.random.key(0), x.shape, x.dtype)" in text
    assert "jnp.ones(c.shape) * row.sum(), jnp.zeros(x.shape).sum()" in text
    assert "jnp.full(x.shape, 2.0, dtype=y.dtype)" in text


def test_numbers_in_comprehensions_have_their_names():
    def f(xs, decay):
        kept = [decay * x + (1 - decay) * RATE for x in xs]
        return kept, sum(RATE * jnp.sum(x) for x in xs)

    text = recover(lambda xs: f(xs, 0.9), [X, X + 1, X * 2])
    assert "\nRATE = 0.25\n" in text
    assert "[decay * x + (1 - decay) * RATE for x in xs]" in text
    assert "sum(RATE * jnp.sum(x) for x in xs)" in text


def test_numbers_at_the_beginning_of_a_turn_have_their_names():
    """Python 3.13 assigns the variable of a loop and loads another in one instruction."""

    def f(xs, decay):
        total = xs[0]
        for x in xs:
            total = total + (decay * x + decay)
        return total, [decay * x for x in xs]

    text = recover(lambda xs: f(xs, 0.9), [X, X + 1, X * 2])
    assert "total = total + (decay * x + decay)" in text
    assert "[decay * x for x in xs]" in text


class Integrator:
    def __init__(self, dt, mass):
        self.dt, self.mass = dt, mass
        self.k = 0.3

    def step(self, x, v):
        v = v - 0.5 * self.dt * jnp.sin(x) / self.mass
        return x + self.dt * v, jnp.exp(-self.mass * self.dt) * v + (self.k + 1) * x


INTEGRATOR = Integrator(0.05, 3.0)


def test_what_objects_hold_has_its_name_in_formulas():
    text = recover(lambda x, v: INTEGRATOR.step(x, v), X, X)
    assert "DT = 0.05\nMASS = 3.0\n" in text, text
    assert "0.5 * DT * jnp.sin(x) / MASS" in text
    assert "jnp.exp(-MASS * DT) * v + 1.3 * x" in text  # one letter is no name


def test_objects_that_hold_other_numbers_have_one_method():
    other = Integrator(0.1, 3.0)

    def f(x, v):
        x, v = INTEGRATOR.step(x, v)
        return other.step(x, v)

    text = recover(f, X, X)
    assert text.count("def step(") == 1, text
    assert "0.5 * dt" in text and "step(x, v, 0.1" in text.replace("dt=", ""), text


INSTALLED = """
import jax.numpy as jnp


def smooth(old, new, beta):
    return beta * old + (1 - beta) * jnp.sin(new)


def plain(x):
    return x * (2 - 0.75)
"""


def test_parameters_of_libraries_are_in_formulas(tmp_path, monkeypatch):
    """One that is only half of what it was would be a trap: another `beta` is passed on."""
    averages = installed("averages_of_untrace", INSTALLED, tmp_path, monkeypatch)

    def f(x):
        y = averages.smooth(x, x + 1, 0.9)
        return averages.smooth(y, averages.plain(x), 0.9)

    text = recover(f, X)
    assert "beta * old + (1 - beta) * jnp.sin(new)" in text, text
    assert "x * 1.25" in text


def test_numbers_that_a_function_computes_and_reads_again_are_its_variables():
    def shelf(x):
        gain = 10 ** (4.0 / 40)
        w = 2 * math.pi * 0.1
        once = 1 / math.sqrt(7)
        y = (gain + 1) * x + (gain - 1) * jnp.cos(w * x) * once
        return y * gain + jnp.sin(w)

    text = recover(shelf, X)
    assert "    gain = 10 ** (4.0 / 40)\n" in text, text
    assert "    w = 2 * jnp.pi * 0.1\n" in text
    assert "(gain + 1) * x + (gain - 1) * jnp.cos(w * x) * once" in text
    assert "    once = 1 / math.sqrt(7)\n" in text
    assert "y * gain + jnp.sin(w)" in text


def test_numbers_that_turns_of_a_loop_compute_are_theirs():
    def f(x):
        for i in range(3):
            rate = 0.1 / (i + 2.5)
            x = x * rate + (1 - rate) * jnp.sin(x)
        return x

    recover(f, X)
    recover(jax.grad(lambda x: f(x).sum()), X)


def test_a_number_that_has_two_values_is_none_of_its_variables():
    def f(x):
        rate = 0.1 / 2.5
        y = x * rate + rate
        rate = rate * 2
        return y * rate + rate

    text = recover(f, X)
    assert "0.04" in text and "0.08" in text, text


def test_lengths_are_written_as_such():
    def f(x, y):
        n = len(x)
        picked = jnp.take(y, jnp.arange(len(x)) % 2, axis=0)
        return 2 * x / (3 * len(x)) + picked * n

    text = recover(f, X, X[:2])
    assert "jnp.arange(len(x))" in text, text
    assert "2 * x / (3 * len(x))" in text
    assert "n = len(x)" in text or "picked * len(x)" in text


CONSTANTS_IN_A_MODULE = """
import jax.numpy as jnp


def force(r, mask, m, G):
    safe = jnp.where(mask, r, 1.0)
    return G * m * jnp.where(mask, 1.0 / jnp.sqrt(safe), 0.0) ** 3


class Field:
    G = 1.0

    def __call__(self, r, m):
        mask = r > 0.5
        return force(r, mask, m, self.G) + force(r * 2.0, mask, m, self.G)


field = Field()
"""


def test_numbers_that_a_library_wrote_are_none_of_its_parameters(tmp_path, monkeypatch):
    """The compiler makes one object of all `1.0` of a module."""
    forces = installed(
        "forces_of_untrace", CONSTANTS_IN_A_MODULE, tmp_path, monkeypatch
    )
    text = recover(lambda r, m: forces.field(r, m), X, X)
    assert "safe = jnp.where(mask, r, 1.0)" in text, text
    assert "jnp.where(mask, 1.0 / jnp.sqrt(safe), 0.0)" in text
    assert "return G * m * " in text


PRODUCTS = """
def riccati(P, A, B, R):
    return (P @ A + A.T @ P - P @ B @ R @ B.T @ P) * 2.0 @ (A @ P)
"""


def test_products_of_matrices_of_libraries_are_written_as_chains(tmp_path, monkeypatch):
    products = installed("products_of_untrace", PRODUCTS, tmp_path, monkeypatch)
    square = np.eye(3, dtype=np.float32)
    text = recover(lambda p, a: products.riccati(p, a, a, p), square, square)
    assert "(p @ a + a.T @ p - p @ a @ p @ a.T @ p) * 2.0 @ (a @ p)" in text, text


class Settings:
    width = 8


def test_functions_of_math_are_written_as_they_were_computed():
    def scores(q, k):
        scaled = q @ k.T
        scaled /= math.sqrt(Settings.width)
        return scaled * (1 / math.sqrt(2 * Settings.width))

    src = untrace.source(scores)(*[np.ones((2, 3), np.float32)] * 2)
    assert src.report.strength == "identical", src.report
    assert "scaled / math.sqrt(8)" in src.text, src.text
    assert "(1 / math.sqrt(2 * 8))" in src.text, src.text


@dataclasses.dataclass(frozen=True)
class Sizes:
    dim: int = 32
    heads: int = 4

    @property
    def head_dim(self):
        """Features of a head."""
        return self.dim // self.heads

    @property
    def pair(self):
        return 2 * self.head_dim

    @property
    def searched(self):
        for n in range(self.dim):
            if n * n == self.dim // 2:
                return n
        return 0


def test_properties_that_compute_with_attributes_are_numbers():
    sizes = Sizes()

    def program(x):
        y = x / np.sqrt(sizes.head_dim) - math.sqrt(sizes.pair)
        return y * np.sqrt(sizes.searched)

    src = untrace.source(program)(X)
    assert src.report.strength == "identical", str(src.report)
    assert "x / np.sqrt(8) - math.sqrt(16)" in src.text, src.text
    assert "np.float64(2.0)" in src.text  # a loop is not followed


def integrate(x, dt=0.001, mass=1.0, n_steps=3, unused=7.5, *, damping=0.25):
    A = jnp.array([[1.0, dt], [0.0, damping]])

    def step(x, _):
        return x + 0.5 * dt * jnp.sin(x) / mass - damping * x, None

    return jax.lax.scan(step, x @ A, None, length=n_steps)[0]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_numbers_that_parameters_of_the_program_hold_by_default(wrap):
    """They are variables: what the program does with others is not known."""
    src = untrace.source(wrap(integrate))(X[:, :2])
    assert src.report.strength == "identical", str(src.report)
    held = "dt = 0.001", "mass = 1.0", "n_steps = 3", "damping = 0.25"
    body = inspect.getsource(integrate).partition(":\n")[2].rstrip()
    start = "".join(f"    {line}\n" for line in held)
    assert f"def integrate(x):\n{start}{body}\n" in src.text, src.text


def test_a_number_that_the_program_was_given_is_an_argument():
    src = untrace.source(integrate)(X[:, :2], 0.002, damping=0.5)
    assert src.report.strength == "identical", str(src.report)
    assert "def integrate(x, dt, *, damping):\n    mass = 1.0\n" in src.text, src.text


def test_numbers_that_are_static_arguments():
    @functools.partial(jax.jit, static_argnames=("n", "scale", "flag"))
    def program(x, n, scale=2.0, flag=True):
        for i in range(n):
            x = x * scale + i / n
        return jnp.broadcast_to(x, (n, *x.shape)) if flag else x

    src = untrace.source(program)(X, 3, scale=3.5)
    assert src.report.strength == "identical", str(src.report)
    lines = ["n = 3", "scale = 3.5", "for i in range(n):", "    x = x * scale + i / n"]
    start = "".join(f"    {line}\n" for line in lines)
    end = "    return jnp.broadcast_to(x, (n, *x.shape))\n"
    assert f"def program(x):\n{start}{end}" in src.text, src.text


def conv(x, w, stride=1):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME")


def test_defaults_of_public_functions_are_no_numbers_of_the_source():
    """`feature_group_count` is 1, too, and stands nowhere."""
    x, w = np.ones((1, 1, 8, 8), np.float32), np.ones((1, 1, 3, 3), np.float32)
    src = untrace.source(lambda x, w: conv(conv(x, w), w, 2))(x, w)
    assert src.report.strength == "identical", str(src.report)
    assert inspect.getsource(conv) in src.text, src.text
    assert "conv(conv(x, w), w, 2)" in src.text, src.text


def test_a_number_that_only_a_loop_counts_to():
    def program(x, n=3, unused=4):
        for _ in range(n):
            x = jnp.sin(x) * 0.5
        return x

    src = untrace.source(program)(X)
    assert src.report.strength == "identical", str(src.report)
    assert "    n = 3\n    for _ in range(n):\n" in src.text, src.text
    assert "unused" not in src.text and "without a step" not in src.text


def test_a_parameter_that_gets_another_value_is_no_variable_of_its_default():
    def program(x, dt=0.1):
        for dt in (0.1, 0.2, 0.3):
            x = jnp.sin(x + dt)
        return x

    src = untrace.source(program)(X)
    assert src.report.strength == "identical", str(src.report)
    assert "for dt in (0.1, 0.2, 0.3):\n        x = jnp.sin(x + dt)" in src.text, (
        src.text
    )


def test_properties_of_no_plain_function_are_passed_over():
    class Odd:
        size = property(lambda: 3)
        other = property()

    odd = Odd()

    def program(x):
        return x * (0.5 if x is None else 1.5) + (odd.size if x is None else 0.25)

    assert untrace.source(program)(X).report.strength == "identical"
