"""Where two runs part: planted places are found, equal programs do not part."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

import untrace
from tests.hostile.strings import STRINGS
from tests.interpreters.parting import CASES, CONSTANTS, PARAMS, Parting, in_step
from untrace.cli import main
from untrace.errors import CallError, SaveError
from untrace.interpreters.diverging import recording, runs, store
from untrace.interpreters.diverging.distances import Tolerance, distance

X = jnp.linspace(0.2, 1.7, 6)


def name_of(case: Parting) -> str:
    return case.make.__name__


def variance(x):
    centre = jnp.mean(x)
    return jnp.mean(x * x) - centre**2


def logsumexp(x):
    return jnp.log(jnp.sum(jnp.exp(x)))


# ---- two programs --------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_two_programs_part_where_it_was_planted(case: Parting) -> None:
    one, other = map(case.make, CONSTANTS)
    found = untrace.divergence(one, other)(*case.args)
    assert found.first is not None and found.first.origin is not None
    primitive = found.first.equation.primitive.name
    place = primitive, found.first.turn, found.first.origin.line
    assert place == (case.primitive, case.turn, case.line)
    before = found.rows[: found.rows.index(found.first)]
    assert not any(row.distance.n_other for row in before)
    assert str(case.line) in str(found)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_equal_programs_do_not_part(case: Parting) -> None:
    found = untrace.divergence(case.make(1.0), case.make(1.0))(*case.args)
    assert found.first is None and not found.notes
    assert found.rows and not any(row.distance.n_other for row in found.rows)


def test_renamed_and_reordered_programs_do_not_part() -> None:
    def one(x):
        a = jnp.sin(x)
        b = jnp.cos(x)
        total, _ = jax.lax.scan(lambda t, r: (t * 0.5 + r, None), 0.0, a)
        return a * b + total

    @jax.jit
    def halved(total, row):
        return total * 0.5 + row

    def other(values):
        def body(carry, item):
            return halved(carry, item), None

        second = jnp.cos(values)
        first = jax.jit(jnp.sin)(values)
        unused = jnp.tanh(values)
        del unused
        carry, _ = jax.lax.scan(body, 0.0, first)
        return first * second + carry

    for pair in ((one, other), (other, one)):
        found = untrace.divergence(*pair)(X)
        assert found.first is None
        assert {row.turn for row in found.rows} > {"scan[0]", "scan[5]"}


def test_values_are_matched_around_what_only_one_program_has() -> None:
    def one(x):
        y = jnp.sin(x)
        return jnp.exp(y) * 3.0

    def other(x):
        y = jnp.sin(x)
        return jnp.exp(jnp.tanh(y)) * 3.0

    found = untrace.divergence(one, other)(X)
    assert found.first is not None and found.first.equation.primitive.name == "exp"
    assert [row.equation.primitive.name for row in found.rows] == ["sin", "exp", "mul"]


def test_another_branch_is_reported_as_such() -> None:
    def make(c: float) -> Any:
        return lambda x: jax.lax.cond(jnp.sum(x) > c, jnp.sin, jnp.cos, x)

    found = untrace.divergence(make(1.0), make(100.0))(X)
    assert [row.kind for row in found.control] == ["branch"]
    assert found.control[0].words == "takes branch 1 against 0"
    assert "takes branch 1 against 0" in str(found)


def test_a_branch_that_is_chosen_by_an_input_is_the_first() -> None:
    def make(flip: int) -> Any:
        return lambda k, x: jax.lax.switch(k ^ flip, [jnp.sin, jnp.cos], x)

    found = untrace.divergence(make(0), make(1))(1, X)
    assert found.first is not None and found.control[0].words.startswith("takes branch")


def test_another_number_of_turns_is_reported_as_such() -> None:
    def make(limit: float) -> Any:
        return lambda x: jax.lax.while_loop(lambda y: y < limit, lambda y: y * 2.0, x)

    found = untrace.divergence(make(10.0), make(100.0))(1.0)
    assert [(row.kind, row.words) for row in found.control] == [
        ("turns", "4 turns against 7")
    ]
    assert found.first is not None and found.first.turn == "while[cond 4]"
    back = untrace.divergence(make(100.0), make(10.0))(1.0)
    assert back.control[0].words == "7 turns against 4"
    assert any(
        "did not come to" in note or "not come to" in note for note in back.notes
    )


def test_what_has_no_counterpart_is_named() -> None:
    found = untrace.divergence(lambda x: jnp.sum(jnp.sin(x)), lambda x: jnp.prod(x))(X)
    assert found.notes and "no counterpart" in found.notes[0]


def test_other_shapes_are_a_difference() -> None:
    found = untrace.divergence(lambda x: x[:2] * 2.0, lambda x: x[:3] * 2.0)(X)
    assert found.first is not None and found.first.distance.what == "shape"
    assert "f32[2] against f32[3]" in str(found)


def test_operands_and_both_lines_are_shown() -> None:
    one, other = map(CASES[0].make, CONSTANTS)
    found = untrace.divergence(one, other)(X)
    assert str(found.operands[1]) == "1.0 against 1.2"
    assert found.operands[0].name == "y"
    assert found.operands[0].value.shape == (6,)


# ---- another type --------------------------------------------------------------------


def test_cancellation_is_found_in_double_precision() -> None:
    x = 1000.0 + jnp.arange(8.0) / 3
    found = untrace.divergence(variance, dtype="float64")(x)
    assert found.first is not None
    assert (found.first.name, found.first.equation.primitive.name) == (
        "difference",
        "sub",
    )
    assert found.first.distance.rel > 0.1
    assert found.sides == ("float32", "float64")
    true = np.var(np.asarray(x, np.float64))
    assert np.isclose(found.first.distance.other, true, rtol=1e-5)


def test_overflow_is_found_in_double_precision() -> None:
    found = untrace.divergence(logsumexp, dtype="float64")(jnp.array([90.0, 1.0]))
    assert found.first is not None and found.first.equation.primitive.name == "exp"
    assert str(found.first.distance.value) == "inf"
    assert found.first.distance.index == (0,)


def test_stable_programs_do_not_part_in_double_precision() -> None:
    def stable(x):
        return jnp.var(x), jax.nn.logsumexp(x)

    find = untrace.divergence(stable, dtype="float64", rtol=1e-4)
    found = find(1000.0 + jnp.arange(8.0) / 3)
    assert found.first is None
    assert any(row.distance.n_other for row in found.rows)


def test_random_numbers_integers_and_keys_stay_the_same_in_double_precision() -> None:
    def f(key, x):
        one, other = jax.random.split(key)
        noise = jax.random.normal(one, (4,)) + jax.random.uniform(other, (4,))
        index = jax.random.randint(key, (4,), 0, 4)
        order = jax.random.permutation(key, 4)
        return noise[index] * x, order, jax.random.fold_in(key, 3)

    for key in (jax.random.key(0), jax.random.PRNGKey(0)):
        found = untrace.divergence(f, dtype="float64")(key, 2.0)
        assert found.first is None
        exact = [row for row in found.rows if row.distance.ulps is None]
        assert exact and not any(row.distance.n_other for row in exact)


def test_derivatives_loops_and_scatters_run_in_double_precision() -> None:
    def loss(w, x):
        @jax.checkpoint
        def layer(h, w):
            return jnp.tanh(h @ w) * jax.nn.gelu(h), None

        h, _ = jax.lax.scan(layer, x, w)
        h = h.at[0].add(2.0).at[1, 2].set(0.5)
        return jnp.mean(jax.nn.logsumexp(h, axis=-1)) + jax.lax.reduce(
            h, -jnp.inf, jax.lax.max, (0, 1)
        )

    w = jax.random.normal(jax.random.key(0), (3, 8, 8))
    x = jax.random.normal(jax.random.key(1), (4, 8))
    found = untrace.divergence(jax.grad(loss), dtype="float64", rtol=1e-4)(w, x)
    assert found.first is None and not found.notes
    with jax.enable_x64(True):
        wide = jax.grad(loss)(w.astype("float64"), x.astype("float64"))
    last = found.results[0]
    assert last.other_type == "f64[3,8,8]"
    assert np.isclose(last.distance.other, wide[last.distance.index], rtol=1e-9)


def test_narrower_types_and_linear_algebra_are_computed_or_said_not_to_be() -> None:
    def f(x):
        a = jnp.outer(x, x) + jnp.eye(6)
        return jnp.linalg.cholesky(a) @ x

    assert untrace.divergence(f, dtype="float64")(X).first is None
    found = untrace.divergence(f, dtype="bfloat16", rtol=0.2)(X)
    assert any("`cholesky`" in note for note in found.notes)
    assert untrace.divergence(f, dtype=jnp.bfloat16, rtol=1e-5)(X).first is not None


def test_mutable_arrays_are_as_they_were() -> None:
    def f(ref, x):
        ref[...] += jnp.sin(x)
        return ref[...] * 2.0

    two_devices = {"devices": ("cpu:0", "cpu:1")}
    for options in ({}, {"dtype": "float64"}, {"devices": ("cpu", "cpu")}, two_devices):
        ref = jax.new_ref(jnp.ones(6))
        found = untrace.divergence(f, **options)(ref, X)
        assert found.first is None
        assert np.array_equal(ref[...], np.ones(6))


# ---- jitted, against op by op --------------------------------------------------------


def chain(x):
    y = x * 1.1
    z = y + 0.3

    def step(total, row):
        grown = jax.lax.cond(row > 1.0, lambda t: t * 0.9, jnp.sin, total)
        return grown + row, grown

    total, rows = jax.lax.scan(step, 0.5, z)

    def body(state):
        return state[0] + 1, jnp.cos(state[1])

    _, last = jax.lax.while_loop(lambda s: s[0] < 4, body, (0, total))
    return jnp.sum(rows) * last


def test_jitted_programs_are_seen_inside_and_agree_but_for_rounding() -> None:
    found = untrace.divergence(chain)(X)
    assert found.first is None, str(found)
    turns = {row.turn for row in found.rows}
    assert {"scan[0]/cond[0]", "scan[5]/cond[1]", "while[0]", "while[3]"} <= turns
    assert found.sides == ("op by op", "jitted")


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_jitted_programs_agree_but_for_rounding(case: Parting) -> None:
    found = untrace.divergence(case.make(1.0))(*case.args)
    assert found.first is None, str(found)


def test_results_of_jitted_programs_have_the_bits_of_jit() -> None:
    found = untrace.divergence(chain, rtol=0)(X)
    (row,) = found.results
    assert float(row.distance.value) == float(chain(X))
    assert float(row.distance.other) == float(jax.jit(chain)(X))


PLANTED = [
    ("sin", "scan[0]/cond[0]"),
    ("mul", ""),
    ("cos", "while[2]"),
    ("add", "scan[3]"),
    ("mul", "scan[4]/cond[1]"),
]


@pytest.mark.parametrize(("primitive", "turn"), PLANTED)
def test_what_is_computed_otherwise_op_by_op_is_found(
    primitive: str, turn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(step: Any, *operands: Any) -> Any:
        result = step.bind(*operands)
        here = "/".join(str(p) for p in step.path if p.part is not None)
        is_float = getattr(result, "dtype", None) == jnp.float32
        if is_float and step.name == primitive and here == turn:
            return result * 1.01
        return result

    monkeypatch.setattr(recording, "_computed", wrong)
    found = untrace.divergence(chain)(X)
    assert found.first is not None
    assert (found.first.equation.primitive.name, found.first.turn) == (primitive, turn)


def test_values_that_disturb_the_jitted_program_are_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from untrace.interpreters.diverging import compiled

    # Whatever is asked for together with a sine changes what is computed.
    def run(self: Any, places: Any) -> Any:
        outputs, seen = true_run(self, places)
        is_sine = any(equation in sines for _, equation in places)
        return [output + is_sine for output in outputs], seen

    jaxpr = jax.make_jaxpr(lambda x: jnp.cos(jnp.sin(x) * 2.0))(X)
    sines = {id(e) for e in jaxpr.jaxpr.eqns if e.primitive.name == "sin"}
    true_run = compiled.Compiled._run
    monkeypatch.setattr(compiled.Compiled, "_run", run)
    found = untrace.divergence(jaxpr)(X)
    assert [row.equation.primitive.name for row in found.rows] == ["mul", "cos"]
    assert "1 value of the jitted program could not be seen" in str(found)


# ---- devices -------------------------------------------------------------------------


def test_a_device_is_named_or_given() -> None:
    for devices in (("cpu", "cpu:0"), jax.devices("cpu")[:1] * 2):
        found = untrace.divergence(chain, devices=devices)(X)
        assert found.first is None and found.sides == ("cpu:0", "cpu:0")


@pytest.mark.skipif(len(jax.devices("cpu")) < 2, reason="needs two devices")
def test_two_devices_are_compared_wherever_arrays_are() -> None:
    away = jax.device_put(X, jax.devices("cpu")[1])
    for x, kept in ((X, away), (away, X)):
        found = untrace.divergence(
            lambda x, kept=kept: chain(x) + kept, devices=("cpu", "cpu:1")
        )(x)
        assert found.first is None and found.sides == ("cpu:0", "cpu:1")


# ---- what values may be --------------------------------------------------------------


def test_nans_are_equal_to_nans_alone() -> None:
    found = untrace.divergence(lambda x: jnp.log(x - 1.0), lambda x: jnp.log(x - 1.0))(
        X
    )
    assert found.first is None
    found = untrace.divergence(lambda x: jnp.log(x - 1), lambda x: jnp.log(abs(x - 1)))(
        X
    )
    assert found.first is not None
    assert found.first.distance.abs == np.inf


@pytest.mark.parametrize(
    ("one", "other", "n_beyond", "ulps"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0, 0.0),
        ([np.nan, np.inf], [np.nan, np.inf], 0, 0.0),
        ([np.nan, 1.0], [1.0, 1.0], 1, np.inf),
        ([np.inf], [-np.inf], 1, np.inf),
        ([np.inf], [3.0e38], 1, np.inf),
        ([0.0], [-0.0], 0, 0.0),
        ([1.0], [1.0 + 2.0**-23], 0, 1.0),
        ([1.0], [1.0 + 65 * 2.0**-23], 1, 65.0),
        ([1.0, 1e-6], [1.0, 1.1e-6], 0, None),
        ([1e-6], [1.1e-6], 1, None),
        ([0.0], [1e-30], 1, None),
    ],
)
def test_distances_of_floats(one: Any, other: Any, n_beyond: int, ulps: Any) -> None:
    values = np.asarray(one, np.float32), np.asarray(other, np.float32)
    found = distance(*values, Tolerance())
    assert found.n_beyond == n_beyond
    assert ulps is None or found.ulps == ulps


def test_distances_of_other_types() -> None:
    def far(one: Any, other: Any, tolerance: Tolerance | None = None) -> Any:
        return distance(np.asarray(one), np.asarray(other), tolerance or Tolerance())

    assert far(2**62, 2**62 + 1).n_beyond == 1
    assert far([True, False], [True, True]).index == (1,)
    assert far(1 + 2j, 1 + 2.001j).is_beyond
    assert not far(np.complex64(1 + 2j), np.complex64(1 + 2j) * (1 + 1e-7)).is_beyond
    half = np.asarray([1.0, 2.0], ml_dtypes.bfloat16)
    assert not far(half, half * np.asarray(1.01, ml_dtypes.bfloat16)).is_beyond
    assert far(half, half * 2).is_beyond
    assert far(np.float32(0.1), np.float64(0.1)).ulps < 1
    assert not far([], []).is_beyond
    assert not far(1.0, 1.01, Tolerance(rtol=0.0, atol=0.1)).is_beyond
    assert far(1.0, 1.2, Tolerance(rtol=0.0, atol=0.1)).is_beyond


def test_keys_are_compared_by_their_bits() -> None:
    def make(n: int) -> Any:
        return lambda key: jax.random.fold_in(key, n)

    assert untrace.divergence(make(1), make(1))(jax.random.key(0)).first is None
    found = untrace.divergence(make(1), make(2))(jax.random.key(0))
    assert found.first is not None


# ---- what it takes, and how it is shown ----------------------------------------------


def test_it_takes_what_the_other_tools_take() -> None:
    jaxpr = jax.make_jaxpr(chain)(X)
    traced = jax.jit(chain).trace(X)
    source = untrace.source(chain)(X)
    for program in (jaxpr, traced, jax.jit(chain)):
        assert untrace.divergence(program)(X).first is None
        assert untrace.divergence(program, chain)(X).first is None
    assert untrace.divergence(source)().first is None
    assert untrace.divergence(source, chain)(X).first is None


def test_training_steps_are_taken() -> None:
    found = untrace.divergence(in_step(0.1), dtype="float64")(PARAMS, X)
    assert found.first is None and len(found.results) == 2


@pytest.mark.parametrize(
    "options",
    [
        {"dtype": "int32"},
        {"dtype": "nothing"},
        {"dtype": 3.5},
        {"devices": "cpu"},
        {"devices": ("cpu",)},
        {"dtype": "float64", "devices": ("cpu", "cpu")},
        {"other": variance, "dtype": "float64"},
        {"rtol": -1.0},
        {"atol": float("nan")},
    ],
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w+ .*[.:]"):
        untrace.divergence(variance, **options)


def test_bad_calls_are_refused() -> None:
    with pytest.raises(CallError, match="while JAX traces"):
        jax.jit(lambda x: untrace.divergence(variance)(x).first)(X)
    with pytest.raises(CallError, match="there is no platform 'abacus'"):
        untrace.divergence(variance, devices=("cpu", "abacus"))(X)
    with pytest.raises(CallError, match="there is no device 'cpu:99'"):
        untrace.divergence(variance, devices=("cpu", "cpu:99"))(X)
    with pytest.raises(CallError, match="no device"):
        untrace.divergence(variance, devices=("cpu", 3))(X)
    with pytest.raises(CallError, match="ask for another"):
        untrace.divergence(variance, dtype="float32")(X)
    with pytest.raises(CallError, match="types alone"):
        untrace.divergence(variance)(jax.ShapeDtypeStruct((3,), jnp.float32))
    with pytest.raises(TypeError, match="neither true nor false"):
        bool(untrace.divergence(variance)(X))


def drawn(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def test_it_is_drawn_and_shown(tmp_path: Path) -> None:
    found = untrace.divergence(variance, dtype="float64")(1000.0 + jnp.arange(8.0) / 3)
    svg = found.plot(tmp_path / "growth.svg")
    assert (tmp_path / "growth.svg").read_text() == svg
    root = drawn(svg)
    circles = [e for e in root.iter() if e.tag.endswith("circle")]
    assert len(circles) == len(found.rows) + 1
    assert svg in found._repr_html_()
    assert "part at `difference`" in repr(found)
    with pytest.raises(SaveError, match="Give a path in a folder that exists"):
        found.plot(tmp_path / "missing" / "growth.svg")


def test_infinite_and_no_errors_are_drawn() -> None:
    for x in ([90.0, 1.0], [2.0, 1.0]):
        drawn(untrace.divergence(logsumexp, dtype="float64")(jnp.array(x)).plot())
    same = untrace.divergence(variance, variance)(X)
    drawn(same.plot())
    assert "all equal" in str(same)
    empty = untrace.divergence(lambda x: x, lambda x: x)(X)
    drawn(empty.plot())
    assert empty.first is None and "No value but the results" in str(empty)


def test_long_runs_are_shown_in_few_lines() -> None:
    def f(x):
        return jax.lax.fori_loop(0, 400, lambda i, y: y * 1.01 + 0.1, x)

    found = untrace.divergence(f, dtype="float64", rtol=1e-9)(X)
    assert len(found.rows) > 800
    assert len(str(found).splitlines()) < 100
    assert found.plot().count("<circle") <= 602


def test_hostile_names_are_shown_and_not_sent() -> None:
    for text in map(str.__str__, STRINGS[::40]):

        def f(d: Any, key: str = text) -> Any:
            with jax.named_scope(key.encode("utf-8", "replace").decode()):
                return {key: jnp.log(jnp.sin(d[key]) - jnp.cos(d[key]) * 0.9999)}

        found = untrace.divergence(f, dtype="float64", rtol=0.0)({text: X})
        assert str(found).replace("\n", "").isprintable()
        drawn(found.plot())
        page = found._repr_html_()
        assert "<script" not in page


MODEL = """
import jax.numpy as jnp

def variance(x):
    return jnp.mean(x * x) - jnp.mean(x) ** 2

def other(x):
    return jnp.mean((x - jnp.mean(x)) ** 2)

x = 1000.0 + jnp.arange(8.0) / 3
"""


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)

    def run(*options: str) -> tuple[int, str]:
        done = CliRunner().invoke(
            main, ["divergence", "model.py", "variance(x)", *options]
        )
        return done.exit_code, done.stdout + done.stderr

    assert run("--tolerance", "1")[0] == 0
    assert run("--against", "variance(x)") == (
        0,
        "the first against the second: nothing differs beyond the tolerance.\n"
        "  7 values compared, all equal.\n",
    )
    status, said = run("--float64", "--plot", "growth.svg")
    assert status == 1 and "model.py:5 in `variance`" in said
    drawn(Path("growth.svg").read_text())
    assert run("--against", "other(x)")[0] == 1
    assert run("--devices", "cpu", "cpu:0")[0] == 0
    assert run("--devices", "cpu", "abacus")[0] == 2
    assert run("--float64", "--devices", "cpu", "cpu")[0] == 2
    assert run("--against", "other(")[0] == 2
    assert run("--rtol", "-1")[0] == 2


def test_mutable_arrays_that_are_closed_over_are_as_they_were() -> None:
    ref = jax.new_ref(jnp.ones(3))

    def f(x):
        ref[...] += x
        return ref[...]

    call = untrace.interpreters.called.tool(f, lambda call: call)(2.0)
    with runs.unchanged(call):
        ref[...] = jnp.zeros(3)
    assert np.array_equal(ref[...], np.ones(3))


# ---- memory --------------------------------------------------------------------------


def looping(x: Any) -> Any:
    def step(state: Any, row: Any) -> Any:
        state = jnp.sin(state) * 1.5 + row.sum().astype(jnp.bfloat16)
        return state, (state - jnp.exp(row)) > 0.1

    state, kept = jax.lax.scan(step, x[0], x)
    return jnp.where(kept, state, 1.0).sum() - 1e4 * (1.0 + state.sum() - state.sum())


@pytest.mark.parametrize("options", [{}, {"dtype": "float64"}])
def test_what_is_too_much_for_memory_is_kept_in_a_file(
    monkeypatch: pytest.MonkeyPatch, options: Any
) -> None:
    x = jnp.linspace(0.0, 1.0, 32).reshape(8, 4)
    whole = untrace.divergence(looping, **options)(x)
    monkeypatch.setattr(store, "MAX_BYTES", 64)
    in_file = untrace.divergence(looping, **options)(x)
    assert len(whole.rows) > 50 and str(in_file) == str(whole)
    assert [row.distance for row in in_file.rows] == [r.distance for r in whole.rows]


def test_values_that_are_in_a_file_are_read_as_they_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store, "MAX_BYTES", 100)
    kept = store.Store()
    dtypes = [np.float32, np.bool_, np.int64, jnp.bfloat16, np.complex64]
    arrays = [np.arange(24).reshape(2, 3, 4).T.astype(dtype) for dtype in dtypes]
    arrays += [np.float64(0.5).reshape(()), np.zeros((3, 0))]
    for array, read in [(a, kept.keep(a)) for a in arrays * 2]:
        assert (read.shape, read.dtype) == (array.shape, array.dtype)
        np.testing.assert_array_equal(read.array, array)


# ---- values of several precisions ------------------------------------------------------

W = jnp.linspace(-0.7, 0.9, 36).reshape(6, 6)


def mixed(x):
    """Products of halves that are summed in float32, as models compute them."""
    half, weights = x.astype(jnp.bfloat16), W.astype(jnp.bfloat16)
    product = jnp.dot(half, weights, preferred_element_type=jnp.float32)
    return jnp.tanh(product).astype(jnp.float32).sum()


def mixed_loop(x):
    def step(total, row):
        half = jnp.tanh(row).astype(jnp.bfloat16)
        return total * 0.5 + half.astype(jnp.float32), total

    _, totals = jax.lax.scan(step, jnp.float32(0.3), x)
    return totals.sum()


def mixed_branch(x):
    def rough(x):
        return jnp.sin(x.astype(jnp.bfloat16)).astype(jnp.float32)

    y = jax.jit(lambda x: jax.lax.cond(x[0] > 0, rough, jnp.cos, x))(x)

    def turn(state):
        return state[0] + 1, state[1] * y

    return jax.lax.while_loop(lambda state: state[0] < 3, turn, (0, x))[1].sum()


@pytest.mark.parametrize("f", [mixed, mixed_loop, mixed_branch])
def test_sums_of_halves_are_as_coarse_as_halves(f: Any) -> None:
    found = untrace.divergence(f, dtype="float64")(X)
    assert found.first is None, str(found)
    assert any(row.distance.n_other for row in found.rows)
    strict = untrace.divergence(f, dtype="float64", rtol=1e-6)(X)
    assert strict.first is not None


def test_true_differences_of_mixed_programs_are_found() -> None:
    def lost(x):
        half = (1000.0 + x).astype(jnp.bfloat16)
        return mixed(x) + (half.astype(jnp.float32) - 1000.0).sum()

    found = untrace.divergence(lost, dtype="float64")(X)
    assert found.first is not None and found.first.equation.primitive.name == "sub"


def test_truth_values_of_halves_make_nothing_coarse() -> None:
    def f(x):
        is_large = x.astype(jnp.bfloat16) > 0.5
        large = jnp.where(is_large, x, 0.1) + 300.0
        return large - 300.0

    found = untrace.divergence(f, dtype="float64")(X)
    assert found.first is not None and found.first.equation.primitive.name == "sub"


def test_tables_are_not_folded_in_text() -> None:
    def a_function_with_quite_a_long_name_for_a_function_of_a_test(x):
        def step(total_of_everything_until_now, row_of_the_array):
            total_of_everything_until_now = total_of_everything_until_now + jnp.sin(
                row_of_the_array
            )
            return total_of_everything_until_now, None

        return jax.lax.scan(step, jnp.float32(0.0), x)[0]

    f = a_function_with_quite_a_long_name_for_a_function_of_a_test
    found = untrace.divergence(f, dtype="float64", rtol=0.0)(X)
    for text in (str(untrace.watch(f)(X)), str(found).split("\n\n")[1]):
        rows = [line for line in text.splitlines() if "scan[" in line]
        assert len(rows) >= 2
        assert all("test_divergence.py:" in row and "f32[]" in row for row in rows)
