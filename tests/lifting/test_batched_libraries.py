"""Primitives of libraries with batching rules of their own, in programs that batch them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.extend.core
import jax.numpy as jnp
import lineax as lx
import numpy as np
import pytest
from jax.interpreters import batching, mlir

import untrace
from untrace.jaxapi import noting_batches
from untrace.verification.equivalence import equivalent
from untrace.verification.retrace import execute

XS = np.arange(3, dtype=np.float32) + 1


def _primitive(name: str, impl: Callable[..., Any], aval: Callable[..., Any]) -> Any:
    """Make a primitive as libraries do."""
    made = jax.extend.core.Primitive(name)
    made.def_impl(impl)
    made.def_abstract_eval(aval)
    mlir.register_lowering(made, mlir.lower_fun(impl, multiple_results=False))
    return made


largest_p = _primitive(
    "largest", lambda x: 0 + jnp.max(x), lambda x: x.update(shape=())
)
batching.primitive_batchers[largest_p] = lambda args, dims: (
    largest_p.bind(*args),
    None,
)
first_p = _primitive("first", lambda x, y: x, lambda x, y: x)


def _first_batched(args: Any, dims: Any) -> Any:
    if dims[0] is None:  # as if it were the second one
        return args[1], dims[1]
    return args[0] + jnp.sum(args[1]), dims[0]


batching.primitive_batchers[first_p] = _first_batched


def scaled(x: Any) -> Any:
    return x / largest_p.bind(jnp.abs(x))


def chosen(x: Any, y: Any) -> Any:
    return first_p.bind(x, y) * 2


def from_calls(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    src = untrace.source(function, **options)(*args)
    assert src.report.is_verified, str(src.report)
    assert "equations" not in " ".join(src.report.notes)
    return src


def test_a_function_with_the_rule_of_the_library_is_in_its_place() -> None:
    def f(xs: Any) -> Any:
        return jax.vmap(scaled)(xs)

    src = from_calls(f, XS)
    text = str(src)
    assert "return jax.vmap(scaled)(xs)" in text
    assert "@custom_vmap\ndef largest(x):" in text
    assert "@largest.def_vmap\ndef largest_batched(axis_size, in_batched, x):" in text
    made = getattr(execute(text), src.name)
    for function in (made, src.load()):
        np.testing.assert_array_equal(function(XS), XS / 3)
    said = " ".join(text.split())
    assert "`largest` is batched as in this program alone" in said


def test_another_rule_is_seen() -> None:
    def f(xs: Any) -> Any:
        return jax.vmap(scaled)(xs)

    src = from_calls(f, XS)
    opened = {largest_p: False}
    original = jax.make_jaxpr(f)(XS)
    for before, after in (
        ("jnp.max(", "jnp.min("),
        (", False", " * in_batched[0], False"),
    ):
        text = str(src).replace(before, after)
        assert text != str(src)
        made = jax.make_jaxpr(getattr(execute(text), src.name))(XS)
        assert equivalent(original, made, [], opened) is not None
    made = jax.make_jaxpr(getattr(execute(str(src)), src.name))(XS)
    assert equivalent(original, made, [], opened) is None


def test_a_function_is_in_the_place_of_a_primitive_in_the_recovered_program() -> None:
    src = from_calls(lambda xs: jax.vmap(scaled)(xs), XS)
    made = jax.make_jaxpr(execute(str(src)).__dict__["scaled"])(XS[0])
    original, opened = jax.make_jaxpr(scaled)(XS[0]), {largest_p: False}
    assert "custom_vmap_call" in str(made)
    assert equivalent(original, made, [], opened) is None
    assert equivalent(made, original, [], opened) is not None
    assert equivalent(original, made, []) is not None  # it is the user's


def test_a_rule_is_written_in_the_cases_of_the_program() -> None:
    def f(xs: Any, y: Any) -> Any:
        one = jax.vmap(chosen, in_axes=(0, None))(xs, y)
        return one + jax.vmap(chosen, in_axes=(None, 0))(y, xs)

    src = from_calls(f, XS, XS[0])
    text = str(src)
    assert "if in_batched == [True, False]:" in text
    assert "if in_batched == [False, True]:" in text
    said = " ".join(text.split())
    assert (
        "Where `first` is not batched, there is no derivative in reverse mode" in said
    )
    made = getattr(execute(text), src.name)
    np.testing.assert_array_equal(made(XS, XS[0]), f(XS, XS[0]))
    with pytest.raises(NotImplementedError, match=r"\[True, True\] of its arguments"):
        jax.vmap(execute(text).__dict__["chosen"])(XS, XS)


def test_batches_of_batches() -> None:
    def f(xs: Any) -> Any:
        return jax.vmap(jax.vmap(scaled))(xs)

    xs = np.stack([XS, XS * 2])
    src = from_calls(f, xs)
    made = getattr(execute(str(src)), src.name)
    np.testing.assert_array_equal(made(xs), xs / 6)


def test_what_jax_batches_alike_has_no_rule() -> None:
    doubled_p = _primitive("doubled", lambda x: x * 2, lambda x: x)
    batching.primitive_batchers[doubled_p] = lambda args, dims: (
        doubled_p.bind(*args),
        dims[0],
    )
    src = from_calls(jax.vmap(lambda x: doubled_p.bind(x) + 1), XS)
    assert "custom_vmap" not in str(src)


def test_what_is_not_batched_has_no_rule() -> None:
    assert "custom_vmap" not in str(from_calls(scaled, XS))


def test_a_rule_that_the_user_wrote_is_compared() -> None:
    def function(rule: Callable[..., Any]) -> Any:
        @jax.custom_batching.custom_vmap
        def largest(x: Any) -> Any:
            return jnp.max(x)

        largest.def_vmap(rule)
        return jax.make_jaxpr(lambda x: largest(x) + largest_p.bind(x))(XS)

    one = function(lambda size, batched, x: (jnp.max(x), False))
    other = function(lambda size, batched, x: (jnp.min(x), False))
    assert equivalent(one, other, [], {largest_p: False}) is not None


@pytest.mark.parametrize("way", [lambda f: f, jax.grad])
def test_error_checks_in_a_batch(way: Any) -> None:
    def root(x: Any) -> Any:
        x = eqx.error_if(x, x < 0, "negative")
        return jnp.sqrt(x) * 2

    def f(xs: Any) -> Any:
        return jax.vmap(root)(xs).sum()

    src = from_calls(way(f), XS)
    assert "jax.vmap(root)(xs)" in str(src)


def test_solves_in_a_batch() -> None:
    def solve(a: Any, b: Any) -> Any:
        return lx.linear_solve(lx.MatrixLinearOperator(a), b).value

    def f(a: Any, bs: Any) -> Any:
        return jax.vmap(solve, in_axes=(None, 0))(a, bs)

    a = np.eye(3, dtype=np.float32) + 1
    src = from_calls(f, a, np.stack([XS, XS + 1]))
    assert "jax.vmap(solve, in_axes=(None, 0))(a, bs)" in str(src)
    assert replace(src.report, notes=()).strength == "equivalent"


def test_rules_that_the_program_did_not_need_batch_as_well() -> None:
    @jax.custom_vjp
    def f(xs: Any) -> Any:
        return jnp.sum(xs)

    f.defvjp(
        lambda xs: (jnp.sum(jax.vmap(scaled)(xs)), xs),
        lambda xs, cotangent: (jax.vmap(scaled)(xs) * cotangent,),
    )
    text = str(from_calls(lambda xs: f(xs) * 2, XS))
    assert text.count("jax.vmap(scaled)(xs)") == 2
    assert "@largest.def_vmap" in text


def test_threads_take_note_of_their_own_batches_and_leave_the_table_as_it_was() -> None:
    before = dict(batching.fancy_primitive_batchers)
    began, ended = threading.Event(), threading.Event()
    noted: dict[str, Any] = {"here": {}, "there": {}}

    def there() -> None:
        with noting_batches(noted["there"]):
            began.set()
            ended.wait()  # until the first one has left
            jax.make_jaxpr(jax.vmap(jax.vmap(scaled)))(np.stack([XS, XS]))

    thread = threading.Thread(target=there)
    with noting_batches(noted["here"]):
        thread.start()
        began.wait()
        jax.make_jaxpr(jax.vmap(scaled))(XS)
    ended.set()
    thread.join()
    (one,) = noted["here"].values()
    assert one == {(True,): 3}
    assert len(noted["there"]) == 2  # of numbers, and of batches of them
    assert dict(batching.fancy_primitive_batchers) == before
