"""Random programs, their gradients and batches come back identical.

A program is a list of steps over a growing list of values, which Hypothesis draws and
shrinks; `UNTRACE_EXAMPLES=2000` runs more of them. What JAX itself refuses is discarded.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jax import lax

import untrace

N_EXAMPLES = int(os.environ.get("UNTRACE_EXAMPLES", "100"))
SHAPES = [(), (3,), (2, 3), (1, 3), (2, 1)]
DTYPES = ["float32", "int32", "bool", "float16", "complex64", "uint8"]

Array = Any


@dataclass(frozen=True)
class Step:
    """One operation: its name, which values it reads (modulo their number), a number."""

    name: str
    first: int
    second: int
    number: float


def _matched(x: Array, y: Array) -> tuple[Array, Array]:
    """Give two values one shape and type."""
    x, y = (
        jnp.broadcast_arrays(x, y) if _broadcasts(x, y) else (x, jnp.resize(y, x.shape))
    )
    return x, y.astype(x.dtype)


def _broadcasts(x: Array, y: Array) -> bool:
    try:
        jnp.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return True


def _real(x: Array) -> Array:
    if jnp.iscomplexobj(x):
        x = jnp.real(x)
    return x.astype(jnp.float32)


def _scan(x: Array, y: Array, k: float) -> Array:
    y = _real(y).mean()
    carry, ys = lax.scan(
        lambda c, v: (c * y + v, (c, v * k)), y, jnp.atleast_1d(_real(x))
    )
    return ys[0] + ys[1] * carry


def _while(x: Array, y: Array, k: float) -> Array:
    x = _real(x)
    return lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * k + x), (0, x)
    )[1]


def _fori(x: Array, y: Array, k: float) -> Array:
    x, y = _matched(_real(x), _real(y))
    return lax.fori_loop(0, 3, lambda i, c: c * y + i, x)


def _cond(x: Array, y: Array, k: float) -> Array:
    x, y = _matched(x, y)
    return lax.cond(_real(x).sum() > k, lambda a, b: a, lambda a, b: b + a, x, y)


def _switch(x: Array, y: Array, k: float) -> Array:
    branches = [lambda a: a, lambda a: a * 2, lambda a: jnp.flip(a)]
    return lax.switch(_real(y).sum().astype(int), branches, x)


def _jit(x: Array, y: Array, k: float) -> Array:
    @jax.jit
    def inner(a: Array) -> Array:
        return jnp.tanh(_real(a)) * k + _real(y).sum()

    return inner(x) + inner(x)


def _remat(x: Array, y: Array, k: float) -> Array:
    return jax.checkpoint(lambda a: jnp.sin(_real(a)) * k)(x)


def _custom(x: Array, y: Array, k: float) -> Array:
    @jax.custom_jvp
    def inner(a: Array) -> Array:
        return jnp.exp(-a) * k

    inner.defjvp(lambda p, t: (inner(*p), -inner(*p) * t[0]))
    return inner(_real(x))


def _constant(x: Array, y: Array, k: float) -> Array:
    return _real(x)[..., None] * jnp.asarray(
        np.arange(3, dtype=np.float32) * np.float32(k)
    )


def _random(x: Array, y: Array, k: float) -> Array:
    key = jax.random.fold_in(jax.random.key(3), _real(y).sum().astype(jnp.int32))
    return _real(x) + jax.random.normal(key, x.shape)


OPERATIONS: dict[str, Callable[[Array, Array, float], Array]] = {
    "add": lambda x, y, k: jnp.add(*_matched(x, y)),
    "multiply": lambda x, y, k: jnp.multiply(*_matched(x, y)),
    "subtract": lambda x, y, k: _real(x) - k,
    "divide": lambda x, y, k: k / (_real(x) ** 2 + 1),
    "power": lambda x, y, k: _real(x) ** int(k),
    "where": lambda x, y, k: jnp.where(_real(x) > k, *_matched(x, y)),
    "maximum": lambda x, y, k: jnp.maximum(_real(x), k),
    "sin": lambda x, y, k: jnp.sin(_real(x)),
    "softmax": lambda x, y, k: jax.nn.softmax(jnp.atleast_1d(_real(x))),
    "relu": lambda x, y, k: jax.nn.relu(_real(x)),
    "sum": lambda x, y, k: jnp.sum(x, axis=int(k) % x.ndim if x.ndim else None),
    "max": lambda x, y, k: jnp.max(_real(x), keepdims=True),
    "argmax": lambda x, y, k: jnp.argmax(_real(x)),
    "cumsum": lambda x, y, k: jnp.cumsum(jnp.atleast_1d(_real(x)), axis=0),
    "sort": lambda x, y, k: jnp.sort(jnp.atleast_1d(_real(x))),
    "reshape": lambda x, y, k: x.reshape(-1),
    "transpose": lambda x, y, k: x.T,
    "expand": lambda x, y, k: x[None],
    "concatenate": lambda x, y, k: jnp.concatenate([x.reshape(-1), y.reshape(-1).astype(x.dtype)]),
    "slice": lambda x, y, k: jnp.atleast_1d(x)[:: max(1, int(k) % 3)],
    "gather": lambda x, y, k: jnp.atleast_1d(x)[jnp.array([0, -1])],
    "scatter": lambda x, y, k: jnp.atleast_1d(_real(x)).at[0].add(k),
    "pad": lambda x, y, k: jnp.pad(jnp.atleast_1d(x), 1),
    "dot": lambda x, y, k: jnp.vdot(*_matched(_real(x), _real(y))),
    "einsum": lambda x, y, k: jnp.einsum("...i,...i->...", *[jnp.atleast_1d(_real(x))] * 2),
    "cast": lambda x, y, k: _real(x).astype(DTYPES[int(k) % len(DTYPES)]),
    "complex": lambda x, y, k: jnp.abs(_real(x) * complex(0.0, k)),
    "integers": lambda x, y, k: (_real(x) * 4).astype(jnp.int32) // 3 % 5,
    "bits": lambda x, y, k: (_real(x) * 4).astype(jnp.uint8) << 1 ^ 5,
    "compare": lambda x, y, k: (_real(x) > k) & (_real(x) < 10),
    "special": lambda x, y, k: jnp.where(_real(x) > 5, jnp.nan, jnp.inf) * -0.0,
    "scan": _scan, "while": _while, "fori": _fori, "cond": _cond, "switch": _switch, "jit": _jit,
    "remat": _remat, "custom": _custom, "constant": _constant, "random": _random,
}  # fmt: skip


@st.composite
def programs(draw: Any) -> tuple[list[Step], list[tuple[tuple[int, ...], str]]]:
    """Draw the steps of a program and the types of its arguments."""
    numbers = st.sampled_from([0.5, 2.0, -1.0, 3.0, 0.1, 1e10, 5.0])
    index = st.integers(0, 30)
    step = st.builds(Step, st.sampled_from(sorted(OPERATIONS)), index, index, numbers)
    argument = st.tuples(st.sampled_from(SHAPES), st.sampled_from(DTYPES))
    return (
        draw(st.lists(step, min_size=1, max_size=12)),
        draw(st.lists(argument, min_size=1, max_size=3)),
    )


def build(steps: list[Step], n_arguments: int) -> Callable[..., Any]:
    """Make a function of a pytree from steps."""

    def program(tree: dict[str, Any]) -> dict[str, Any]:
        values = [jnp.asarray(tree["xs"][i]) for i in range(n_arguments)]
        for step in steps:
            x = values[-1 - step.first % len(values)]
            y = values[-1 - step.second % len(values)]
            made = OPERATIONS[step.name](x, y, step.number)
            values.append(made if made.size < 200 else made.reshape(-1)[:20])
        return {"last": values[-1], "all": (values[n_arguments:], [values[0]])}

    return program


def arguments(types: list[tuple[tuple[int, ...], str]]) -> dict[str, Any]:
    """Make arguments of the drawn types."""
    random = np.random.RandomState(0)
    return {
        "xs": [
            np.asarray(random.randn(*shape) * 2).astype(dtype) for shape, dtype in types
        ]
    }


def check(function: Callable[..., Any], *args: Any) -> None:
    """Recover a program twice: identical, the same text, which compiles by itself."""
    try:
        jax.make_jaxpr(function)(*args)
    except (TypeError, ValueError, OverflowError):  # JAX refuses the combination
        assume(False)
    src = untrace.source(function, level="lax")(*args)
    text = str(src)
    assert src.report.strength == "identical", f"{src.report}\n{text}"
    compile(text, "random program", "exec")
    assert str(untrace.source(function, level="lax")(*args)) == text


SETTINGS = settings(
    max_examples=N_EXAMPLES,
    deadline=None,
    derandomize="UNTRACE_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.filterwarnings("ignore")
@given(programs())
@SETTINGS
def test_random_program_comes_back_identical(case: Any) -> None:
    steps, types = case
    check(build(steps, len(types)), arguments(types))


@pytest.mark.filterwarnings("ignore")
@given(programs())
@settings(SETTINGS, max_examples=max(N_EXAMPLES // 3, 1))
def test_gradient_of_a_random_program_comes_back_identical(case: Any) -> None:
    steps, types = case
    function = build(steps, len(types))

    def loss(*xs: Any) -> Any:
        leaves = [x for x in jax.tree.leaves(function({"xs": list(xs)})) if _is_real(x)]
        return sum((jnp.sum(x.astype(jnp.float32)) for x in leaves), jnp.float32(0.0))

    values = arguments([(shape, "float32") for shape, _ in types])["xs"]
    check(jax.grad(loss, tuple(range(len(values)))), *values)


@pytest.mark.filterwarnings("ignore")
@given(programs())
@settings(SETTINGS, max_examples=max(N_EXAMPLES // 3, 1))
def test_batch_of_a_random_program_comes_back_identical(case: Any) -> None:
    steps, types = case
    tree = arguments([((2, *shape), dtype) for shape, dtype in types])
    check(jax.vmap(build(steps, len(types))), tree)


def _is_real(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.floating))
