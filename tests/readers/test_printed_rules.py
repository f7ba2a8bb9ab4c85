"""The rule of a call is that of the function of JAX which traces to what is printed."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy import special

import untrace
from untrace import parse
from untrace.verification.compare import compare

X = np.linspace(0.5, 2.0, 6, dtype=np.float32).reshape(2, 3)

KNOWN = {
    "a batch": (jax.vmap(special.xlogy), X, X),
    "a batch of one operand": (jax.vmap(special.xlogy, (0, None)), X, X[0]),
    "a batch along another axis": (jax.vmap(special.log_ndtr, 1, 1), X),
    "a batch of batches": (jax.vmap(jax.vmap(special.log_ndtr)), X),
    "a number beside the operand": (jnp.sinc, X),
    "settings with defaults": (jnp.linalg.pinv, X),
}


@pytest.mark.parametrize("name", KNOWN)
def test_rules_of_functions_of_jax_are_known(name):
    function, *args = KNOWN[name]
    jaxpr = jax.make_jaxpr(function)(*args)
    found = parse(str(jaxpr))
    assert compare(jaxpr, found) is None, compare(jaxpr, found)


@pytest.mark.parametrize("axis", [-1, 0])
def test_the_axis_of_a_softmax_is_found(axis):
    softmax = functools.partial(jax.nn.softmax, axis=axis)
    with jax.softmax_custom_jvp(True):
        jaxpr = jax.make_jaxpr(softmax)(X)
        assert jaxpr.eqns[0].primitive.name == "custom_jvp_call"
        assert compare(jaxpr, parse(str(jaxpr))) is None


def test_a_rule_that_may_be_one_of_several_is_not_known():
    slope = jax.grad(lambda x: jnp.sinc(x).sum())  # zero for all odd derivatives at 0
    text = str(jax.make_jaxpr(slope)(X))
    if "_sinc_maclaurin" not in text:
        pytest.skip("`jnp.sinc` has no rule of its own any more")
    function = untrace.load(text)
    np.testing.assert_array_equal(function(X), jax.jit(slope)(X))
    with pytest.raises(untrace.LoadError, match="derivative of `_sinc_maclaurin`"):
        jax.grad(lambda x: function(x).sum())(X)
