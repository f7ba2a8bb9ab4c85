"""The file says which equation fails, whence it comes, and what is usually done."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.reduction.applying import program_from
from untrace.reduction.chains import chain
from untrace.reduction.driver import Plan, pin
from untrace.reduction.explaining import explanation
from untrace.reduction.keeping.values import Nan
from untrace.reduction.trials import Judge


def loss(x):
    d = x - 1.0
    root = jnp.sqrt(d)
    return root * 3.0


@pytest.fixture(scope="module")
def reduction():
    return untrace.reduce(jax.grad(loss), keep="inf()")(np.float32(1))


def test_what_fails_is_found_out_and_pinned(reduction):
    assert str(reduction.keep) == "inf(blame='div', inf_inputs=False)"


def test_the_equation_and_the_line_it_comes_from_are_named(reduction):
    text = " ".join(str(reduction.source).split())
    assert "Made by equation 0 of 1, `div`, from test_explaining.py:21" in text
    assert "in `loss`, in its derivative. " in text
    assert text.count("root = jnp.sqrt(d)") == 1  # beside the statement, not twice
    assert "# root = jnp.sqrt(d) (test_explaining.py:21)" in text


def test_a_classic_trap_comes_with_its_mend(reduction):
    text = " ".join(str(reduction.source).split())
    assert "the derivative of a square root, and so of a norm, is infinite at 0" in text
    assert "Usual mend: keep away from 0" in text


def masked(x):
    return jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0))


@pytest.mark.parametrize(
    ("function", "x", "primitive", "line", "mend"),
    [
        (loss, 1, "div", "root = jnp.sqrt(d)", "keep away from 0"),
        (masked, 0, "div", "jnp.where", "make the branch safe"),
        (masked, -1, "sqrt", "jnp.where", "make the branch safe"),
    ],
)
def test_of_a_loss_the_gradient_is_explained(function, x, primitive, line, mend):
    program = program_from(
        jax.make_jaxpr(function)(x := np.float32(x)), (x,), ("x",), "f"
    )
    kept = Nan(under="grad", blame=primitive)
    text = " ".join(map(str, explanation(program, kept, Judge(kept))))
    assert f"`{primitive}`, from test_explaining.py" in text
    assert line in text
    assert f"Usual mend: {mend}" in text


def test_a_gradient_that_fails_alone_is_not_exchanged_for_a_function_that_fails():
    x = (np.float32(-1),)
    whole, root = (
        program_from(jax.make_jaxpr(f)(*x), x, ("x",), "f") for f in (masked, jnp.sqrt)
    )
    kept = pin(whole, Nan(under="grad"), Plan()).keep
    assert str(kept) == (
        "nan(under='grad', blame='sqrt', inf_inputs=False, finite_values=True)"
    )
    assert "inputs and values are finite" in kept.describe()
    assert not Judge(kept).judge_program(root)
    assert Judge(replace(kept, finite_values=False)).judge_program(root)


def test_a_predicate_that_is_refused_proposes_the_one_that_holds():
    with pytest.raises(untrace.KeepError, match=r"is kept by nan\(\)"):
        untrace.reduce(lambda x: jnp.log(x), keep="crashes()")(np.float32(-1))


def test_nothing_fails_by_itself():
    with pytest.raises(untrace.KeepError, match="Nothing fails by itself"):
        untrace.reduce(lambda x: jnp.sin(x), keep="auto()")(np.float32(-1))


def test_where_none_is_to_blame_what_is_left_is_named():
    x = np.ones((2, 3), np.float32)
    jaxpr = jax.make_jaxpr(lambda x: jnp.sin(x.T))(x)
    program = program_from(jaxpr, (x,), ("x",), "f")
    (said,) = explanation(program, untrace.keep.raises(), None)
    assert str(said) == "It takes `transpose` and `sin`."


def cancelling(x):
    near = jnp.cos(x)
    gap = 1 - near
    return gap * 1e9


def contracted(a, b):
    return a * a - b


@pytest.mark.parametrize(
    ("function", "keep", "values", "told"),
    [
        (
            cancelling,
            untrace.keep.differs(b="float64", rtol=0.1),
            (1e-4,),
            "Made by equation 1 of 3, `sub`, from test_explaining.py:105 in "
            "`cancelling`: gap = 1 - near. Relative errors: `cos` 5e-09, `sub` 1. "
            "Why: large numbers cancel, and what is left are their rounding errors",
        ),
        (
            contracted,
            untrace.keep.differs(rtol=0.1),
            (1.0001, 1.0001 * 1.0001),
            "Made by equation 1 of 2, `sub`, from test_explaining.py:110 in "
            "`contracted`: return a * a - b. Relative errors: `mul` 0, `sub` ",
        ),
        (jnp.tanh, untrace.keep.differs(rtol=0.1), (1,), "It takes `tanh`."),
    ],
)
def test_the_equation_at_which_two_ways_part_is_named(function, keep, values, told):
    arrays = [np.float32(value) for value in values]
    jaxpr = jax.make_jaxpr(function)(*arrays)
    program = program_from(jaxpr, arrays, ("a", "b")[: len(arrays)], "f")
    assert told in " ".join(map(str, explanation(program, keep, Judge(keep))))


@pytest.mark.parametrize(
    ("function", "x", "primitive", "told"),
    [
        (
            lambda x: jnp.exp(x) / jnp.exp(x).sum(),
            np.full(2, 99.0),
            "exp",
            "x = 99, `exp` inf, `div` NaN",
        ),
        (
            lambda x: jnp.log(x[1] - 3),
            np.arange(3.0),
            "log",
            "`slice` 1, `squeeze` 1, `sub` -2, `log` NaN",
        ),
        (lambda x: jnp.log(x), np.float32(-1), "log", "x = -1, `log` NaN"),
        (
            lambda x: jnp.log(jax.random.normal(jax.random.key(0)) * x),
            np.float32(0),
            "log",
            "x = 0, `jit` 1.62, `mul` 0, `log` -inf",
        ),
        (lambda x: jnp.sin(x), np.float32(0), "log", None),
        (lambda x: jnp.log(x + 1), np.float32(0), "log", None),
        (
            lambda x: jnp.log(jnp.zeros(2)),
            np.float32(0),
            "log",
            "`broadcast_in_dim` 0, `log` -inf",
        ),
        # The second division, and what comes of it: nothing of the third.
        (
            lambda x: (x / 2 + 1 / x - 1 / x) * (4 / (x + 1)),
            np.float32(0),
            "div",
            "x = 0, `div` inf, `add` inf, `sub` NaN",
        ),
    ],
)
def test_the_values_that_lead_to_a_nan_are_told(function, x, primitive, told):
    x = np.asarray(x, np.float32)
    program = program_from(jax.make_jaxpr(function)(x), (x,), ("x",), "f")
    found = chain(program, primitive, Judge(untrace.keep.nan()))
    assert (found if found is None else found.told) == told


def test_a_loop_that_does_not_end_is_named():
    def f(x):
        y = jnp.sin(x) + jnp.cos(x) * jnp.tanh(x) - x
        return jax.lax.while_loop(lambda y: y < 9, lambda y: y * 1, y)

    x = (np.float32(1),)
    program = program_from(jax.make_jaxpr(f)(*x), x, ("x",), "f")
    (said,) = explanation(program, untrace.keep.hangs(), None)
    assert "takes the `while` that does not end, from test_explaining.py:" in str(said)


def test_what_was_cut_off_is_found_out_before_the_failure_is_pinned(monkeypatch):
    x = (np.float32(0),)
    program = program_from(jax.make_jaxpr(masked)(*x), x, ("x",), "f")
    run = Judge.run

    def hurried(judge, job):
        found = run(judge, job)
        if job.run.timeout_s > 60:
            return found
        return replace(found, blame=None, has_finite_values=None, is_cut=True)

    monkeypatch.setattr(Judge, "run", hurried)
    kept = pin(program, Nan(under="grad"), Plan()).keep
    assert "blame='div', inf_inputs=False, finite_values=True" in str(kept)


def test_a_program_that_was_not_reduced_is_not_run_to_be_explained():
    def f(x):
        for _ in range(600):
            x = jnp.sin(x)
        return jnp.log(x - 5.0)

    values = (np.float32(1),)
    whole = program_from(jax.make_jaxpr(f)(*values), values, ["x"], "f")
    said = explanation(whole, Nan(blame="log"), Judge(Nan(), executor=NoExecutor()))
    assert [str(x) for x in said if "`log`" in str(x)] and len(said) == 1


class NoExecutor:
    """Refuses to run anything."""

    def submit(self, *args):
        pytest.fail("it was run")
