"""Calls of host functions: their code, how they are called, and in which order."""

from __future__ import annotations

import builtins
from typing import Any

import jax
import numpy as np
from jax.experimental import io_callback

from tests.verification.attacks.host import pure
from tests.verification.attacks.pairs import F32, X, Y, differs


def host(*, a: Any, b: Any) -> Any:
    return np.asarray(a) - np.asarray(b)


def swapped(*, b: Any, a: Any) -> Any:
    return np.asarray(b) - np.asarray(a)


def of_globals(n: float) -> Any:
    space: dict[str, Any] = {"np": np, "N": np.float32(n), "__name__": "hosts"}
    exec("def host(x):\n    return np.asarray(x) * N", space)
    return space["host"]


def of_builtins(n: float) -> Any:
    builtin = {**vars(builtins), "N": np.float32(n)}
    space: dict[str, Any] = {"np": np, "__builtins__": builtin, "__name__": "hosts"}
    exec("def host(x):\n    return np.asarray(x) * N", space)
    return space["host"]


def counting(count: list[int]) -> Any:
    def host(x: Any) -> Any:
        count[0] += 1
        return np.asarray(x) * np.float32(count[0])

    return host


def shared_counter(is_shared: bool) -> Any:
    """Two host functions that count, in one counter or in one each."""
    counts = [[0], [0]]
    first, second = counting(counts[0]), counting(counts[0 if is_shared else 1])
    return lambda x: io_callback(
        second, F32, io_callback(first, F32, x, ordered=True), ordered=True
    )


def counted_twice(is_one: bool) -> Any:
    """A host function that counts, called twice, or two that count."""
    first, second = (counting([0]) for _ in range(2))
    return lambda x: io_callback(
        first if is_one else second,
        F32,
        io_callback(first, F32, x, ordered=True),
        ordered=True,
    )


def keywords(function: Any) -> Any:
    return lambda x, y: jax.pure_callback(function, F32, a=x, b=y)


differs("host function", pure(np.sin), pure(np.cos))
differs(
    "host function, a constant in its code",
    pure(lambda x: x * 2),
    pure(lambda x: x * 3),
)
differs(
    "host function, a name in its code",
    pure(lambda x: np.sin(x)),
    pure(lambda x: np.cos(x)),
)
differs(
    "host function, an attribute in its code",
    pure(lambda x: x.real),
    pure(lambda x: x.imag),
)
differs(
    "host function, sign of zero in its code",
    pure(lambda x: x * 0.0),
    pure(lambda x: x * -0.0),
)
differs(
    "host function, 1 or True in its code",
    pure(lambda x: x * 1),
    pure(lambda x: x * True),
    because="a bool is another dtype",
)
differs("host function, a default", *[pure(lambda x, n=n: x * n) for n in (2, 3)])
differs(
    "host function, a keyword default", *[pure(lambda x, *, n=n: x * n) for n in (2, 3)]
)
differs(
    "host function, a function in its code",
    pure(lambda x: (lambda y: y * 2)(x)),
    pure(lambda x: (lambda y: y * 3)(x)),
)
differs("host function, a global", pure(of_globals(2.0)), pure(of_globals(3.0)))
differs("host function, a builtin", pure(of_builtins(2.0)), pure(of_builtins(3.0)))
differs("host function, names of its keywords", keywords(host), keywords(swapped), X, Y)
differs(
    "host function, keywords it is called with",
    lambda x, y: jax.pure_callback(host, F32, a=x, b=y),
    lambda x, y: jax.pure_callback(host, F32, a=y, b=x),
    X,
    Y,
)
differs(
    "host function, keyword or position",
    pure(lambda x, y: x, Y),
    lambda x: jax.pure_callback(lambda x, y: x, F32, x, y=Y),
)
differs(
    "host function, tree of its arguments",
    lambda x: jax.pure_callback(lambda t: t[0], F32, (x, x)),
    lambda x: jax.pure_callback(lambda t: t[0], F32, [x, x]),
)
differs(
    "host function, keys of its arguments",
    lambda x: jax.pure_callback(len, F32, {"a": x}),
    lambda x: jax.pure_callback(len, F32, {"b": x}),
)
differs(
    "host function, vmap_method",
    pure(np.sin, vmap_method="sequential"),
    pure(np.sin, vmap_method="expand_dims"),
)
differs(
    "host function, type of its result",
    *[
        lambda x, t=t: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((4,), t), x)
        for t in (np.float32, np.int32)
    ],
)
differs(
    "host function, shape of its result",
    *[
        lambda x, s=s: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(s, np.float32), x)
        for s in ((4,), (4, 1))
    ],
)
differs(
    "host functions that share a counter",
    lambda x: shared_counter(True)(x),
    lambda x: shared_counter(False)(x),
)
differs(
    "one host function that counts, or two",
    lambda x: counted_twice(True)(x),
    lambda x: counted_twice(False)(x),
)
differs(
    "host function, pure or not", pure(np.sin), lambda x: io_callback(np.sin, F32, x)
)
differs(
    "host function, ordered or not",
    *[lambda x, o=o: io_callback(np.sin, F32, x, ordered=o) for o in (True, False)],
)
differs(
    "order of two host functions",
    *[
        lambda x, f=f, g=g: (
            io_callback(f, F32, x, ordered=True),
            io_callback(g, F32, x, ordered=True),
        )[0 if f is np.sin else 1]
        for f, g in ((np.sin, np.cos), (np.cos, np.sin))
    ],
)
differs(
    "one call of a host function or two",
    lambda x: (lambda y: (y, y))(io_callback(np.sin, F32, x)),
    lambda x: (io_callback(np.sin, F32, x), io_callback(np.sin, F32, x)),
)
differs(
    "debug.print, format",
    *[lambda x, f=f: jax.debug.print(f, x=x) for f in ("{x}", "{x}!")],
)
differs(
    "debug.print, spec",
    *[lambda x, f=f: jax.debug.print(f, x=x) for f in ("{x}", "{x!r}")],
)
differs(
    "debug.print, ordered",
    *[lambda x, o=o: jax.debug.print("{x}", x=x, ordered=o) for o in (True, False)],
)
differs(
    "debug.print, static argument",
    *[lambda x, n=n: jax.debug.print("{x} {n}", x=x, n=n) for n in ("a", "b")],
)
differs(
    "debug.print, operand",
    *[lambda x, n=n: jax.debug.print("{x}", x=x * n) for n in (2, 3)],
)
differs(
    "debug.callback, function",
    *[lambda x, f=f: jax.debug.callback(f, x) for f in (print, repr)],
    because="one prints",
)
differs(
    "debug.callback or none",
    lambda x: (jax.debug.callback(print, x), x)[1],
    lambda x: x * 1,
)
differs(
    "debug.callback, keyword",
    lambda x: jax.debug.callback(lambda a=0, b=0: None, a=x),
    lambda x: jax.debug.callback(lambda a=0, b=0: None, b=x),
    because="another argument is given",
)
