"""Attacks on how judges remember, and on names that they take for what is named."""

from __future__ import annotations

import functools
import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core
from jax._src.interpreters import ad, batching, mlir
from jax._src.random import prng
from jax.custom_batching import custom_vmap

from tests.verification.attacks.attributes import exported
from tests.verification.attacks.derivatives import jvp, vjp
from tests.verification.attacks.host import held, pure
from tests.verification.attacks.pairs import F32, Jaxpr, X, differs

# ---- what counts as seen already --------------------------------------------------------


def falling(static: Any, smaller: Any) -> Any:
    """A rule that calls its own function with a smaller static argument."""

    def f(x: Any, s: Any) -> Any:
        return jnp.sin(x)

    ruled = jax.custom_jvp(f, nondiff_argnums=(1,))

    def rule(s: Any, p: Any, t: Any) -> Any:
        least, rest = smaller(s)
        return jnp.sin(*p), t[0] * least * (ruled(*p, rest) if rest else 1.0)

    ruled.defjvp(rule)
    return lambda x: ruled(x, static)


def least(s: Any) -> Any:
    return float(min(s)), s - {min(s)}


def head(s: Any) -> Any:
    return float(s[0]), s[1:]


def halving(n: float) -> Any:
    """A batching rule that calls its own function on the half."""
    f = custom_vmap(lambda x: jnp.sin(x))

    def rule(size: int, flags: Any, x: Any) -> Any:
        if x.shape[-1] <= 2:
            return x * n, True
        half = jax.vmap(f)(x[..., :2])
        return jnp.concatenate([half, half], -1), True

    f.def_vmap(rule)
    return f


differs(
    "rule that calls its own function, frozenset",
    *[falling(frozenset(s), least) for s in ({1, 2}, {1, 3})],
    because="the inner weight differs",
)
differs(
    "rule that calls its own function, bytes",
    *[falling(s, head) for s in (b"\x01\x02", b"\x01\x03")],
    because="the inner weight differs",
)
differs(
    "rule that calls its own function, tuple",
    *[falling(s, head) for s in ((1, 2), (1, 3))],
    because="the inner weight differs",
)
differs("batching rule that calls its own function", halving(2.0), halving(3.0))
differs(
    "rule of an exported function",
    *[exported(vjp(lambda r, ct, n=n: ct * r * n)) for n in (2.0, 3.0)],
)
differs(
    "rule of a function in a batched rule",
    *[
        jax.vmap(jvp(lambda x, t, n=n: t * jvp(lambda x, u: u * n)(x)))
        for n in (2.0, 3.0)
    ],
    because="the innermost rule differs",
)
differs(
    "two uses of a rule that differs in its order",
    lambda x: _A(_B(x)),
    lambda x: _B(_A(x)),
)
differs(
    "which of two rules is used twice", lambda x: _A(_A(_B(x))), lambda x: _A(_B(_B(x)))
)
_A, _B = jvp(lambda x, t: t * 2.0), jvp(lambda x, t: t * 3.0)

# ---- names -----------------------------------------------------------------------------


def primitive(n: float) -> Any:
    """A primitive of the user, with its own meaning."""
    made = core.Primitive("scale")
    made.def_impl(lambda x: x * n)
    made.def_abstract_eval(lambda x: x)
    mlir.register_lowering(
        made, mlir.lower_fun(lambda x: x * n, multiple_results=False)
    )
    ad.deflinear2(made, lambda ct, x: [made.bind(ct)])
    batching.defvectorized(made)
    return made.bind


@functools.cache
def keys(n: int) -> Any:
    """A generator of random numbers with the tag of another."""
    plain = prng.prngs["threefry2x32"]
    options = {
        name: getattr(plain, name) for name in ("key_shape", "seed", "split", "fold_in")
    }
    made = prng.PRNGImpl(
        **options,
        random_bits=lambda k, w, s: jnp.full(s, n, f"uint{w}"),
        name=f"constant {n}",
        tag="const",
    )
    return made


def drawing(n: int) -> Any:
    return lambda x: prng.random_bits(
        prng.random_seed(0, impl=keys(n)), bit_width=32, shape=(4,)
    )


def drawing_from_argument(n: int) -> Jaxpr:
    key = prng.random_seed(0, impl=keys(n))
    return Jaxpr(
        lambda: jax.make_jaxpr(lambda k: prng.random_bits(k, bit_width=32, shape=(4,)))(
            key
        )
    )


def local_node(order: int) -> Any:
    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    jax.tree_util.register_pytree_node(
        Pair, lambda p: ((p.a, p.b)[::order], None), lambda _, c: Pair(*c[::order])
    )
    made = Pair
    return lambda x: jax.pure_callback(
        lambda p: np.asarray(p.a) - 2 * np.asarray(p.b), F32, made(*(x, x * 2)[::order])
    )


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("name", 10, "path", 1, text, None, None)


def same_class(n: float) -> Any:
    class Host:
        def __init__(self) -> None:
            self.m = 0

        def __call__(self, x: Any) -> Any:
            return np.asarray(x) * np.float32(n)

    return Host()


def same_method(n: float) -> Any:
    return same_class(n).__call__


def wrapped(n: float) -> Any:
    class Host(dict[str, int]):
        __hash__ = object.__hash__

        def __call__(self, x: Any) -> Any:
            return np.asarray(x) * np.float32(n)

    return Host()


def property_of(n: float) -> Any:
    class Host:
        m = 0

        @property
        def n(self) -> float:
            return n

        def host(self, x: Any) -> Any:
            return np.asarray(x) * np.float32(self.n)

    made = Host()
    made.m = 1
    return made.host


differs(
    "primitives of one name",
    primitive(2.0),
    primitive(3.0),
    because="they compute other values",
)
differs(
    "generators of random numbers with one tag",
    drawing(1),
    drawing(2),
    because="they draw other numbers",
)
differs(
    "type of a key, generators with one tag",
    drawing_from_argument(1),
    drawing_from_argument(2),
    because="they draw other numbers",
)
differs("trees of classes of one name", local_node(1), local_node(-1))
differs(
    "host object, its class has the same name",
    pure(same_class(2.0)),
    pure(same_class(3.0)),
)
differs(
    "host object with a field, its class has the same name",
    pure(property_of(2.0)),
    pure(property_of(3.0)),
)
differs(
    "host method, its class has the same name",
    pure(same_method(2.0)),
    pure(same_method(3.0)),
)
differs("host object that is a dictionary", pure(wrapped(2.0)), pure(wrapped(3.0)))
held("a log record", record("a"), record("b"))
held(
    "an array in another order", np.ones((2, 2), order="C"), np.ones((2, 2), order="F")
)
held(
    "a numpy scalar or an array of no dimensions",
    np.float32(2),
    np.array(2, np.float32),
)
held(
    "a dictionary whose keys are objects",
    {object(): 1, object(): 2},
    {object(): 1, object(): 3},
)
held("an object array or a list", np.array([1, "a"], object), [1, "a"])


def stand_in(name: str, n: float) -> Any:
    """A function that says that it stands for a host function."""

    def host(x: Any) -> Any:
        return np.asarray(x) * np.float32(n)

    host.__untrace_stand_in__ = name  # type: ignore[attr-defined]
    return host


def two_hosts() -> Any:
    first, second = (lambda x, n=n: np.asarray(x) * np.float32(n) for n in (2.0, 3.0))
    return lambda x: pure(first)(x) - pure(second)(x)


def one_stand_in() -> Any:
    host = stand_in(f"{__name__}.two_hosts.<locals>.<genexpr>.<lambda>", 2.0)
    return lambda x: pure(host)(x) - pure(host)(x)


differs(
    "two host functions and one that stands in for both", two_hosts(), one_stand_in()
)


def around(devices: Any) -> Jaxpr:
    """A call under a mesh of some devices."""

    def make() -> Any:
        on = jax.sharding.Mesh(
            np.array(devices), ("a",), (jax.sharding.AxisType.Explicit,)
        )
        with jax.set_mesh(on):
            return jax.make_jaxpr(
                lambda x: jax.jit(lambda x: jax.sharding.reshard(x, jax.P("a")))(x)
            )(X)

    return Jaxpr(make)


differs(
    "devices of the mesh around a call",
    around(jax.devices()[:2]),
    around(jax.devices()[2:4]),
    because="it runs on other devices",
)
