"""The search starts where the failure points."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

import untrace
from tests.reduction.programs import deep
from untrace.reduction.applying import program_from
from untrace.reduction.keeping import parse_keep
from untrace.reduction.outcome import Outcome
from untrace.reduction.passes.pointing import pointed_at
from untrace.reduction.search import Search
from untrace.reduction.trials import Judge


def test_the_equation_to_blame_is_tried_first():
    function, args = deep()
    made = untrace.reduce(function, keep="nan()")(*args)
    first = [step for step in made.history if step.pass_name == "start where it fails"]
    assert first[0].size.equations == 1
    assert made.stats.runs < 25


def test_messages_name_primitives():
    def function(x):
        return jnp.cumsum(jnp.sin(x)) + jax.jit(jnp.cos)(x) * jax.lax.erf(x)

    x = np.ones(3, np.float32)
    program = program_from(jax.make_jaxpr(function)(x), (x,), ("x",), "f")

    def named(message):
        found = pointed_at(program, (Outcome("raised", message=message),))
        return [[eqn.name for eqn in eqns] for eqns in found]

    assert named('in op_name="jit(f)/jit(main)/sin" and more') == [["sin"]]
    assert named("no rule for primitive 'erf'") == [["erf"]]
    assert named("it is a sin and an add") == []


def test_words_of_messages_may_hold_the_name_of_a_primitive():
    def function(x):
        return jax.lax.population_count(x) + jax.lax.add(x, x)

    x = np.ones(3, np.int32)
    program = program_from(jax.make_jaxpr(function)(x), (x,), ("x",), "f")
    for said in ("xla_population_count_kernel", "population-count.cc:21] CHECK failed"):
        found = pointed_at(program, (Outcome("died", stderr=f"add: {said}"),))
        assert [[e.name for e in eqns] for eqns in found] == [["population_count"]]


def test_what_is_not_compiled_by_jax_is_suspected_where_nothing_is_said():
    def function(x):
        x = jax.pure_callback(np.sin, x, jnp.cos(x))
        return jax.pure_callback(np.sin, x, x) + jnp.ones(3)

    x = np.ones(3, np.float32)
    program = program_from(jax.make_jaxpr(function)(x), (x,), ("x",), "f")
    found = list(pointed_at(program, (Outcome("died", stage="run"),)))
    assert [len(eqns) for eqns in found] == [1, 2]
    assert {eqn.name for eqns in found for eqn in eqns} == {"pure_callback"}
    assert not list(pointed_at(program, (Outcome("ok", stage="done"),)))


def test_values_do_not_matter_before_a_program_runs():
    jaxpr = jax.make_jaxpr(jnp.sin)(np.float32(0))
    one, other = (
        program_from(jaxpr, (np.float32(value),), ("x",), "f") for value in (1, 2)
    )
    early = Search(one, Judge(parse_keep("raises(stage='lower')")))
    late = Search(one, Judge(parse_keep("raises(stage='run')")))
    assert early.digest(one) == early.digest(other)
    assert late.digest(one) != late.digest(other)
    early.verdicts[early.digest(one)] = True
    smaller = replace(other, values=(np.float32(0),))
    assert early.first([smaller])
    assert early.stats.runs == 0
    assert early.best is smaller
