"""Example inputs of saved files: as the program needs them, or those that were given."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import untrace
from untrace.cli import main
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
