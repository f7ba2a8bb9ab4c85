"""Functions with derivative rules come back with their rules."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.interpreters import mlir

import untrace
from tests.lifting.installed import library
from untrace import jaxapi
from untrace.errors import LiftingError


def recovered(function: Any, *args: Any) -> Any:
    """Recover a program and check it; return the source."""
    src = untrace.source(function, level="lax")(*args)
    assert src.report.strength == "identical", f"{src.report}\n{src}"
    return src


def same_gradient(function: Any, *args: Any) -> None:
    """Compare the derivative of a recovered function, its values and its gradients."""
    again = recovered(function, *args).load()
    loss = lambda f: lambda *xs: jnp.sum(f(*xs) ** 2)
    expected = jax.grad(loss(function), tuple(range(len(args))))(*args)
    actual = jax.grad(loss(again), tuple(range(len(args))))(*args)
    for wanted, got in zip(expected, actual):
        np.testing.assert_array_equal(wanted, got)


@jax.custom_jvp
def doubled(x: Any) -> Any:
    """A function with a wrong derivative, so that a lost rule shows."""
    return jnp.sin(x)


doubled.defjvp(lambda p, t: (doubled(*p), 2.0 * doubled(*p) * t[0]))


@jax.custom_vjp
def scaled(x: Any, y: Any) -> Any:
    """Another one, in reverse mode."""
    return x * y


scaled.defvjp(lambda x, y: (scaled(x, y), (x, y)), lambda r, g: (3.0 * g * r[1], g))


def test_custom_jvp_keeps_its_rule() -> None:
    same_gradient(lambda x: doubled(x) + doubled(2.0 * x), jnp.ones(3))


def test_custom_vjp_keeps_its_rules() -> None:
    same_gradient(
        lambda x, y: scaled(x, y) + scaled(y, x), jnp.ones(3), jnp.arange(3.0)
    )


def test_rule_that_calls_its_own_function_is_written_once() -> None:
    text = str(recovered(lambda x: doubled(doubled(x)), 1.0))
    assert text.count("@jax.custom_jvp") == 1


def test_function_and_rule_close_over_a_value() -> None:
    def function(x: Any, y: Any) -> Any:
        @jax.custom_jvp
        def inner(z: Any) -> Any:
            return z * y

        inner.defjvp(lambda p, t: (inner(*p), 5.0 * t[0] * y))
        return inner(x)

    text = str(recovered(function, jnp.ones(3), jnp.ones(3)))
    assert "def inner_jvp(" in text


def test_two_functions_of_one_code_that_close_over_other_constants() -> None:
    def make(table: Any) -> Any:
        @jax.custom_jvp
        def inner(z: Any) -> Any:
            return z + 1.0

        inner.defjvp(lambda p, t: (inner(*p), t[0] * table))
        return inner

    first, second = make(jnp.arange(3.0)), make(jnp.arange(3.0) + 7.0)
    same_gradient(lambda x: first(x) * second(x), jnp.ones(3))


def test_static_arguments_of_rules() -> None:
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def clipped(limit: float, x: Any) -> Any:
        return x * 1.0

    clipped.defvjp(lambda k, x: (x * 1.0, None), lambda k, r, g: (jnp.clip(g, -k, k),))
    same_gradient(lambda x: clipped(0.5, x) + clipped(0.25, x), jnp.arange(3.0))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def bounded(x: Any, high: Any) -> Any:
    return jnp.clip(x, 0, high)


def bounded_forward(x: Any, high: Any) -> Any:
    return jnp.clip(x, 0, high), x <= high


def bounded_backward(high: Any, inside: Any, g: Any) -> Any:
    return (jnp.where(inside, g, 0.0),)


bounded.defvjp(bounded_forward, bounded_backward)


def test_variants_whose_rules_are_one_function() -> None:
    src = untrace.source(lambda x: bounded(x, 7) + bounded(x * 2, 9))(jnp.ones(3))
    assert src.report.strength == "identical"
    assert not any("its equations" in note for note in src.report.notes)
    assert str(src).count("jnp.where(inside, g, 0.0)") == 1


def test_integer_argument() -> None:
    @jax.custom_vjp
    def function(x: Any, i: Any) -> Any:
        return x * i

    function.defvjp(
        lambda x, i: (x * i, i),
        lambda i, g: (g * i, np.zeros(i.shape, jax.dtypes.float0)),
    )
    recovered(lambda x, i: function(x, i), jnp.ones(3), jnp.arange(3))


def test_rule_inside_loops_and_branches() -> None:
    def function(p: Any, x: Any) -> Any:
        carry, _ = lax.scan(lambda c, v: (doubled(c + v), None), 0.0, x)
        return lax.cond(p, doubled, jnp.cos, carry)

    recovered(function, True, jnp.ones(3))


def test_rules_that_make_rules_without_end_are_cut_and_said_so() -> None:
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def solve(f: Any, a: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, x: f(a, x), a)

    def backward(f: Any, residuals: Any, g: Any) -> Any:
        return (solve(lambda b, u: g + f(b, u), residuals),)

    solve.defvjp(lambda f, a: (solve(f, a), a), backward)
    src = recovered(lambda a: solve(lambda a, x: 0.5 * (x + a / x), a), 2.0)
    assert any("rules" in note for note in src.report.unproved)


def test_forward_mode_of_a_custom_vjp_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(LiftingError, match="reverse mode"):
        untrace.source(lambda x, y: jax.linearize(scaled, x, y)[1](x, y), level="lax")(
            1.0, 2.0
        )


def test_custom_vmap_keeps_its_rule_as_a_stand_in() -> None:
    @jax.custom_batching.custom_vmap
    def function(x: Any) -> Any:
        return jnp.sin(x)

    function.def_vmap(lambda axis_size, in_batched, x: (jnp.cos(x), in_batched[0]))
    src = recovered(lambda x: function(x), 1.0)
    assert "custom_vmap(" in str(src) and src.report.unproved


@pytest.mark.parametrize(
    "transform", [jax.vmap, lambda f: jax.vmap(jax.grad(lambda x: f(x).sum()))]
)
def test_transformed_rules(transform: Any) -> None:
    recovered(transform(lambda x: scaled(doubled(x), x)), jnp.ones((2, 3)))


@jax.custom_jvp
def half(x: Any) -> Any:
    """A function whose result does not depend on its argument, but its tangent does."""
    return jnp.float32(0.5)


half.defjvp(lambda p, t: (half(*p), 3.0 * p[0] * t[0]))


def test_a_batched_rule_may_return_other_types_than_its_function() -> None:
    # Under vmap the value is not batched, but in the rule it is.
    recovered(jax.vmap(half), jnp.arange(2.0))
    recovered(jax.vmap(jax.grad(half)), jnp.arange(2.0))


@jax.custom_vjp
def steady(x: Any, y: Any) -> Any:
    """A function of `y` whose forward rule also computes with `x`."""
    return y


steady.defvjp(lambda x, y: (y + 0 * x, x), lambda x, g: (g * x, g))


def test_a_batched_forward_rule_may_return_other_types_than_its_function() -> None:
    batched = jax.vmap(steady, (0, None))
    src = recovered(batched, jnp.arange(2.0), jnp.float32(2.0))
    assert "@unchecked_vjp" in str(src)
    recovered(jax.vmap(batched, (None, 0)), jnp.arange(2.0), jnp.arange(3.0))
    recovered(jax.jit(batched), jnp.arange(2.0), jnp.float32(2.0))

    def gradient(function: Any) -> Any:
        total = jax.grad(lambda x, y: function(x, y).sum(), (0, 1))
        return jax.jit(total)(jnp.arange(2.0), jnp.float32(2.0))

    for ours, theirs in zip(gradient(src.load()), gradient(batched)):
        np.testing.assert_array_equal(ours, theirs)


def test_an_unchecked_forward_rule_has_all_that_rules_may_have() -> None:
    x, y = jnp.arange(2.0), jnp.float32(2.0)
    function = jax.custom_vjp(lambda i, x, y: (y, x))
    function.defvjp(
        lambda i, x, y: ((y + 0 * x, x), (x, i, x * y)),
        lambda saved, g: (None, g[0] * saved[2], None),
    )
    recovered(jax.vmap(function, (0, 0, None)), jnp.arange(2), x, y)
    symbolic = jax.custom_vjp(lambda x, y: y)
    symbolic.defvjp(
        lambda x, y: (y.value + 0 * x.value, x.value),
        lambda x, g: (x, None),
        symbolic_zeros=True,
    )
    recovered(jax.vmap(symbolic, (0, None)), x, y)

    def around(x: Any, y: Any) -> Any:
        inner = jax.custom_vjp(lambda z: y)
        inner.defvjp(lambda z: (y + 0 * z, z), lambda z, g: (g * z,))
        return jax.vmap(inner)(x)

    recovered(around, x, y)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
@jax.jit
def power(n: Any, x: Any) -> Any:
    """A function whose rule is jitted and closes over an argument of another jit."""
    return x**2 * n


@power.defjvp
@jax.jit
def power_jvp(n: Any, primals: Any, tangents: Any) -> Any:
    """Call the function again, with a traced number."""
    (x,), (x_dot,) = primals, tangents
    return power(n, x), power(n - 1, x) * x_dot


def test_a_rule_has_a_name_of_its_own() -> None:
    # The jitted rule is called `power_jvp`, as rules of `power` are by default.
    recovered(lambda x: power(3, x), jnp.arange(2.0))


def test_a_rule_over_a_value_of_an_ended_trace_raises_as_in_jax() -> None:
    # The rule of the new jaxpr closes over `n` of the jaxpr that was differentiated.
    first = jax.grad(lambda x: power(3, x).sum())
    src = recovered(first, jnp.arange(2.0))
    assert "a trace that has ended; JAX cannot use it either" in str(src)
    with pytest.raises(TypeError, match="constant handler"):
        jax.jit(jax.grad(lambda x: jax.jit(first)(x).sum()))(jnp.arange(2.0))
    with pytest.raises(RuntimeError, match="a trace that has ended"):
        jax.grad(lambda x: src.load()(x).sum())(jnp.arange(2.0))


def test_a_batched_rule_over_a_closed_over_value_raises_as_in_jax() -> None:
    def function(x: Any, y: Any) -> Any:
        inner = jax.custom_jvp(lambda z: z * y)
        inner.defjvp(lambda p, t: (inner(*p), t[0] * y * 2.0))
        return inner(x)

    x = jnp.ones(2)
    again = recovered(jax.vmap(function), x, x).load()
    for each in (jax.vmap(function), again):
        with pytest.raises(jax.errors.UnexpectedTracerError):
            jax.jvp(each, (x, x), (x, x))


class OddError(Exception):
    """An exception that no message makes."""

    def __init__(self, code: int, *, where: int) -> None:
        self.code, self.where = code, where

    def __str__(self) -> str:
        return f"{self.code} at {self.where}"


def local_error() -> Exception:
    class LocalError(Exception):
        pass

    return LocalError("no name leads here")


ERRORS = [
    ValueError("a message\nof 'two' lines"),
    KeyError("key"),
    SystemError(),
    OSError(2, "two arguments"),
    UnicodeDecodeError("utf8", b"a", 0, 1, "a constructor of five arguments"),
    OddError(1, where=2),
    local_error(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_rules_that_raise_do_so_again(error: Exception) -> None:
    @jax.custom_jvp
    def function(x: Any) -> Any:
        return x * 2

    @function.defjvp
    def rule(primals: Any, tangents: Any) -> Any:
        raise error

    again = recovered(lambda x: function(x), 1.0).load()
    with pytest.raises(Exception) as raised:
        jax.grad(again)(1.0)
    assert type(raised.value).__name__ == type(error).__name__
    assert str(raised.value) == str(error)


def test_rule_that_asks_a_tracer_for_a_bool_raises() -> None:
    @jax.custom_vjp
    def function(x: Any) -> Any:
        return x * 2

    def forward(x: Any) -> Any:
        return (function(x.value), None) if x.value > 0 else (x.value, None)

    function.defvjp(forward, lambda saved, ct: (ct,), symbolic_zeros=True)
    again = recovered(lambda x: function(x), 1.0).load()
    with pytest.raises(jax.errors.TracerBoolConversionError):
        jax.jit(jax.grad(again))(1.0)


def test_rules_that_call_other_functions_with_rules_are_other_rules() -> None:
    def layer(below: Any) -> Any:
        made = jax.custom_jvp(lambda x: x * 2.0)
        made.defjvp(lambda primals, tangents: (made(*primals), below(*tangents)))
        return made

    first, second = layer(layer(jnp.sin)), layer(layer(jnp.cos))
    src = untrace.source(lambda x: first(second(x)), level="lax")(1.0)
    assert src.report.strength == "identical", str(src.report)


def test_what_a_rule_computes_is_not_lost_to_its_sub_programs() -> None:
    kept: list[Any] = []

    def rule(x: Any) -> Any:
        scale = jnp.sin(x)
        # jax 0.12 lists the values in the jaxpr itself, 0.10 in what closes it.
        kept.append(jax.make_jaxpr(lambda y: y * scale)(x))
        return jitted_p.bind(x, scale, inner=(kept[0],))

    jitted_p = jax.extend.core.Primitive("jitted")
    jitted_p.def_abstract_eval(lambda x, scale, inner: x)
    traced = jax.make_jaxpr(rule)(1.0)
    assert jaxapi.lost_capture([traced], lambda var: False) is None
    error = jaxapi.lost_capture(kept, lambda var: False)
    assert error is not None and "a trace that has ended" in str(error)


def test_what_a_library_keeps_in_params_is_its_own_affair() -> None:
    values: list[Any] = []

    @jax.jit
    def ended(x: Any) -> Any:
        values.append(jnp.sin(x))
        return x

    ended(1.0)
    (value,) = values
    scale = jnp.arange(3.0)

    def rule(x: Any) -> Any:
        inner = jax.make_jaxpr(lambda y: y * scale)(x)
        body, _ = jaxapi.split_jaxpr(inner)
        return held_p.bind(x, inner=(jaxapi.close_jaxpr(body, [value]),))

    held_p = jax.extend.core.Primitive("held")
    held_p.def_abstract_eval(lambda x, inner: x)
    mlir.register_lowering(
        held_p, mlir.lower_fun(lambda x, inner: x, multiple_results=False)
    )
    traced = jax.make_jaxpr(rule)(1.0)
    assert jaxapi.lost_capture([traced], lambda var: False) is None


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def of_orders(orders: tuple[int, ...], x: Any) -> list[Any]:
    """One equation and as many results as orders; its rule asks for twice as many."""
    y = jnp.sin(x)
    return [y for _ in orders]


@of_orders.defjvp
def of_orders_jvp(orders: Any, primals: Any, tangents: Any) -> Any:
    made = of_orders((*orders, *orders), primals[0])
    n = len(orders)
    return made[:n], [n * r * tangents[0] for n, r in zip(orders, made[n:])]


@pytest.mark.parametrize("level", ["lax", "api"])
def test_rules_that_double_each_time_are_followed_twice(level: str) -> None:
    # The derivative of order n has 2**n results: nobody reads, or waits for, the twelfth.
    function = lambda x: of_orders((1,), x)[0].sum()
    src = untrace.source(jax.grad(function), level=level)(jnp.ones(3))
    assert src.report.is_verified, src.report
    assert "Not compared: custom_jvp_call of `of_orders`" in str(src.report)
    assert str(src).count("\n") < 300
    of_derivative = lambda f: jax.grad(lambda x: f(x).sum())(jnp.ones(3))
    expected = of_derivative(jax.grad(function))
    np.testing.assert_array_equal(of_derivative(src.load()), expected)


def test_what_a_derivative_keeps_is_taken_from_where_it_was():
    layers = library("""
def curvature(fun, x, kwargs):
    def product(v):
        _, vjpfun = jax.vjp(lambda p: fun(p, **kwargs), x)
        _, tangent = jax.jvp(lambda p: fun(p, **kwargs), (x,), (v,))
        return v @ vjpfun(tangent)[0]
    return jax.vmap(product)(jnp.eye(3))
""")

    def residual(p, x, y):
        return p * jnp.exp(-p[1] * x) - y * p[2]

    def program(p, x, y):
        return layers.curvature(residual, p, {"x": x, "y": y})

    x = np.linspace(0.1, 1.0, 3, dtype=np.float32)
    src = untrace.source(program)(x, x + 1.0, x * 2.0)
    assert src.report.is_verified and "from its equations" not in str(src), str(src)
    assert str(src).count("lambda p: residual(p, x, y), ") == 2


def test_a_hessian_is_called_so():
    def energy(w, x):
        return jnp.sum(jnp.tanh(w * x) ** 2)

    def step(w, x):
        mixed = jax.jacfwd(jax.jacrev(energy), argnums=1)(w, x)
        return jax.hessian(energy, argnums=1)(w, x) @ w + mixed @ x

    src = untrace.source(step)(*[np.ones(3, np.float32)] * 2)
    assert src.report.strength == "identical", src.report
    assert "jax.hessian(energy, argnums=1)(w, x)" in src.text, src.text
    assert "jax.jacfwd(jax.jacrev(energy), argnums=1)(w, x)" in src.text, src.text
