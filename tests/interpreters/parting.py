"""Programs that part at a known place: the line that is marked, and a known turn.

Each maker takes a constant. Programs made of 1.0 and of 1.2 part in the marked line, and
nowhere before; of derivative rules and of functions made elsewhere it is that of the call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

X = jnp.linspace(0.2, 1.7, 6)
MARK = "# parts"
CONSTANTS = 1.0, 1.2
Maker = Callable[[float], Callable[..., Any]]


class Parting(NamedTuple):
    """A program, and where it parts.

    Attributes:
      make: Makes it, with a constant.
      primitive: What the equation applies whose values differ first.
      turn: The loops and branches it is in.
      args: Its arguments.
    """

    make: Maker
    primitive: str
    turn: str = ""
    args: tuple[Any, ...] = (X,)

    @property
    def line(self) -> int:
        """The marked line."""
        lines, start = inspect.getsourcelines(self.make)
        return start + next(i for i, text in enumerate(lines) if MARK in text)


def plain(c: float) -> Callable[..., Any]:
    def f(x):
        y = jnp.sin(x)
        z = y * c  # parts
        return jnp.exp(z)

    return f


def last(c: float) -> Callable[..., Any]:
    return lambda x: jnp.cos(x) + c  # parts


def middle(c: float) -> Callable[..., Any]:
    def f(x):
        for _ in range(4):
            x = jnp.tanh(x)
        x = x - c  # parts
        for _ in range(4):
            x = jnp.tanh(x)
        return x

    return f


def power(c: float) -> Callable[..., Any]:
    return lambda x: jnp.sum(x**c)  # parts


def maximum(c: float) -> Callable[..., Any]:
    return lambda x: jnp.sqrt(jnp.maximum(x, c)).sum()  # parts


def comparison(c: float) -> Callable[..., Any]:
    def f(x):
        keep = x > c  # parts
        return jnp.where(keep, x, 0.0).sum()

    return f


def integer(c: float) -> Callable[..., Any]:
    def f(x):
        n = jnp.arange(6) * round(c * 10)  # parts
        return x * n

    return f


def dot(c: float) -> Callable[..., Any]:
    def f(x):
        w = jnp.outer(x, x)
        return (w @ x) * c  # parts

    return f


def in_jit(c: float) -> Callable[..., Any]:
    @jax.jit
    def inner(y):
        return jnp.exp(y) * c  # parts

    return lambda x: inner(jnp.sin(x)).sum()


def in_jit_twice(c: float) -> Callable[..., Any]:
    @jax.jit
    def inner(y):
        return jnp.exp(y) * 0.5

    def f(x):
        y = inner(x)
        z = inner(y + c)  # parts
        return z.sum()

    return f


def in_nested_jit(c: float) -> Callable[..., Any]:
    @jax.jit
    def innermost(y):
        return y / c  # parts

    inner = jax.jit(lambda y: innermost(jnp.cos(y)))
    return lambda x: inner(jnp.sin(x)).sum()


def in_scan(c: float) -> Callable[..., Any]:
    def step(total, row):
        total = total * 0.5 + row
        return total, total * c  # parts

    return lambda x: jax.lax.scan(step, 0.0, x)[1]


def in_scan_late(c: float) -> Callable[..., Any]:
    def step(total, row):
        total = jnp.where(row > 1.0, total * c, total) + row  # parts
        return total, None

    return lambda x: jax.lax.scan(step, 0.5, x)[0]


def in_scan_saturated(c: float) -> Callable[..., Any]:
    def step(total, row):
        total = total + row
        capped = jnp.minimum(total, 3.0 * c)  # parts
        return capped, None

    return lambda x: jax.lax.scan(step, 0.0, x)[0]


def in_reversed_scan(c: float) -> Callable[..., Any]:
    def step(total, row):
        return total + row * c, total  # parts

    return lambda x: jax.lax.scan(step, 0.0, x, reverse=True)


def in_nested_scan(c: float) -> Callable[..., Any]:
    def f(x):
        def outer(total, row):
            def inner(part, other):
                return jnp.minimum(part + other * row, c), None  # parts

            part, _ = jax.lax.scan(inner, 0.0, x)
            return total + part, None

        return jax.lax.scan(outer, 0.0, x)[0]

    return f


def after_scan(c: float) -> Callable[..., Any]:
    def f(x):
        total, rows = jax.lax.scan(lambda t, r: (t + r, t), 0.0, x)
        return (rows / total) * c  # parts

    return f


def in_while(c: float) -> Callable[..., Any]:
    def f(x):
        def step(state):
            i, y = state
            return i + 1, jnp.minimum(y * 1.5, c)  # parts

        return jax.lax.while_loop(lambda state: state[0] < 5, step, (0, x[0]))[1]

    return f


def in_fori(c: float) -> Callable[..., Any]:
    def f(x):
        return jax.lax.fori_loop(2, 6, lambda i, y: jnp.sin(y) * c, x)  # parts

    return f


def in_condition(c: float) -> Callable[..., Any]:
    def f(x):
        def more(y):
            return jnp.sum(y) < c * 20  # parts

        return jax.lax.while_loop(more, lambda y: y * 1.1, x)

    return f


def in_branch(c: float) -> Callable[..., Any]:
    def f(x):
        return jax.lax.cond(
            x[0] > 0,
            lambda y: jnp.sin(y) * c,  # parts
            lambda y: jnp.cos(y),
            x,
        )

    return f


def in_switch(c: float) -> Callable[..., Any]:
    def third(y):
        return jnp.log(y + c)  # parts

    return lambda x: jax.lax.switch(2, [jnp.sin, jnp.cos, third], x)


def in_branch_of_scan(c: float) -> Callable[..., Any]:
    def step(total, row):
        grown = jax.lax.cond(
            row > 1.0,
            lambda t: t * c,  # parts
            lambda t: t,
            total,
        )
        return grown + row, None

    return lambda x: jax.lax.scan(step, 0.5, x)[0]


def predicate(c: float) -> Callable[..., Any]:
    def f(x):
        is_large = jnp.sum(x) > c * 5.4  # parts
        return jax.lax.cond(is_large, jnp.sin, jnp.cos, x)

    return f


def in_custom_jvp(c: float) -> Callable[..., Any]:
    @jax.custom_jvp
    def inner(x):
        return jnp.sin(x) * c  # parts

    @inner.defjvp
    def _(primals, tangents):
        return inner(*primals), jnp.cos(*primals) * tangents[0]

    return lambda x: inner(x * 2).sum()


def in_custom_vjp(c: float) -> Callable[..., Any]:
    @jax.custom_vjp
    def inner(x):
        return jnp.sin(x)

    def backward(x, cotangent):
        return (jnp.cos(x) * cotangent * c,)

    inner.defvjp(lambda x: (jnp.sin(x), x), backward)
    return jax.grad(lambda x: inner(x * 2).sum())  # parts


def in_checkpoint(c: float) -> Callable[..., Any]:
    @jax.checkpoint
    def inner(x):
        return jnp.sin(x) + c  # parts

    return lambda x: inner(x * 2).sum()


def in_vmap(c: float) -> Callable[..., Any]:
    def inner(x):
        return jnp.exp(x) * c  # parts

    return lambda x: jax.vmap(inner)(x)


def in_vmap_of_scan(c: float) -> Callable[..., Any]:
    def inner(x):
        def step(t, _):
            return jnp.minimum(t * 1.5, c), None  # parts

        return jax.lax.scan(step, x, None, length=4)[0]

    return lambda x: jax.vmap(inner)(x / 1.7)


def in_forward(c: float) -> Callable[..., Any]:
    def loss(x):
        y = jnp.sin(x)
        z = y * y
        return jnp.sum(jnp.tanh(z - c))  # parts

    return jax.grad(loss)


def in_value_and_grad(c: float) -> Callable[..., Any]:
    def loss(x):
        y = jnp.log(x + c)  # parts
        return jnp.sum(y * y)

    return jax.value_and_grad(loss)


def in_grad_of_scan(c: float) -> Callable[..., Any]:
    def loss(x):
        def step(t, row):
            t = t * 0.9 + row
            return jnp.minimum(t, c), None  # parts

        return jax.lax.scan(step, 0.5, x)[0]

    return jax.grad(loss)


def in_jvp(c: float) -> Callable[..., Any]:
    def f(x):
        g = functools.partial(jnp.multiply, c)
        return jax.jvp(lambda v: g(jnp.sin(v)), (x,), (x,))  # parts

    return f


def in_step(c: float) -> Callable[..., Any]:
    def f(params, x):
        def loss(params):
            h = jnp.tanh(x @ params["w"] + params["b"])
            return jnp.mean(h**2)

        grads = jax.grad(loss)(params)
        return jax.tree.map(lambda p, g: p - c * g, params, grads)  # parts

    return f


PARAMS = {"w": jnp.eye(6) * 0.3, "b": jnp.zeros(6)}

CASES = [
    Parting(plain, "mul"),
    Parting(last, "add"),
    Parting(middle, "sub"),
    Parting(power, "pow"),
    Parting(maximum, "max"),
    Parting(comparison, "gt"),
    Parting(integer, "mul"),
    Parting(dot, "mul"),
    Parting(in_jit, "mul"),
    Parting(in_jit_twice, "add"),
    Parting(in_nested_jit, "div"),
    Parting(in_scan, "mul", "scan[0]"),
    Parting(in_scan_late, "mul", "scan[0]"),
    Parting(in_scan_saturated, "min", "scan[4]"),
    Parting(in_reversed_scan, "mul", "scan[5]"),
    Parting(in_nested_scan, "min", "scan[0]/scan[5]"),
    Parting(after_scan, "mul"),
    Parting(in_while, "min", "while[3]"),
    Parting(in_fori, "mul", "scan[0]"),
    Parting(in_condition, "lt", "while[cond 14]"),
    Parting(in_branch, "mul", "cond[1]"),
    Parting(in_switch, "add", "cond[2]"),
    Parting(in_branch_of_scan, "mul", "scan[3]/cond[1]"),
    Parting(predicate, "gt"),
    Parting(in_custom_jvp, "mul"),
    Parting(in_custom_vjp, "mul"),
    Parting(in_checkpoint, "add"),
    Parting(in_vmap, "mul"),
    Parting(in_vmap_of_scan, "min", "scan[0]"),
    Parting(in_forward, "sub"),
    Parting(in_value_and_grad, "add"),
    Parting(in_grad_of_scan, "min", "scan[1]"),
    Parting(in_jvp, "mul"),
    Parting(in_step, "mul", "", (PARAMS, X)),
]
