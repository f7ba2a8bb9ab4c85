"""Calls of the host come back; what was not compared is said."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import checkify, io_callback
from jax.experimental.buffer_callback import buffer_callback

import untrace
from tests.lifting.host_functions import add_one, double
from untrace.checking import check_module as check
from untrace.verification.retrace import execute

X = jnp.arange(1.0, 4.0)
SEEN: list[Any] = []


def prints(x: Any, y: Any) -> Any:
    jax.debug.print("hi {x}", x=x)
    jax.debug.print("x = {x}, y = {}", y, x=x)
    jax.debug.print("{z[0]} {a:.3f}", z=[x, y], a=y, ordered=True)
    jax.debug.print("{s}", s='it\'s "quoted" \n')
    jax.debug.print("braces {{}} {0}", x)
    jax.debug.print("no placeholder", x, skip_format_check=True)
    jax.debug.print()("{ordered}", ordered=x)
    return x + y


def print_in_loops(x: Any) -> Any:
    def body(carry: Any, i: Any) -> Any:
        jax.debug.print("{i} {carry}", i=i, carry=carry)
        return carry + 1.0, None

    def positive(x: Any) -> Any:
        jax.debug.print("positive")
        return x

    carry, _ = jax.lax.scan(body, x, jnp.arange(3))
    return jax.lax.cond(carry > 0, positive, lambda x: x * 2, carry)


def pure(x: Any) -> Any:
    y = jax.pure_callback(double, x, x, vmap_method="expand_dims")
    z = jax.pure_callback(np.sin, x, x)
    return y + z + jax.pure_callback(functools.partial(np.add, 1.0), x, x)


def io(x: Any) -> Any:
    return io_callback(double, x, x, ordered=True) + io_callback(double, x, x)


def buffers(x: Any) -> Any:
    y = buffer_callback(add_one, jax.ShapeDtypeStruct.like(x))(x)
    named = buffer_callback(add_one, {"u": x, "v": [x]}, has_side_effect=True)(y)
    return y, named


def inspected(x: Any) -> Any:
    jax.debug.inspect_array_sharding(x, callback=print)
    jax.debug.callback(print, x, ordered=True)
    return x * 2


@jax.custom_jvp
def host_sine(x: Any) -> Any:
    return jax.pure_callback(np.sin, x, x)


@host_sine.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return host_sine(x), jax.pure_callback(np.cos, x, x) * t


def checked(x: Any, i: Any) -> Any:
    checkify.check(x > 0, "must be positive: {x}", x=x)
    checkify.debug_check(i > 0, "{}", i)
    return jnp.log(x)


def checked_scan(x: Any) -> Any:
    def body(carry: Any, y: Any) -> Any:
        checkify.check(y < 9, "too large: {y}", y=y)
        return carry + y, y

    return checkify.checkify(lambda x: jax.lax.scan(body, 0.0, x))(x)


PROGRAMS: dict[Any, tuple[Any, ...]] = {
    prints: (X, 2.0),
    print_in_loops: (1.0,),
    pure: (X,),
    io: (X,),
    buffers: (X,),
    inspected: (X,),
    host_sine: (X,),
    checked: (jnp.float32(1), 2),
    checkify.checkify(checked, errors=checkify.all_checks): (jnp.float32(1), 2),
    checked_scan: (X,),
    jax.vmap(lambda y: (jax.debug.print("y {}", y), y)[1]): (X,),
    jax.vmap(lambda y: jax.pure_callback(np.sin, y, y, vmap_method="sequential")): (X,),
    jax.grad(lambda x: host_sine(x).sum()): (X,),
    jax.grad(lambda x: (jax.debug.print("{}", x), jnp.sin(x))[1]): (1.0,),
}


@pytest.mark.parametrize(
    "program", PROGRAMS, ids=lambda f: getattr(f, "__name__", "program")
)
def test_program_that_calls_the_host_is_identical(program: Any) -> None:
    src = untrace.source(program, level="lax")(*PROGRAMS[program])
    assert src.report.strength == "identical", str(src)
    assert not any("stand-in" in line for line in src.report.unproved)


def test_debug_print_comes_back_as_it_was() -> None:
    text = str(untrace.source(prints, level="lax")(X, 2.0)).replace("'", '"')
    assert 'jax.debug.print("hi {x}", x=x)' in text
    assert 'jax.debug.print("x = {x}, y = {}", y, x=x)' in text
    assert 'jax.debug.print()("{ordered}", ordered=x)' in text


def test_importable_host_function_is_imported() -> None:
    text = str(untrace.source(pure, level="lax")(X))
    assert "from tests.lifting.host_functions import double" in text
    assert "np.sin" in text


def with_local_host_function(x: Any) -> Any:
    def local(x: Any, scale: Any) -> Any:
        return x * scale["by"]

    jax.debug.callback(SEEN.append, x)
    return jax.pure_callback(local, x, x, {"by": x[0]})


def test_stand_in_is_marked_and_named_in_the_report() -> None:
    src = untrace.source(with_local_host_function, level="lax")(X)
    assert src.report.strength == "identical", str(src)
    stand_ins = [line for line in src.report.unproved if "stand-in" in line]
    assert len(stand_ins) == 2
    assert any("with_local_host_function.<locals>.local" in line for line in stand_ins)
    assert any("`local` stands in" in note for note in src.report.notes)
    function = getattr(execute(str(src)), src.name)
    np.testing.assert_array_equal(jax.jit(function)(X), jnp.zeros(3))
    np.testing.assert_array_equal(jax.jit(src.load())(X), X * X[0])  # the original


def test_unverified_source_mentions_its_stand_ins() -> None:
    src = untrace.source(with_local_host_function, verify=False, level="lax")(X)
    assert "`local` stands in" in str(src)


def test_stand_in_for_another_function_is_rejected() -> None:
    src = untrace.source(with_local_host_function, level="lax")(X)
    body = src.module.body.replace("<locals>.local", "<locals>.other")
    report = check(dataclasses.replace(src.module, body=body), src.captured)
    assert report.strength == "different"


def test_mutations_beside_a_stand_in_are_rejected() -> None:
    src = untrace.source(with_local_host_function, level="lax")(X)
    for old, new in (
        (
            "jax.debug.callback(append, x)",
            "jax.debug.callback(append, x, ordered=True)",
        ),
        (".__untrace_stand_in__", ".__other__"),
        ("jax.debug.callback(append, x)", "jax.debug.callback(print, x)"),
    ):
        body = src.module.body.replace(old, new)
        assert body != src.module.body
        report = check(dataclasses.replace(src.module, body=body), src.captured)
        assert report.strength in ("different", "failed"), new


def test_function_with_a_batching_rule() -> None:
    @jax.custom_batching.custom_vmap
    def sine(x: Any) -> Any:
        return jnp.sin(x)

    @sine.def_vmap
    def rule(size: Any, is_batched: Any, x: Any) -> Any:
        return jnp.sin(x), is_batched[0]

    src = untrace.source(lambda x: sine(x), level="lax")(X)
    assert src.report.strength == "identical", str(src)
    assert any("rule" in line for line in src.report.unproved)


def test_jaxpr_with_a_token_input() -> None:
    token = jax.typeof(jax.lax.create_token())
    jaxpr = jax.make_jaxpr(lambda t, x: (jax.lax.after_all(t, t), x))(token, X)
    src = untrace.source(jaxpr)
    assert src.report.strength == "identical", str(src)


def test_errors_that_another_checkify_collected() -> None:
    def checked(x: Any) -> Any:
        checkify.check(x.sum() > 0.0, "sum is {total}", total=x.sum())
        checkify.check(x[0] > 0.0, "first is {0}", x[0])
        return jnp.log(x)

    def function(x: Any) -> Any:
        error, result = checkify.checkify(checked, errors=checkify.all_checks)(x)
        checkify.check_error(error)
        return result

    src = untrace.source(function, level="lax")(jnp.ones(3))
    assert src.report.strength == "identical", f"{src.report}\n{src}"
    again = checkify.checkify(src.load())
    for x in (jnp.ones(3), -jnp.ones(3), jnp.array([-1.0, 2.0, 3.0])):
        expected, _ = checkify.checkify(function)(x)
        assert again(x)[0].get() == expected.get()


def local(x: Any) -> Any:
    """Only stands for a function that a program has for itself."""
    return lambda value: np.asarray(x) + value


def like(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def callback_tree(x: Any) -> Any:
    return jax.pure_callback(local(1), (like(x), {"y": like(x)}), x)[1]["y"]


def callback_of_io(x: Any) -> Any:
    return io_callback(local(1), like(x), x, ordered=True) + 1


def callback_of_debug(x: Any) -> Any:
    y = jnp.sin(x)
    jax.debug.callback(local(1), y, name="y")
    return y


def callback_in_vmap(x: Any) -> Any:
    def run(value: Any) -> Any:
        return jax.pure_callback(double, like(value), value, vmap_method="sequential")

    return jax.vmap(run)(x)


def callback_by_keyword(x: Any) -> Any:
    return jax.pure_callback(callback=local(1), result_shape_dtypes=x, value=x)


def callback_of_partial(x: Any) -> Any:
    return jax.pure_callback(functools.partial(np.add, 1.0), like(x), x)


@pytest.mark.parametrize(
    "function",
    [
        callback_tree,
        callback_of_io,
        callback_of_debug,
        callback_in_vmap,
        callback_by_keyword,
        callback_of_partial,
    ],
)
def test_callback_is_written_as_it_was_called(function: Any) -> None:
    src = untrace.source(function)(X)
    assert src.report.strength == "identical", f"{src.report}\n{src}"
    assert "from its equations" not in str(src), str(src)
    module: dict[str, Any] = {"__name__": "module"}
    exec(str(src), module)
    found = jax.eval_shape(module[function.__name__], X)
    assert found == jax.eval_shape(function, X)
    jax.block_until_ready(jax.jit(module[function.__name__])(X))


def callbacks_that_share(x: Any) -> Any:
    seen: dict[int, Any] = {}

    def begin(value: Any) -> None:
        seen[0] = value

    def go_on(value: Any) -> None:
        seen[0] += value

    jax.debug.callback(begin, x)
    jnp.cos(jnp.sin(x))  # not used: the programs are equivalent
    jax.debug.callback(go_on, x)
    return x * 2.0


def test_functions_that_share_what_they_change_may_have_stand_ins() -> None:
    """What these hold is not compared, as where the equations are identical."""
    src = untrace.source(callbacks_that_share)(X)
    assert src.report.strength == "equivalent", f"{src.report}\n{src}"
    assert "from its equations" not in str(src), str(src)
    stand_ins = [line for line in src.report.unproved if "stand-in" in line]
    assert len(stand_ins) == 2
