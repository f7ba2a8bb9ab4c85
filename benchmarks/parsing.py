"""What reading a printed jaxpr or StableHLO costs, against JAX's writing of it.

python -m benchmarks.parsing
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp

import untrace
from untrace.readers.jaxprs import grammar, parse, tokens
from untrace.readers.stablehlo.agreement import agreement
from untrace.readers.stablehlo.read import read_module


def chain(n: int) -> Any:
    """A chain of elementwise operations on arrays: short equations."""

    def f(x: Any, y: Any) -> Any:
        for _ in range(n // 4):
            x, y = jnp.sin(x) * y, jnp.cos(y) + x
        return x, y

    return jax.make_jaxpr(f)(jnp.ones((8, 128)), jnp.ones((8, 128)))


def attention(n: int) -> Any:
    """The gradient of layers of attention: params, calls, several operands."""

    def layer(x: Any, w: Any) -> Any:
        q, k, v = (x @ w[i] for i in range(3))
        scores = jax.nn.softmax(q @ k.T / 4.0, axis=-1)
        return x + jax.nn.gelu(scores @ v)

    def loss(ws: Any, x: Any) -> Any:
        for w in ws:
            x = layer(x, w)
        return jnp.mean(x * x)

    ws = [jnp.ones((3, 16, 16))] * (n // 100)
    return jax.make_jaxpr(jax.grad(loss))(ws, jnp.ones((8, 16)))


def seconds(function: Callable[[], Any], times: int = 3) -> float:
    """Return the shortest of some runs, in seconds of processor time."""
    best = float("inf")
    for _ in range(times):
        start = time.process_time()
        function()
        best = min(best, time.process_time() - start)
    return best


JAXPRS = (
    ("chain", chain, 1_000),
    ("chain", chain, 10_000),
    ("attention", attention, 1_000),
    ("attention", attention, 10_000),
)


def print_jaxprs() -> None:
    """Print the table of printed jaxprs."""
    print(
        "program     | equations | characters | str | parse | ratio | text alone | ratio"
    )
    for name, make, n in JAXPRS:
        jaxpr = make(n)
        text = str(jaxpr)
        printing = seconds(lambda jaxpr=jaxpr: str(jaxpr))
        parsing = seconds(lambda text=text: parse(text))
        reading = seconds(lambda text=text: grammar.read(tokens.split(text)))
        count = text.count(" = ")
        print(
            f"{name:11} | {count:9,} | {len(text):10,} | {printing:.3f} | {parsing:.3f}"
            f" | {parsing / printing:.2f} | {reading:.3f} | {reading / printing:.2f}"
        )


def print_modules() -> None:
    """Print the table of StableHLO: to a jaxpr, proved, and to the source of level "lax"."""
    print(
        "program     | operations | lower | read | ratio | prove | source | ms / 1,000"
    )
    for name, make, n in JAXPRS:
        jaxpr = make(n)
        text = lowered_text(jaxpr)
        lowering = seconds(lambda jaxpr=jaxpr: lowered_text(jaxpr), 1)
        reading = seconds(lambda text=text: read_module(text), 1)
        read = read_module(text)
        proving = seconds(lambda read=read: agreement(read.module, read.jaxpr), 1)
        writing = seconds(lambda read=read: untrace.source(read.jaxpr, level="lax"), 1)
        count = text.count(" = ")
        each = 1e6 * (reading + proving + writing) / count
        print(
            f"{name:11} | {count:10,} | {lowering:.2f} | {reading:.2f}"
            f" | {reading / lowering:.2f} | {proving:.2f} | {writing:.2f} | {each:.0f}"
        )


def lowered_text(jaxpr: Any) -> str:
    """Return the StableHLO that JAX lowers a closed jaxpr to."""
    jitted = jax.jit(jax.extend.core.jaxpr_as_fun(jaxpr))
    return jitted.lower(*jaxpr.in_avals).as_text()


def main() -> None:
    """Print both tables."""
    print_jaxprs()
    print_modules()


if __name__ == "__main__":
    main()
