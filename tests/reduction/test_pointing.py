"""The search starts where the failure points."""

import jax
import jax.numpy as jnp
import numpy as np

import untrace
from tests.reduction.programs import deep
from untrace.reduction.applying import program_from
from untrace.reduction.outcome import Outcome
from untrace.reduction.passes.pointing import pointed_at


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
        return [eqn.name for eqn in found]

    assert named('in op_name="jit(f)/jit(main)/sin" and more') == ["sin"]
    assert named("no rule for primitive 'erf'") == ["erf"]
    assert named("it is a sin and an add") == []
