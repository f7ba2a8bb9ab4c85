"""Mutable arrays come back as the code that programmers write for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import untrace
from untrace import jaxapi
from untrace.errors import LiftingError

X = jnp.arange(4.0)


def reads_and_writes(x: Any, i: Any) -> Any:
    ref = jax.new_ref(x)
    ref[0] = 1.0
    ref[i] += 2.0
    ref[1:3] = x[:2]
    old = jax.ref.swap(ref, i, 3.0)
    jax.ref.addupdate(ref, slice(0, 2), jnp.ones(2))
    jax.ref.addupdate(ref, 2, 1.0)
    total = ref[...] + ref[:]
    ref[...] = jnp.zeros(4)
    return jax.freeze(ref) + old + total


def two_axes(i: Any, j: Any) -> Any:
    ref = jax.new_ref(jnp.zeros((4, 4)))
    ref[i, j] = 1.0
    ref[:, j] = ref[i]
    ref[:, ::2] = ref[:, :2]
    ref[pl.ds(i, 2), 1] = jnp.ones(2)
    ref.at[1:3].at[0][...] = ref.at[1:3][0]
    row = jax.ref.swap(ref, (i, slice(0, 2)), jnp.ones(2))
    picked = ref[jnp.array([0, 1])[:, None], jnp.array([1, 2])]
    return jax.freeze(ref), row, picked


def views(x: Any) -> Any:
    ref = jax.new_ref(x)
    ref.reshape(2, 2)[0] = jnp.ones(2)
    part = ref.at[0:2].reshape(1, 2)[...]
    return ref[...], part


def in_scan(x: Any) -> Any:
    total, out = jax.new_ref(jnp.zeros(())), jax.new_ref(jnp.zeros(5))

    def body(carry: Any, i: Any) -> Any:
        total[...] += carry
        out[i] = carry * 2.0
        return carry + 1.0, None

    carry, _ = jax.lax.scan(body, x, jnp.arange(5))
    return total[...], carry, out[...]


def in_loops(x: Any) -> Any:
    ref = jax.new_ref(x)

    def body(i: Any) -> Any:
        ref[i] = ref[i] + 1.0
        return i + 1

    jax.lax.while_loop(lambda i: i < 3, body, 0)
    jax.lax.fori_loop(0, 4, lambda i, _: ref.__setitem__(i, ref[i] * 2.0), None)
    return jax.freeze(ref)


def in_branches(flag: Any, x: Any) -> Any:
    ref = jax.new_ref(x)

    def first() -> None:
        ref[0] = 1.0

    jax.lax.cond(flag, first, lambda: None)
    return ref[...]


@jax.jit
def increment(ref: Any, x: Any) -> Any:
    ref[...] += x
    return ref[0]


def in_jit(x: Any) -> Any:
    ref = jax.new_ref(x)
    return increment(ref, x) + ref[...]


def empty_and_free() -> Any:
    ref = jax.empty_ref(jax.ShapeDtypeStruct((3,), jnp.float32))
    ref[...] = jnp.ones(3)
    value = ref[...]
    jax.free_ref(ref)
    return value


def run_state(x: Any, y: Any) -> Any:
    shift = jnp.sin(y)

    def body(refs: Any) -> None:
        a, b = refs
        a[...] = a[...] + b[...] + shift
        b[0] = 1.0

    return pl.run_state(body)((x, y))


def keeps_gradient(x: Any) -> Any:
    kept = jax.new_ref(jnp.zeros_like(x))

    @jax.custom_vjp
    def spy(ref: Any, x: Any) -> Any:
        return x

    def backward(ref: Any, cotangent: Any) -> Any:
        ref[...] = cotangent
        return None, cotangent

    spy.defvjp(lambda ref, x: (x, ref), backward)
    grad = jax.grad(lambda x: jnp.sin(spy(kept, x)).sum())(x)
    return grad, jax.freeze(kept)


def key_ref(key: Any) -> Any:
    ref = jax.new_ref(key)
    first, second = jax.random.split(ref[...])
    ref[...] = first
    return jax.random.normal(second)


PROGRAMS: dict[Callable[..., Any], tuple[Any, ...]] = {
    reads_and_writes: (X, 2),
    two_axes: (1, 2),
    in_scan: (1.0,),
    in_loops: (X,),
    in_branches: (True, X),
    in_jit: (X,),
    empty_and_free: (),
    run_state: (X, X),
    keeps_gradient: (X,),
    key_ref: (jax.random.key(0),),
    jax.vmap(in_loops): (jnp.ones((2, 4)),),
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_program_with_refs_is_identical_and_computes_the_same(program: Any) -> None:
    args = PROGRAMS[program]
    src = untrace.source(program, level="lax")(*args)
    assert src.report.strength == "identical", str(src)
    wanted, got = jax.jit(program)(*args), jax.jit(src.load())(*args)
    jax.tree.map(np.testing.assert_array_equal, wanted, got)


def test_views_are_written_as_attributes() -> None:
    # jax 0.10 traces views but does not run them.
    src = untrace.source(views, level="lax")(X)
    assert src.report.strength == "identical", str(src)
    assert ".reshape((2, 2))" in str(src)


def test_refs_read_as_programmers_write_them() -> None:
    text = str(untrace.source(reads_and_writes, level="lax")(X, 2))
    for line in (
        " = jax.new_ref(x)",
        "[1:3] = ",
        "jax.ref.addupdate(ref.at[:2], ..., ",
        "jax.freeze(ref)",
        "ref[...] = ",
    ):
        assert line in text


def test_writes_are_statements_in_the_order_of_their_equations() -> None:
    def writes(x: Any, n: Any) -> Any:
        ref = jax.new_ref(x)
        before = ref[...]
        ref[n + 1] = x[0] * 2
        ref[n * 2] -= (x[1] + 1) * 2
        ref[...] += before - -3.0
        jax.ref.addupdate(ref, 0, 1.0)
        return jax.freeze(ref), before

    src = untrace.source(writes)(X, jnp.int32(0))
    assert src.report.strength == "identical" and not src.report.notes, str(src)
    assert "ref[n + 1] = x[0] * 2" in str(src)
    assert "] -= (x[1] + 1) * 2" in str(src)
    assert "ref[...] += before - -3.0" in str(src)
    assert "jax.ref.addupdate(ref, 0, 1.0)" in str(src)


def test_ref_arguments_are_mutated_in_place() -> None:
    def step(refs: Any, x: Any) -> Any:
        refs["a"][...] += x
        return jax.ref.swap(refs["b"], ..., x)

    refs = {"a": jax.new_ref(X), "b": jax.new_ref(jnp.float32(0))}
    src = untrace.source(step, level="lax")(refs, 2.0)
    assert src.report.strength == "identical", str(src)
    jax.jit(src.load())(refs, 2.0)
    np.testing.assert_array_equal(refs["a"][...], X + 2)


def test_jaxpr_with_ref_inputs() -> None:
    jaxpr = jax.make_jaxpr(increment)(jax.new_ref(X), 1.0)
    src = untrace.source(jaxpr)
    assert src.report.strength == "identical", str(src)


def test_closed_over_ref_is_made_anew_and_named_in_the_report() -> None:
    counter = jax.new_ref(jnp.arange(3.0))

    def count(x: Any) -> Any:
        counter[...] += x
        return counter[0]

    src = untrace.source(count, level="lax")(1.0)
    assert src.report.strength == "identical", str(src)
    assert "= jax.new_ref(" in str(src)
    assert any("mutable array" in line for line in src.report.unproved)


def called(jaxpr: Any, *args: Any) -> Any:
    """The results of a jaxpr that stays a call: `closed_call`, later `eval_jaxpr`."""
    param = "jaxpr" if jax.__version_info__ < (0, 11) else "call_jaxpr"
    return jaxapi.EVAL_JAXPR.bind(*args, **{param: jaxpr})


@pytest.mark.parametrize("level", ["lax", "api"])
def test_call_over_a_mutable_array(level):
    ref = jax.new_ref(jnp.ones(3))

    def body(x: Any) -> Any:
        ref[...] = x * 2
        return x + ref[...]

    jaxpr = jax.make_jaxpr(body)(jnp.ones(3))
    src = untrace.source(lambda x: called(jaxpr, x), level=level)(jnp.ones(3))
    assert src.report.strength == "identical", str(src)


def test_call_over_a_mutable_array_of_the_trace_is_refused():
    def f(x: Any) -> Any:
        ref = jax.new_ref(x)

        def body(y: Any) -> Any:
            ref[...] = y * 2
            return ref[...]

        return called(jax.make_jaxpr(body)(x), x)

    with pytest.raises(LiftingError, match="of another trace"):
        untrace.source(f, level="lax")(jnp.ones(3))


def test_loops_of_writes_and_prints_are_loops() -> None:
    def written(xs):
        ref, h = jax.new_ref(jnp.zeros(4)), xs
        for i in range(4):
            h = jnp.tanh(h) + i
            ref[i] = h[i] * 2.0
            ref[...] += jnp.sin(ref[i])
            jax.debug.print("h {}", h)
        return h, ref[...]

    src = untrace.source(written)(jnp.ones(4))
    assert src.report.strength == "identical", str(src.report)
    lines = [line.strip() for line in str(src).splitlines()]
    start = lines.index("for i in range(4):")
    assert lines[start + 1 : start + 6] == [
        "h = jnp.tanh(h) + i",
        "ref[i] = h[i] * 2.0",
        "ref[...] += jnp.sin(ref[i])",
        'jax.debug.print("h {}", h)',
        "return h, ref[...]",
    ]
