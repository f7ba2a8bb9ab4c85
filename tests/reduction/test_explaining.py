"""The file says which equation fails, whence it comes, and what is usually done."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.reduction.applying import program_from
from untrace.reduction.explaining import explanation
from untrace.reduction.keeping.base import Blamed


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
    assert "Made by equation 0 of 1, `div`, from test_explaining.py:16" in text
    assert "in `loss`, in its derivative: root = jnp.sqrt(d)" in text
    assert "# root = jnp.sqrt(d) (test_explaining.py:16)" in text


def test_a_classic_trap_comes_with_its_mend(reduction):
    text = " ".join(str(reduction.source).split())
    assert "the derivative of a square root, and so of a norm, is infinite at 0" in text
    assert "Usual mend: keep away from 0" in text


def test_of_a_loss_the_gradient_is_explained():
    jaxpr = jax.make_jaxpr(loss)(np.float32(1))
    program = program_from(jaxpr, (np.float32(1),), ("x",), "loss")
    text = " ".join(explanation(program, Blamed("div", "grad")))
    assert "`div`, from test_explaining.py" in text
    assert "root = jnp.sqrt(d)" in text


def test_a_predicate_that_is_refused_proposes_the_one_that_holds():
    with pytest.raises(untrace.KeepError, match=r"is kept by nan\(\)"):
        untrace.reduce(lambda x: jnp.log(x), keep="crashes()")(np.float32(-1))


def test_nothing_fails_by_itself():
    with pytest.raises(untrace.KeepError, match="Nothing fails by itself"):
        untrace.reduce(lambda x: jnp.sin(x), keep="auto()")(np.float32(-1))
