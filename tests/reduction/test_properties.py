"""Random programs and random "contains these equations": satisfied and 1-minimal."""

import jax
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import untrace
from tests.corpus.test_random import N_EXAMPLES, SETTINGS, arguments, build, programs
from tests.reduction.minimality import removable
from untrace.ir import all_equations, from_jaxpr
from untrace.reduction.trials import Judge


@pytest.mark.filterwarnings("ignore")
@given(programs(), st.data())
@settings(SETTINGS, max_examples=max(N_EXAMPLES // 5, 1))
def test_result_contains_what_was_asked_and_nothing_to_spare(case, data):
    steps, types = case
    function, tree = build(steps, len(types)), arguments(types)
    try:
        jaxpr = jax.make_jaxpr(function)(tree)
    except (TypeError, ValueError, OverflowError):  # JAX refuses the combination
        assume(False)
    names = {eqn.name for eqn in all_equations(from_jaxpr(jaxpr))}
    assume(names)
    wanted = data.draw(st.lists(st.sampled_from(sorted(names)), min_size=1, max_size=3))
    keep = untrace.keep.contains(*dict.fromkeys(wanted))
    try:
        reduction = untrace.reduce(function, keep=keep)(tree)
    except untrace.KeepError:  # it was in dead code
        assume(False)
    left = [eqn.name for eqn in all_equations(reduction.program.block)]
    assert set(wanted) <= set(left)
    assert not removable(reduction.program, Judge(keep))
