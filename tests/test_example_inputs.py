"""Example inputs of saved files: as the program needs them, or those that were given."""

import itertools
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import untrace
from untrace.cli import main
from untrace.example_draws import GIVEN, with_finite_results
from untrace.verification.retrace import execute

RNG = np.random.default_rng(1)
ROOT = RNG.normal(size=(5, 5))
MATRIX = jnp.asarray(ROOT @ ROOT.T + 0.1 * np.eye(5), jnp.float32)


def examples(function, *args, **options):
    source = untrace.source(function, **options)(*args)
    module = execute(source.text)
    return source, module.example_args(), getattr(module, source.name)


@pytest.mark.parametrize("scale", [1.0, 1e-4, 1e5])
@pytest.mark.parametrize("shape", [(5, 5), (3, 5, 5)])
def test_what_a_cholesky_reads_stays_positive_definite(scale, shape):
    def density(matrix, x):
        root = jnp.linalg.cholesky(matrix)
        return jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)).sum() + x

    given = jnp.broadcast_to(MATRIX * scale, shape) * 1.0
    _, inputs, function = examples(density, given, 1.0)
    drawn = inputs["matrix"]
    assert drawn.shape == shape and drawn.dtype == np.float32
    assert np.isfinite(function(**inputs))
    ratio = np.trace(drawn.reshape(-1, 5, 5)[0]) / np.trace(given.reshape(-1, 5, 5)[0])
    assert 1 / 30 < ratio < 30


def test_other_square_matrices_are_drawn_as_all_arrays():
    for matrix in (-MATRIX, MATRIX.at[0, 1].add(1.0), MATRIX.at[0, 0].set(jnp.nan)):
        source, _, _ = examples(jnp.sin, matrix)
        assert "np.cov" not in source.text


def test_programs_that_are_finite_stay_finite():
    def program(times, labels, probabilities, matrix, cosines):
        steps = jnp.log(jnp.diff(times)) + jnp.arccos(cosines).sum()
        steps += jnp.arctanh(cosines / 2).sum() + jnp.log1p(-cosines).sum()
        chosen = jnp.take(jnp.log(probabilities), labels, mode="fill")
        return steps.sum() + chosen.sum() + jnp.linalg.cholesky(matrix).sum()

    given = (
        jnp.cumsum(jnp.asarray(RNG.uniform(0.1, 1, size=50), jnp.float32)),
        jnp.asarray(RNG.integers(0, 20, size=40)),
        jax.nn.softmax(jnp.asarray(RNG.normal(size=20), jnp.float32)),
        MATRIX,
        jnp.asarray(RNG.uniform(-0.9, 0.9, size=60), jnp.float32),
    )
    assert np.isfinite(program(*given))
    _, inputs, function = examples(program, *given)
    assert np.isfinite(function(**inputs))


HERMITIAN = jnp.asarray(
    (ROOT + 1j * ROOT[::-1]) @ (ROOT + 1j * ROOT[::-1]).conj().T + np.eye(5),
    jnp.complex64,
)
TURNED = jnp.asarray(np.linalg.qr(RNG.normal(size=(12, 12)))[0], jnp.float32)
SHARES = jax.nn.softmax(jnp.asarray(RNG.normal(size=(30, 30)), jnp.float32))
UNIT = RNG.normal(size=(20, 3))
UNIT = jnp.asarray(UNIT / np.linalg.norm(UNIT, axis=1, keepdims=True), jnp.float32)
EDGES = np.append(np.arange(20), RNG.integers(0, 20, size=40))
EDGES = jnp.asarray(RNG.permutation(EDGES))
ORDER = jnp.asarray(RNG.permutation(40))


def log_diagonal(root):
    return jnp.log(jnp.diagonal(root, axis1=-2, axis2=-1)).sum()


def rest(shares):
    return jnp.log(1 + 1e-5 - shares[..., :-1].sum(-1)).sum()


def log_counts(indices, count):
    return jnp.log(jnp.zeros(count).at[indices.reshape(-1)].add(1.0)).sum()


@pytest.mark.parametrize(
    ("program", "given"),
    [
        (lambda x: jnp.linalg.cholesky(x).sum(), HERMITIAN),
        (lambda x: log_diagonal(x).real, jnp.linalg.cholesky(HERMITIAN)),
        (log_diagonal, jnp.linalg.cholesky(MATRIX)),
        (log_diagonal, jnp.linalg.cholesky(MATRIX).T),
        (log_diagonal, jnp.stack([jnp.linalg.cholesky(MATRIX)] * 4)),
        (rest, SHARES),
        (rest, SHARES[0]),
        (rest, SHARES.reshape(5, 6, 30)),
        (lambda x: rest(x.T), SHARES.T),
        (lambda tree: sum(map(rest, tree)), [SHARES, SHARES[::-1]]),
        (lambda x: jnp.arccos(x @ x.T * (1 - 1e-5)).sum(), UNIT),
        (lambda x: jnp.arccos(x @ x.T * (1 - 1e-5)).sum(), jnp.abs(UNIT)),
        (lambda x: jnp.linalg.matrix_power(x, 3000).sum(), TURNED),
        (lambda x: jnp.log(x.sum(-1)).sum(), jnp.eye(10)[EDGES % 10]),
        (lambda i: log_counts(i, 40), ORDER),
        (lambda i: log_counts(i, 40), jnp.stack([ORDER, ORDER[::-1]])),
        (lambda i: log_counts(i, 20), EDGES),
        (lambda i: log_counts(i, 20), EDGES.reshape(2, 30)),
        (lambda i: log_counts(i, 20), jnp.sort(EDGES)),
        (lambda i: log_counts(i - 3, 20), EDGES + 3),
    ],
)
def test_arrays_of_a_kind_are_drawn_as_such(program, given):
    assert np.isfinite(program(given))
    source, inputs, function = examples(program, given)
    (drawn,) = jax.tree.leaves(inputs)[:1]
    assert not np.array_equal(drawn, jax.tree.leaves(given)[0])
    assert drawn.dtype == jax.tree.leaves(given)[0].dtype
    assert np.isfinite(function(**inputs)), source.text


def test_arrays_of_no_kind_are_drawn_number_by_number():
    for given in (SHARES * 1.01, UNIT * 0.9, TURNED + 0.1, EDGES // 2 * 2, EDGES[:19]):
        text = examples(jnp.sin, given)[0].text
        assert "dirichlet" not in text and "permut" not in text and "qr" not in text


def test_kinds_have_named_sizes():
    def program(matrix, x):
        n = len(x)
        return jnp.linalg.cholesky(matrix) @ x + jnp.zeros((n,))

    source, inputs, _ = examples(program, MATRIX, jnp.arange(5.0), symbolic=True)
    size = re.search(r"(\w+) = 5  # ", source.text)[1]
    assert f"np.cov(rng.normal(size=({size}, 4 * {size})))" in source.text
    assert inputs["matrix"].shape == (5, 5)


LOW = jnp.asarray(RNG.uniform(0, 1, size=40), jnp.float32)
HIGH = LOW + jnp.asarray(RNG.uniform(0.1, 0.5, size=40), jnp.float32)
SIGNED = jnp.asarray(RNG.normal(size=40), jnp.float32)
LATE = jnp.asarray(RNG.uniform(0, 100, size=40), jnp.float32)


class Box(NamedTuple):
    low: jax.Array
    high: jax.Array


def width(high, low):
    return jnp.sqrt(high - low)


def within(low, x, high):
    return jnp.log(x - low) + jnp.log(high - x)


def inside(box, x):
    return within(box.low, x, box.high)


def quotient(x, high):
    return jnp.arccos(x / high)


def scanned(low, high):
    return jax.lax.scan(lambda c, row: (c + width(*row), c), 0.0, (high, low))


@pytest.mark.parametrize(
    ("program", "given", "expected"),
    [
        (width, (HIGH, LOW), "low = rng.uniform(0, np.minimum(high, 1))"),
        (width, (SIGNED + 0.5, SIGNED), "low = rng.uniform(high - 0.5, high)"),
        (width, (LATE + 0.01, LATE), "rng.uniform(np.maximum(high - 0.02, 0), high)"),
        (width, (jnp.float32(0.994), LOW * 0.98), "rng.uniform(0, high, size=40)"),
        (width, (HIGH.astype(jnp.bfloat16), LOW.astype(jnp.bfloat16) - 0.1), "high"),
        (within, (LOW, (LOW + HIGH) / 2, HIGH), "high = rng.uniform(x, 1.4)"),
        (within, (SIGNED - 1, SIGNED, SIGNED + 1), "x = rng.uniform(low, low + 1)"),
        (inside, (Box(LOW, HIGH), (LOW + HIGH) / 2), "box = Box(low=low, high=high)"),
        (
            quotient,
            (LOW[:, None] * HIGH[:5], HIGH[:5]),
            "np.minimum(high, 1), size=(40, 5)",
        ),
        (scanned, (LOW, HIGH), "high = rng.uniform(low, 1.4)"),
        (jax.jit(jax.vmap(width)), (HIGH, LOW), "np.minimum(high, 1)"),
        (
            lambda ends: width(ends[:, 1], ends[:, 0]),
            (jnp.stack([LOW, HIGH], 1),),
            "np.sort(",
        ),
        (lambda x: jnp.sqrt(-jnp.diff(x)), (jnp.sort(LATE)[::-1],), ")[::-1]"),
        (
            lambda ends: width(*ends),
            (jnp.stack([SIGNED, SIGNED - 1]),),
            "axis=0)[::-1]",
        ),
        (lambda ends: width(*ends[::-1]), (jnp.stack([LOW, HIGH]),), "axis=0)"),
    ],
)
@pytest.mark.parametrize("level", ["api", "lax"])
def test_inputs_that_are_below_others_stay_below(program, given, expected, level):
    source, inputs, function = examples(program, *given, level=level)
    assert expected in source.text
    if all(np.all(np.isfinite(x)) for x in jax.tree.leaves(program(*given))):
        results = jax.tree.leaves(function(**inputs))
        assert all(np.all(np.isfinite(result)) for result in results)
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype.name), [*inputs.values()])
    given = jax.tree.map(lambda x: (x.shape, x.dtype.name), [*given])
    assert jax.tree.leaves(shapes) == jax.tree.leaves(given)


@pytest.mark.parametrize("seed", range(8))
def test_all_orders_of_many_inputs_are_kept(seed):
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.normal(size=(6, 40)) + rng.choice([-9, 0, 9]), axis=0)
    given = [jnp.asarray(row, jnp.float32) for row in rows]
    given[rng.integers(6)] = jnp.full(40, float(rows[2].max()))  # of an order with some
    given[rng.integers(6)] = float(rows[-1].max()) + 1
    given = [given[i] for i in rng.permutation(6)]
    pairs = [p for p in itertools.permutations(range(6), 2) if rng.uniform() < 0.6]
    pairs = [(i, j) for i, j in pairs if np.all(np.less(given[i], given[j]))]

    def program(*given):
        return [jnp.sqrt(given[j] - given[i]) for i, j in pairs]

    _, inputs, function = examples(program, *given)
    results = jax.tree.leaves(function(*inputs.values()))
    assert len(results) == len(pairs)
    assert all(np.all(np.isfinite(result)) for result in results)


STARTS = RNG.integers(0, 10, 40).astype(np.int32)
ENDS = STARTS + RNG.integers(1, 6, 40).astype(np.int32)


def spans(start, stop):
    return jnp.log(stop - start)


def choices(n, k):
    return jax.scipy.special.gammaln(n - k + 1.0)


def both_logs(a, b, c):
    return jnp.log(b - a) + jnp.log(c - b)


@pytest.mark.parametrize(
    ("program", "given", "expected"),
    [
        (spans, (STARTS, ENDS), "rng.integers(np.maximum(start + 1, "),
        (spans, (np.sort(STARTS), np.sort(ENDS)), "stop = np.sort("),
        (spans, (np.uint8(STARTS), np.int8(ENDS)), "rng.integers(np.maximum(start + 1"),
        (spans, (STARTS, np.int32(20)), "np.minimum(stop - 1, 9)"),
        (spans, (np.int32(-1), STARTS), "start = np.int32(-1)"),
        (both_logs, (STARTS, ENDS, ENDS + 1), "rng.integers(b + 1, "),
        (both_logs, (STARTS, ENDS, ENDS.max() + 3), "np.minimum(c - 1, "),
        (choices, (np.float32(ENDS), np.float32(STARTS)), "np.maximum(k + 1, "),
        (choices, (ENDS, np.float32(STARTS) + 0.5), "rng.uniform(0, np.minimum(n, "),
        (choices, (np.float32(ENDS) - 0.5, STARTS), "rng.uniform(k, "),
    ],
)
def test_integers_that_are_below_others_stay_below(program, given, expected):
    source, inputs, function = examples(program, *given)
    assert expected in " ".join(source.text.split()), source.text
    assert np.all(np.isfinite(program(*given)))
    assert np.all(np.isfinite(function(**inputs)))
    assert [np.shape(x) for x in inputs.values()] == [np.shape(x) for x in given]


CORNERS = RNG.normal(size=(3, 40, 2))
SIDES = tuple(
    jnp.asarray(np.linalg.norm(x - y, axis=-1), jnp.float32)
    for x, y in itertools.combinations(CORNERS, 2)
)
FLAT = RNG.normal(size=(3, 3000, 2)) * [1, 1e-2]
MANY = tuple(
    jnp.asarray(np.linalg.norm(x - y, axis=-1) + 1e-4, jnp.float32)
    for x, y in itertools.combinations(FLAT, 2)
)


def heron(a, b, c):
    s = (a + b + c) / 2
    return jnp.sqrt(s * (s - a) * (s - b) * (s - c))


def incircle(a, b, c):
    s = (a + b + c) / 2
    return jnp.sqrt((s - a) * (s - b) * (s - c) / s)


P = LOW[::-1] / 2
Q = (1 - P) * jnp.asarray(RNG.uniform(0.1, 0.95, 40), jnp.float32)


@pytest.mark.parametrize(
    ("program", "given", "expected"),
    [
        (lambda p, q: jnp.log(1 - p - q), (P, Q), "np.minimum(rng."),
        (lambda p, q: jnp.log1p(-(p + q)), (P, Q), ", 1 - p - "),
        (lambda a, b, c: jnp.sqrt(c - a - b), (P, Q, P + Q + 0.1), ", a + b + "),
        (
            lambda a, b, c: jnp.sqrt(c - 2 * a + b),
            (P, Q, 2 * P - Q + 0.1),
            "2 * a - b + ",
        ),
        (lambda a, b: jnp.sqrt(a - b / 2 - 0.5), (Q / 2 + 0.6 + P, Q), "np.minimum("),
        (
            jax.jit(lambda p, q, r: (1 - p - q - r) ** 0.3),
            (P / 2, Q / 2, Q / 3),
            "- p - q",
        ),
        (
            lambda p, q: jnp.sqrt((p + q - 1) * (p + q - 3)),
            (P, Q),
            "np.minimum(rng.",
        ),
        (heron, SIDES, "c = rng.uniform(np.maximum(a - b, b - a), "),
        (heron, tuple(1e-3 * x for x in SIDES), "np.minimum(a + b, "),
        (jax.jit(heron), SIDES, "np.minimum(a + b, "),
        (incircle, SIDES, "np.maximum(a - b, b - a), "),
        (heron, MANY, "np.maximum(a - b, b - a), np.minimum(a + b, "),
    ],
)
@pytest.mark.parametrize("level", ["api", "lax"])
def test_sums_of_inputs_that_have_to_be_positive_stay_so(
    program, given, expected, level
):
    assert np.all(np.isfinite(program(*given)))
    source, inputs, function = examples(program, *given, level=level)
    assert expected in " ".join(source.text.split()), source.text
    assert np.all(np.isfinite(function(**inputs))), source.text
    types = [(x.shape, x.dtype.name) for x in inputs.values()]
    assert types == [(x.shape, x.dtype.name) for x in given]


@pytest.mark.parametrize("seed", range(12))
def test_products_of_random_sums_have_inputs_that_can_be_drawn(seed):
    rng = np.random.default_rng(seed)
    dtype = [jnp.float32, jnp.bfloat16, jnp.float16][seed % 3]
    given = [jnp.asarray(rng.uniform(0.1, 2, 60), dtype) for _ in range(3)]
    rows = rng.choice([-1, 1, 1, 0.5, -2], (3, 3))

    def total(row, numbers):
        return sum(float(factor) * x for factor, x in zip(row, numbers))

    shifts = [0.05 - float(jnp.min(total(row, given))) for row in rows]

    def program(*numbers):
        factors = [total(row, numbers) + s for row, s in zip(rows, shifts)]
        return jnp.sqrt(factors[0] * factors[1] * factors[2])

    source, inputs, function = examples(program, *given)
    assert [x.dtype for x in inputs.values()] == [dtype] * 3, source.text
    assert function(*inputs.values()).shape == (60,)


@pytest.mark.parametrize("seed", range(12))
def test_all_orders_of_integers_and_floats_are_kept(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 6))
    rows = np.sort(rng.integers(0, 30, (n, 40)), axis=0) + np.arange(n)[:, None] * (
        seed % 2
    )
    rows[rng.integers(n)] = rows.max() + 1
    kinds = [np.int32, np.float32, np.uint8, np.int8, np.float32]
    given = [row.astype(kinds[rng.integers(5)]) for row in rng.permutation(rows)]
    given = [
        x + 0.25 if x.dtype == np.float32 and rng.uniform() < 0.5 else x for x in given
    ]
    pairs = [p for p in itertools.permutations(range(n), 2)]
    pairs = [(i, j) for i, j in pairs if np.all(given[i] <= given[j])]

    def program(*given):
        numbers = [jnp.asarray(x, jnp.float32) for x in given]
        return [jnp.sqrt(numbers[j] - numbers[i]) for i, j in pairs]

    _, inputs, function = examples(program, *given)
    results = jax.tree.leaves(function(*inputs.values()))
    assert len(results) == len(pairs)
    assert all(np.all(np.isfinite(result)) for result in results)
    for i, j in pairs:
        one, other = [*inputs.values()][i], [*inputs.values()][j]
        is_whole = given[i].dtype.kind in "iu" and given[j].dtype.kind in "iu"
        if is_whole and np.all(given[i] < given[j]):
            assert np.all(np.less(one, other))


def test_inputs_of_many_shapes_are_compared():
    def program(x, y, z):
        distances = x[:, None] - y[None, :]
        return distances.sum() + jnp.sqrt(z - x).sum() + jnp.max(y / z.max())

    x = jnp.asarray(RNG.uniform(0, 0.5, size=(20, 2)), jnp.float32)
    _, inputs, function = examples(program, x, x[:9], 1 + x[:, :1])
    assert np.isfinite(function(**inputs))


def test_inputs_that_are_zeros_or_equal_are_no_bounds():
    examples(width, jnp.zeros(40), -LOW)
    source, _, _ = examples(width, LOW, LOW)
    assert "np.minimum" not in source.text


def test_inputs_without_an_order_are_drawn_alone():
    for given in ((LOW, LOW[::-1]), (SIGNED, LOW), (LOW, jnp.where(LOW > 2, LOW, LOW))):
        source, _, _ = examples(width, *given)
        lines = [line for line in source.text.split("\n") if "rng.uniform(" in line]
        assert all("uniform(size=40)" in line for line in lines), lines
    source, _, _ = examples(lambda low, high: low @ high, LOW, HIGH)  # not compared
    assert "rng.uniform(0.1, 1.4, size=40)" in source.text
    source, _, _ = examples(width, HIGH, LOW, anonymous=True)
    assert "rng.uniform(0, np.minimum(" in source.text


def test_long_rows_are_not_written_one_number_a_line():
    for size in (13, 16, 40):
        source, _, _ = examples(jnp.sin, jnp.asarray(RNG.normal(size=size)))
        body = source.text.partition("def example_args")[2]
        assert body.count("\n") < 10


@pytest.mark.parametrize("level", ["api", "lax"])
def test_inputs_that_were_given_are_saved(tmp_path, level):
    large = jnp.asarray(RNG.normal(size=(30, 20)), jnp.float32)
    tree = {"w": large, "n": jnp.arange(7) ** 2, "key": jax.random.key(3)}

    def program(tree, x):
        noise = jax.random.normal(tree["key"], (20,))
        return tree["w"] @ (x + noise), tree["n"] + 1

    x = jnp.asarray(RNG.normal(size=20), jnp.float32)
    make = untrace.source(program, level=level, example_inputs="given")
    source = make(tree, x)
    path = source.save(tmp_path / "saved.py")
    assert path.with_suffix(".safetensors").exists()
    module = execute(path.read_text(), path=str(path))
    found = module.example_args()
    np.testing.assert_array_equal(found["tree"]["w"], large)
    np.testing.assert_array_equal(found["tree"]["n"], tree["n"])
    np.testing.assert_array_equal(found["x"], x)
    assert found["tree"]["key"] == tree["key"]
    for made, wanted in zip(module.program(**found), program(tree, x)):
        np.testing.assert_allclose(made, wanted, rtol=1e-5)
    assert untrace.load(path) is not None


def test_given_inputs_are_an_option_of_the_command_line(tmp_path):
    path = tmp_path / "model_with_inputs.py"
    path.write_text(
        "import jax.numpy as jnp, numpy as np\ndef f(x):\n    return jnp.sin(x)\n"
        "x = np.random.default_rng(0).normal(size=200).astype(np.float32)\n"
    )
    saved = tmp_path / "saved.py"
    call = ["show", str(path), "f(x)", "--inputs", "given", "-o", str(saved)]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 0, done.output
    module = execute(saved.read_text(), path=str(saved))
    wanted = np.random.default_rng(0).normal(size=200).astype(np.float32)
    np.testing.assert_array_equal(module.example_args()["x"], wanted)


def test_given_inputs_contradict_anonymous():
    with pytest.raises(ValueError, match="saves your inputs"):
        untrace.source(jnp.sin, example_inputs="given", anonymous=True)
    with pytest.raises(ValueError, match="example_inputs must be one of"):
        untrace.source(jnp.sin, example_inputs="mine")


def test_anonymous_files_hold_no_input_and_say_which_strings_are_left():
    def scored(params, key, rate, rows):
        y = jnp.einsum("bd,de->be", rows, params["my_layer"]["weights"])
        return jax.lax.psum(y, "devices") * rate + jax.random.normal(key, y.shape)

    function = jax.vmap(scored, (None, None, None, 0), axis_name="devices")
    params = {"my_layer": {"weights": np.full((3, 2), 4.25, np.float32)}}
    rows = np.linspace(1.234, 9.876, 60, dtype=np.float32).reshape(4, 5, 3)
    times = np.linspace(1.234, 9.876, 8, dtype=np.float32)
    for level in ("api", "lax"):
        make = untrace.source(function, anonymous=True, level=level)
        sine = untrace.source(jnp.sin, anonymous=True, level=level)
        made = (
            make(params, jax.random.key(17), 0.125, rows),
            sine(times),
            sine(times[:3]),
        )
        text = "".join(source.module.body for source in made)
        for part in ("4.25", "17", "0.125", "1.23", "9.87", "my_layer", "weights"):
            assert part not in text, part
        if level == "api":
            said = 'Strings that are left: "bd,de->be", "devices".'
            assert said in made[0].report.notes


@pytest.mark.parametrize(
    "given",
    [
        np.array([7654321, 4567]),
        np.array([-7654321, 4567, 89]),
        np.array([4567.0, 7654.0, 8901.0], np.float32),
        np.arange(4567, 4600),
        np.repeat(np.arange(4567, 4571), 30),
        np.array([4567.25, 4567.5, 4567.75]),
        np.array([-45.67, -56.78]),
        jax.random.PRNGKey(4567),
    ],
    ids=str,
)
def test_anonymous_files_draw_from_ranges_of_one_digit(given):
    source = untrace.source(lambda x: x * 2, anonymous=True)(given)
    numbers = [float(n) for n in re.findall(r"\d+\.?\d*", examples_of(source))]
    ends = {*np.abs(np.asarray(given, float)).ravel()}
    assert not {n for n in numbers if n > 9} & (ends | {end + 1 for end in ends})
    _, (drawn,) = results(source)
    assert np.abs(drawn).max() <= 10 * np.abs(given).max()
    assert np.issubdtype(given.dtype, np.floating) or drawn.max() <= given.max()


def test_anonymous_integers_stay_below_others():
    start, stop = np.array([4567, 5432, 6789]), np.array([4568, 5444, 6790])
    last = stop + np.array([23, 1, 5])

    def program(start, stop, last):
        return jnp.log(stop - start) + jnp.log(last - stop)

    source = untrace.source(program, anonymous=True)(start, stop, last)
    assert not re.search("4567|4568|6789|6790|6795|6796", examples_of(source))
    result, (first, middle, end) = results(source)
    assert np.all(first < middle) and np.all(middle < end)
    assert np.all(end <= last.max()) and np.all(np.isfinite(result))


# ---- programs whose values are compared ----------------------------------------------

LAYERS = [jnp.asarray(RNG.normal(size=(30, 30)) / 9, jnp.float32) for _ in range(5)]
FREE = jnp.asarray(RNG.uniform(0.1, 40, size=30), jnp.float32)
LEFT = jnp.asarray(RNG.uniform(0.1, 3, size=30), jnp.float32)
SINES = FREE, -FREE % (2 * jnp.pi) + LEFT


def of_sines(x, y):
    """The sine of the sum is positive in all, of which neither array tells."""
    return jnp.sqrt(jnp.sin(x + y))


def rolled(start, *given, **options):
    """Recover a program that is written as another one, so that its values are compared."""

    def program(layers, *args):
        x = start(*args)
        for layer in layers:
            x = x + jnp.tanh(x @ layer["w"]) * 0.5
        return x

    layers = [{"w": w} for w in LAYERS]
    source = untrace.source(program, reroll="scan", **options)(layers, *given)
    assert source.report.strength == "rerolled"
    assert np.all(np.isfinite(program(layers, *given)))
    return source


def results(source):
    """The results of a file on its example inputs, and these."""
    with tempfile.TemporaryDirectory() as folder:
        path = source.save(Path(folder) / "saved.py")
        module = execute(path.read_text(), path=str(path))
        inputs = module.example_args()
        return getattr(module, source.name)(**inputs), [*inputs.values()]


def examples_of(source):
    """What the file writes of its example inputs."""
    return source.text.split("def example_args")[1].split("return dict")[0]


def keeps_given(source):
    return GIVEN in " ".join(source.text.split())


def test_inputs_that_were_given_stay_where_no_drawn_ones_give_numbers():
    source = rolled(of_sines, *SINES)
    result, inputs = results(source)
    assert np.all(np.isfinite(result)) and keeps_given(source)
    for held, given in zip(inputs[1:], SINES, strict=True):
        np.testing.assert_array_equal(held, given)


def test_inputs_are_drawn_from_another_seed_if_that_is_enough():
    def start(x):
        return x + jnp.log(jnp.cos(1000 * x.sum()))  # of half of all seeds

    shift = next(s for s in range(99) if np.isfinite(start(FREE + s)[0]))
    source = rolled(start, FREE + shift)
    result, _ = results(source)
    assert np.all(np.isfinite(result)) and not keeps_given(source)


def test_inputs_that_do_are_left_as_they_are():
    source = rolled(lambda x: jnp.sqrt(x), FREE)
    assert "default_rng(0)" in source.text and not keeps_given(source)


def test_inputs_that_were_given_do_not_stay_in_anonymous_files():
    source = rolled(of_sines, *SINES, max_seconds=0)
    assert with_finite_results(source, pytest.fail, True) is source
    assert keeps_given(
        with_finite_results(source, lambda given: rolled(of_sines, *SINES), False)
    )


def test_time_that_is_up_leaves_inputs_as_they_are():
    source = rolled(of_sines, *SINES, max_seconds=0)
    assert "default_rng(0)" in source.text and not keeps_given(source)


def test_what_fails_on_the_way_leaves_inputs_as_they_are(monkeypatch):
    def fails(*args):
        raise RuntimeError("out of memory")

    monkeypatch.setattr("untrace.example_draws.are_finite", fails)
    source = rolled(of_sines, *SINES)
    assert "default_rng(0)" in source.text and not keeps_given(source)


@pytest.mark.parametrize("options", [{}, {"level": "lax"}, {"verify": False}])
def test_programs_that_were_not_run_are_not_run_for_their_inputs(options):
    n_runs = []

    def noted(x):
        n_runs.append(len(x))
        return x

    def program(x, y):
        kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return of_sines(jax.pure_callback(noted, kind, x), y)

    untrace.source(program, **options)(*SINES)
    assert not n_runs


def test_programs_with_effects_are_not_run_for_their_inputs():
    n_runs = []

    def program(x, y):
        jax.debug.callback(lambda x: n_runs.append(len(x)), x)
        return of_sines(x, y)

    source = untrace.source(program)(*SINES)
    traced = jax.make_jaxpr(program)(*SINES)
    report = replace(source.report, is_finite=True, traced=traced)
    source = replace(source, report=report)
    assert with_finite_results(source, pytest.fail, False) is source
    jax.effects_barrier()
    assert not n_runs


def test_running_what_was_drawn_costs_one_compilation(monkeypatch):
    def n_compiled():
        names = []

        def listen(event, seconds, **about):
            if event == "/jax/core/compile/backend_compile_duration":
                names.append(about.get("fun_name"))

        jax.monitoring.register_event_duration_secs_listener(listen)
        try:
            rolled(lambda x: jnp.sqrt(x), FREE)
        finally:
            jax.monitoring.unregister_event_duration_listener(listen)
        return len(names)

    n_compiled()  # small functions that are compiled once in a process
    with_it = n_compiled()
    monkeypatch.setattr("untrace.example_draws._may_run", lambda source: False)
    assert with_it - n_compiled() == 1
