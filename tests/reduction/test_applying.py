"""Edits give programs that JAX itself traced, or none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from untrace import jaxapi
from untrace.ir import all_equations, sub_blocks
from untrace.reduction.applying import apply, program_from
from untrace.reduction.edits import Edits, Held, Opening
from untrace.reduction.program import Program
from untrace.verification.fingerprint import fingerprint


def program(function, *args) -> Program:
    leaves = jax.tree.leaves(args)
    names = [f"a{i}" for i in range(len(leaves))]
    return program_from(jax.make_jaxpr(function)(*args), leaves, names, "f")


def layer(h, w):
    return jax.nn.gelu(h @ w), jnp.sum(h)


def loss(ws, x):
    h, sums = jax.lax.scan(jax.checkpoint(layer), x, ws)
    total = jax.lax.cond(sums[0] > 0, lambda h: h.sum(), lambda h: h.mean(), h)
    return total + jnp.sum(jnp.where(sums.sum() > 0, h, -h))


def train_step():
    ws, x = np.ones((4, 8, 8), np.float32), np.ones((3, 8), np.float32)
    return program(jax.value_and_grad(loss), ws, x)


def run(p: Program):
    return jax.jit(jaxapi.as_function(p.block.jaxpr))(*p.values)


def names(p: Program):
    return [eqn.name for eqn in all_equations(p.block)]


def equations(p: Program, name: str):
    return [eqn for eqn in all_equations(p.block) if eqn.name == name]


def test_no_edits_change_nothing():
    p = train_step()
    same = apply(p, Edits())
    assert fingerprint(same.block.jaxpr) == fingerprint(p.block.jaxpr)
    assert same.names == p.names


@pytest.mark.parametrize("name", ["jit", "scan", "cond"])
def test_a_sub_program_is_evaluated_in_place(name):
    p = train_step()
    eqn = equations(p, name)[0]
    opened = apply(p, Edits(opened={eqn: Opening()}))
    assert names(opened).count(name) == names(p).count(name) - 1 + sum(
        inner.name == name for block in sub_blocks(eqn) for inner in block.equations
    )


def test_a_cut_value_is_an_input_that_holds_its_array():
    p = program(lambda x: jnp.sin(jnp.exp(x)) * 2, np.arange(3, dtype=np.float32))
    held = np.float32([1, 2, 3])
    cut = apply(p, Edits(replaced={p.block.equations[0].results[0]: Held(held)}))
    assert names(cut) == ["sin", "mul"]
    np.testing.assert_allclose(run(cut)[0], np.sin(held) * 2, rtol=1e-6)


def test_inside_a_loop_a_cut_value_is_a_constant():
    def f(x):
        return jax.lax.scan(lambda c, _: (jnp.sin(jnp.exp(c)), c), x, length=3)

    p = program(f, np.ones(3, np.float32))
    exp = equations(p, "exp")[0]
    cut = apply(p, Edits(replaced={exp.results[0]: Held(np.float32([1, 2, 3]))}))
    assert "exp" not in names(cut)
    np.testing.assert_allclose(run(cut)[0], np.sin(np.float32([1, 2, 3])), rtol=1e-6)


def test_a_bypassed_equation_is_gone():
    p = program(lambda x: jnp.sin(x) * 2, np.ones(3, np.float32))
    sin = p.block.equations[0]
    assert names(apply(p, Edits(replaced={sin.results[0]: sin.operands[0]}))) == ["mul"]


def test_types_of_what_follows_are_traced_again():
    p = program(lambda x, w: jnp.tanh(x @ w).sum(0), np.ones((4, 3)), np.ones((3, 2)))
    smaller = apply(p, Edits(inputs={p.block.inputs[0]: np.ones((1, 3), np.float32)}))
    assert smaller.block.inputs[0].aval.shape == (1, 3)
    assert equations(smaller, "tanh")[0].result_avals[0].shape == (1, 2)


def test_a_loop_that_no_longer_fits_is_no_program():
    p = program(lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c + 1.0, x), jnp.ones(3))
    add = equations(p, "add")[-1]
    assert (
        apply(p, Edits(replaced={add.results[0]: Held(np.ones(2, np.float32))})) is None
    )


def test_other_outputs_leave_dead_code_out():
    p = train_step()
    eqn = p.block.equations[2]
    short = apply(p, Edits(outputs=tuple(r for r in eqn.results if r is not None)))
    assert len(short.block.equations) < len(p.block.equations)


def test_constants_become_inputs():
    table = jnp.arange(5.0)
    p = program(lambda i: table[i], np.int32(2))
    assert any(np.shape(value) == (5,) for value in p.values)
