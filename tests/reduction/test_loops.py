"""Loops that stand in what the failure needs are opened, and none is run for long."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.ir import Literal, all_blocks, all_equations
from untrace.reduction import values
from untrace.reduction.applying import apply, program_from
from untrace.reduction.edits import Edits, Opening
from untrace.reduction.trials import Judge

X = np.linspace(1.0, 2.0, 4, dtype=np.float32)


def scanned(x):
    return jax.lax.scan(lambda c, _: (jnp.sin(c) * 2, None), x, None, length=3)[0]


def branched(x):
    return jax.lax.cond(x[0] > 0, lambda x: x, lambda x: jnp.sin(x) * 2, x)


def mapped(x):
    return jax.lax.map(lambda row: jnp.sin(row * 2), x)


def repeated(body):
    def function(x):
        state = jax.lax.while_loop(
            lambda state: state[0] < 3,
            lambda state: (state[0] + 1, body(state[1])),
            (0, x),
        )
        return state[1]

    return function


@pytest.mark.parametrize("body", [scanned, branched])
def test_a_loop_in_a_loop_is_opened(body):
    keep = untrace.keep.contains("while", "sin")
    reduction = untrace.reduce(repeated(body), keep=keep)(X)
    found = [eqn.name for eqn in all_equations(reduction.program.block)]
    assert found == ["while", "sin"]
    assert reduction.stats.seconds < 30  # a loop without an end is not run


def test_a_loop_over_rows_goes_though_its_step_alone_is_larger():
    keep = untrace.keep.contains("while", "sin")
    reduction = untrace.reduce(repeated(mapped), keep=keep)(X)
    found = [eqn.name for eqn in all_equations(reduction.program.block)]
    assert found == ["while", "sin"]
    steps = [step.pass_name for step in reduction.history]
    assert "grow to shrink" in steps
    sizes = [step.size for step in reduction.history]
    assert sizes == sorted(sizes, reverse=True)


def test_a_recording_may_take_a_few_times_as_long_as_other_runs(monkeypatch):
    monkeypatch.setattr(values, "FAIR_S", 1.0)
    jaxpr = jax.make_jaxpr(
        lambda x: jax.lax.while_loop(lambda x: True, lambda x: x + 1, x)
    )(1.0)
    program = program_from(jaxpr, (1.0,), ("x",), "endless")
    judge = Judge(untrace.keep.nan(), longest_s=0.1)
    began = time.monotonic()
    assert values.evaluate(program, judge) is None
    assert time.monotonic() - began < 30
    assert judge.longest_s == 0.1


def counting(x):
    def step(state):
        index, value, other = state
        return index + 1, jnp.sin(value), other

    return jax.lax.while_loop(lambda state: state[0] < 0, step, (0, x, x))[:2]


def test_a_loop_that_public_functions_take_away_is_not_made():
    keep = untrace.keep.contains("while", "sin")
    text = str(untrace.reduce(counting, keep=keep)(X[0]).source)
    assert "jax.lax.while_loop(" in text and ".bind(" not in text


def test_a_step_that_is_opened_needs_nothing_for_its_rows():
    def step(carry, row):
        return carry + row, jnp.log(carry - row)

    def function(rows):
        scaled = jnp.sin(rows) * 3
        return jax.lax.scan(step, jnp.float32(1), scaled)[1]

    rows = np.linspace(0, 1, 5, dtype=np.float32)
    program = program_from(jax.make_jaxpr(function)(rows), (rows,), ("rows",), "f")
    (eqn,) = (eqn for eqn in program.block.equations if eqn.name == "scan")
    held = Opening(step=4, carry=(np.float32(1), np.float32(2)))
    opened = apply(program, Edits(opened={eqn: held}))
    assert opened is not None
    assert [eqn.name for eqn in opened.block.equations] == ["sub", "log"]
    assert [float(value) for value in opened.values] == [1.0, 2.0]
    summed = jax.make_jaxpr(lambda rows: function(rows).sum())(rows)
    read = program_from(summed, (rows,), ("rows",), "f")
    (eqn,) = (eqn for eqn in read.block.equations if eqn.name == "scan")
    opened = apply(read, Edits(opened={eqn: held}))
    assert opened is not None  # whose sum is that of an axis that is still there
    assert opened.block.equations[-1].name == "reduce_sum"


def test_a_loop_is_left_that_public_functions_make():
    def function(x, n):
        h = jax.lax.fori_loop(0, n, lambda i, h: jnp.sin(h) + i, jnp.tanh(x) * 3)
        return (h**2).sum()

    keep = untrace.keep.raises(under="grad")
    made = untrace.reduce(function, keep=keep)(X, np.int32(4))
    assert ".bind(" not in str(made.source)
    numbers = [
        atom.value
        for block in all_blocks(made.program.block)
        for atom in block.outputs
        if isinstance(atom, Literal)
    ]
    assert all(number in (0, 1) for number in numbers)  # in bodies as elsewhere
