"""What a loop gives is chosen so that little of the loop is needed."""

import jax
import jax.numpy as jnp
import numpy as np

import untrace
from untrace.ir import all_equations


def test_a_loop_gives_the_result_that_needs_least_of_it():
    def steps(y):
        def step(state):
            _, y, n = state
            return jnp.sum(y), jnp.sin(y), n + 1

        state = np.float32(0), y, 0
        return jax.lax.while_loop(lambda state: state[0] < 1, step, state)[2]

    keep = untrace.keep.contains("while", "sin")
    reduction = untrace.reduce(steps, keep=keep)(np.ones(3, np.float32))
    found = [eqn.name for eqn in all_equations(reduction.program.block)]
    assert found == ["while", "sin"]
