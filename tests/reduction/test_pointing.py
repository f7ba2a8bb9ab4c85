"""The search starts where the failure points."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

import untrace
from tests.reduction.programs import deep
from untrace.ir import all_blocks
from untrace.reduction.applying import program_from
from untrace.reduction.keeping import parse_keep
from untrace.reduction.outcome import Outcome
from untrace.reduction.passes.pointing import aimed_at, pointed_at
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


def searched(function, keep, *args):
    names = [""] * len(args)
    program = program_from(jax.make_jaxpr(function)(*args), args, names, "f")
    return Search(program, Judge(parse_keep(keep)))


def test_a_predicate_that_names_primitives_points_at_them():
    def function(x):
        for _ in range(20):
            x = jnp.sin(jnp.cumsum(x) + 1)
        return jax.lax.top_k(x, 1)

    keep = "contains('top_k', 'cumsum')"
    made = untrace.reduce(function, keep=keep)(np.ones(3, np.float32))
    assert made.n_equations == 2
    assert made.stats.runs < 10


def test_what_cannot_fail_is_not_run():
    x = np.ones(3, np.float32)
    for keep in ("nan(blame='log')", "contains('log')", "raises()", "crashes()"):
        search = searched(lambda x: jnp.log(x) + 1, keep, x)
        nothing = program_from(jax.make_jaxpr(lambda x: x)(x), (x,), ("",), "f")
        assert not search.first([nothing])
        assert search.stats.runs == 0
    search = searched(lambda x: jnp.log(x) + 1, "nan(blame='log', under='grad')", x)
    assert not search.first(
        [program_from(jax.make_jaxpr(jnp.exp)(x), (x,), ("",), "f")]
    )
    assert search.stats.runs == 1  # the gradient may have primitives of its own


def test_the_same_candidate_twice_is_run_once():
    x = np.ones(3, np.float32)
    search = searched(lambda x: jnp.log(x) + 1, "raises()", x)
    jaxpr = jax.make_jaxpr(jnp.log)(x)
    assert not search.first([program_from(jaxpr, (x,), ("",), "f") for _ in range(3)])
    assert search.stats.runs == 1
    assert search.stats.duplicates == 2


def test_bodies_of_loops_are_searched_where_the_failure_points():
    def body(i, x):
        for _ in range(12):
            x = jnp.cos(x) + 1
        x = jax.lax.erf_inv(x)
        for _ in range(12):
            x = jnp.sin(x) * 2
        return x

    x = np.ones(3, np.float32)
    search = searched(lambda x: jax.lax.fori_loop(0, 3, body, x), "raises()", x)
    search.outcomes = (Outcome("raised", message="no rule for primitive 'erf_inv'"),)
    (block,) = (b for b in all_blocks(search.best.block) if len(b.equations) > 12)
    near = [[eqn.name for eqn in eqns] for eqns in aimed_at(search, block)]
    assert near[0] == ["erf_inv"]
    assert near[1] == ["add", "erf_inv"]


def test_messages_name_functions_that_make_loops():
    def function(x):
        return jax.lax.while_loop(lambda s: s < 3, lambda s: s * 2, jnp.sin(x))

    x = np.float32(1)
    program = program_from(jax.make_jaxpr(function)(x), (x,), ("x",), "f")
    said = "Reverse-mode differentiation does not work for lax.while_loop"
    found = pointed_at(program, (Outcome("raised", message=said),))
    assert [[eqn.name for eqn in eqns] for eqns in found] == [["while"]]
