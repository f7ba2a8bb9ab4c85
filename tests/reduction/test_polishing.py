"""The file that is left reads as if a person had written it."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import primitives

import untrace
from untrace import keep
from untrace.reduction.applying import program_from
from untrace.reduction.reproducer import Story, reproducer
from untrace.reduction.sizes import digits
from untrace.reduction.trials import Judge

X = np.float32([[2, 0], [0, 2]])


def test_a_public_call_stands_for_a_primitive(tmp_path):
    def program(x):
        x = jnp.sin(x) + 3 * jnp.eye(2)
        return jax.lax.linalg.cholesky(x, symmetrize_input=False) * 2

    made = untrace.reduce(program, keep="contains('cholesky')")(X)
    text = str(made.source)
    assert "bind(" not in text
    assert "cholesky(x" in text
    assert "test_polishing.py" in text  # the line it comes from
    path = made.save(tmp_path / "repro.py")
    done = subprocess.run([sys.executable, path], capture_output=True, text=True)
    assert done.returncode == 1
    assert "the program contains" in done.stderr


def test_numbers_have_one_digit():
    assert [digits(x) for x in (-100.0, 0.25, np.float32(0.1), 7, -156.75)] == [
        *(1, 2, 1, 1),
        5,
    ]

    def program(x):
        return jnp.exp(x * 13.37)

    made = untrace.reduce(program, keep="inf()")(np.float32(156.79665))
    held = [float(x) for x in made.args]
    assert [x for x in held if digits(x) > 1] == []


def test_large_inputs_are_drawn_where_the_failure_does_not_need_theirs():
    x = np.random.default_rng(1).normal(size=400).astype(np.float32)
    jaxpr = jax.make_jaxpr(jnp.sort)(x)
    program = program_from(jaxpr, (x,), ("x",), "f")
    predicate = keep.contains("sort")
    story = Story("f", 1)
    source, found = reproducer(program, predicate, story, Judge(predicate))
    assert not source.module.stored
    assert "rng" in str(source)
    assert not np.array_equal(found.values[0], x)
    needed = Judge(predicate & keep.inf())  # which it does not show
    assert reproducer(program, predicate, story, needed)[0].module.stored


def test_scatters_of_single_numbers_are_written_as_updates():
    def largest(x, i):
        return jnp.tanh(x).at[i].add(x[:4] * 3)

    x, i = np.arange(10, dtype=np.float32), np.array([0, 3, 3, 2])
    program = program_from(jax.make_jaxpr(largest)(x, i), (x, i), ("x", "i"), "f")
    story = Story("f", 1)

    predicate = keep.check("outputs[0].max() > 9")
    text = str(reproducer(program, predicate, story, Judge(predicate))[0])
    assert ".at[" in text and ".add(" in text
    assert "ScatterDimensionNumbers" not in text


def test_64_bits_are_not_enabled_for_32():
    with jax.enable_x64(True):
        wide = np.float64(800)
        jaxpr = jax.make_jaxpr(lambda x: jnp.cosh(x) / jnp.sinh(x))(np.float32(wide))
        program = program_from(jaxpr, (np.float32(wide),), ("x",), "f")
        predicate = keep.nan()
        story = Story("f", 1)
        source, _ = reproducer(program, predicate, story, Judge(predicate))
        assert "enable_x64" not in str(source)
        jaxpr = jax.make_jaxpr(lambda x: jnp.cosh(x) / jnp.sinh(x))(wide)
        program = program_from(jaxpr, (wide,), ("x",), "f")
        source, _ = reproducer(program, predicate, story, Judge(predicate))
        assert "enable_x64" in str(source)


def test_settings_that_a_failure_does_not_need_are_left_out():
    with jax.default_matmul_precision("highest"), jax.numpy_rank_promotion("raise"):
        made = untrace.reduce(lambda x: jnp.sqrt(x @ x - 9), keep="nan()")(X[0])
    assert "tracing_context" not in str(made.source)


def test_a_failure_that_does_not_always_show_says_so():
    jaxpr = jax.make_jaxpr(jnp.log)(np.float32(-1))
    program = program_from(jaxpr, (np.float32(-1),), ("x",), "f")
    story = Story("f", 1, rate=1 / 3)
    predicate = keep.nan()
    source, _ = reproducer(program, predicate, story, Judge(predicate))
    assert "It failed in 33% of the runs." in source.title


def test_updates_of_constants_at_constant_places_are_short():
    def sorted_levels():
        levels = jnp.full(5, 0.5).at[0].set(0.1, unique_indices=True)
        return jax.lax.sort((levels,), dimension=0)

    program = program_from(jax.make_jaxpr(sorted_levels)(), (), (), "f")
    story = Story("f", 1)

    def written(predicate):
        return str(reproducer(program, predicate, story, Judge(predicate))[0])

    text = written(keep.check("outputs[0][0] < 0.2"))
    assert "ScatterDimensionNumbers" not in text
    assert "    return jnp.sort(" in text
    assert len(text.splitlines()) < 35


@pytest.mark.parametrize("n_branches", [2, 3])
def test_choices_by_an_index_are_calls(n_branches):
    branches = [jnp.log, jnp.sin, jnp.cos][:n_branches]

    def chosen(i, x):
        (cond,) = jax.make_jaxpr(lambda i, x: jax.lax.switch(i, branches, x))(
            i, x
        ).eqns[-1:]
        return cond.primitive.bind(i, x, **cond.params)[0]

    values = (np.int32(0), np.float32(-1))
    program = program_from(jax.make_jaxpr(chosen)(*values), values, ("i", "x"), "f")
    predicate = keep.nan()
    text = str(reproducer(program, predicate, Story("f", 1), Judge(predicate))[0])
    assert "cond_p" not in text and "jaxpr" not in text
    assert ("jax.lax.cond(" if n_branches == 2 else "jax.lax.switch(") in text


@pytest.mark.parametrize(
    ("primitive", "params", "call"),
    [
        ("cbrt", {}, "jnp.cbrt(x)"),
        ("copy", {}, "jnp.copy(x)"),
        (
            "fft",
            dict(fft_type=jax.lax.FftType.RFFT, fft_lengths=(2,)),
            "jnp.fft.rfft(x)",
        ),
        (
            "reduce_window_max",
            dict(
                **dict.fromkeys(("window_dimensions", "window_strides"), (2, 1)),
                **dict.fromkeys(("base_dilation", "window_dilation"), (1, 1)),
                padding=((0, 0), (0, 0)),
            ),
            "jax.lax.reduce_window(x, -jnp.inf, jax.lax.max,",
        ),
    ],
)
def test_primitives_have_the_function_of_their_name(primitive, params, call):
    bound = getattr(primitives, f"{primitive}_p").bind
    program = program_from(
        jax.make_jaxpr(lambda x: bound(x, **params))(X), (X,), ("x",), "f"
    )
    predicate = keep.contains(primitive)
    text = str(reproducer(program, predicate, Story("f", 1), Judge(predicate))[0])
    assert call in text and "bind(x" not in text.replace("bound(x", "")
