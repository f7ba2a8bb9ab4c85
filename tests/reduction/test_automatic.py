"""`auto()`: the failure that is named is the one that was meant."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untrace import jaxapi
from untrace.ir import all_equations
from untrace.reducing import reduce
from untrace.reduction.applying import program_from
from untrace.reduction.driver import Plan, pin
from untrace.reduction.keeping.automatic import Auto
from untrace.reduction.keeping.values import Inf
from untrace.reduction.losses import pinned_loss
from untrace.reduction.program import Program


def refuse(x):
    raise ValueError(f"{float(x[0])} of {len(x)} is too much")


def program(function, *values) -> Program:
    jaxpr = jax.make_jaxpr(function)(*values)
    return program_from(jaxpr, values, ["x"] * len(values), "f")


def test_what_only_the_compiler_does_is_found_and_kept():
    x, y = np.float32(1.1), np.float32(0.3)
    rounded = program(lambda x, y, z: x * y - z, x, y, x * y)
    assert str(pin(rounded, Auto(), Plan()).keep).startswith("differs(")


def test_rounding_of_16_bits_is_no_difference():
    half = program(lambda x: x * 3, jnp.ones(3, jnp.bfloat16))
    whole = program(lambda x: x * 3, np.ones(3, np.float32))
    assert Auto().otherwise(half).rtol > 10 * Auto().otherwise(whole).rtol


def test_a_nan_of_the_compiler_alone_asks_to_run_op_by_op_as_well():
    pinned, _ = Auto().closer(Inf(blame="exp", inf_inputs=False))
    assert str(pinned) == "inf(jit_only=True, inf_inputs=False)"


def test_a_number_that_is_too_small_for_its_type_stays_so(tmp_path):
    def likelihood(p, q):
        return jnp.log(jnp.sum(p * q) + 0.0), jnp.tanh(q)

    p, q = np.full(3, 1e-20, np.float32), np.full(3, 2e-25, np.float32)
    made = reduce(likelihood, keep="auto()")(p, q)
    assert str(made.keep).startswith("inf(narrow_only=True, blame='log'")
    assert [eqn.name for eqn in all_equations(made.program.block)][-1] == "log"
    assert made.n_equations == 2
    text = made.save(tmp_path / "repro.py").read_text()
    assert "but not in 64 bits" in text
    assert subprocess.run([sys.executable, tmp_path / "repro.py"]).returncode == 1


def loss(x, y):
    return jnp.sqrt(jnp.sum((x - y) ** 2)), x


@jax.jit
def step(x, y):
    _, gradient = jax.value_and_grad(loss, has_aux=True)(x, y)
    return x - 0.1 * gradient


def test_a_backward_pass_that_fails_leads_to_its_loss():
    x = np.ones(2, np.float32)
    found = pinned_loss(
        Auto(), Inf(), lambda: program(jaxapi.loss_of(step), x, x), Plan()
    )
    assert found is not None
    assert str(found.pinned.keep) == (
        "nan(under='grad', blame='div', inf_inputs=False, finite_values=True)"
    )


def test_a_loss_that_fails_by_itself_is_reduced_without_its_gradient():
    def similarity(x, y):
        return jnp.sum(x / jnp.sqrt(y * y))

    def learn(x, y):
        value, slope = jax.value_and_grad(similarity)(x, y)
        return value, x - 0.1 * slope

    x, y = np.float32([1, 0]), np.float32([2, 0])
    made = reduce(learn, keep="auto()")(x, y)
    assert [eqn.name for eqn in all_equations(made.program.block)] == ["div"]
    assert "derivative" not in str(made.source)
    given = reduce(learn, keep="nan()")(x, y)
    assert not any("derivative" in note for note in given.notes)


def test_without_a_gradient_there_is_no_loss():
    with pytest.raises(LookupError, match="nothing is differentiated"):
        jaxapi.loss_of(jnp.sin)(1.0)


def test_the_loss_of_a_step_is_what_it_differentiates():
    x = np.full(2, 3.0, np.float32)
    assert jaxapi.loss_of(step)(x, 0 * x) == loss(x, 0 * x)[0]
    assert np.isfinite(step(x, 0 * x)).all()


def test_what_fails_is_told_before_other_inputs_are_looked_for():
    seen = []
    shrink = reduce(
        lambda x: jnp.log(x - 2.0),
        keep="auto()",
        notify=lambda kind, facts: seen.append((kind, facts.get("name"), facts)),
    )
    shrink(np.float32(1))
    events = [(kind, name) for kind, name, _ in seen]
    looking = ("stage", "look for inputs with which it is fine")
    assert events.index(("found", None)) < events.index(looking)
    assert events[0] == ("stage", "run the original")
    told = next(facts for kind, _, facts in seen if kind == "found")
    assert "first made by `log`" in told["description"]


def test_what_is_raised_is_told_in_its_own_words():
    seen = {}
    x = jnp.ones(3)
    shrink = reduce(
        lambda x: jnp.sin(jax.pure_callback(refuse, x, x) * 2),
        keep="auto()",
        notify=lambda kind, facts: seen.setdefault(kind, facts),
    )
    shrink(x)
    assert "1.0 of 3 is too much" in seen["found"]["description"]
    assert seen["pinned"]["description"] == seen["found"]["description"]
