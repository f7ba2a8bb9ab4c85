"""What looks alike: equal by a class's own `==`, copies of one name, draws without effect."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback, pallas
from jax.experimental.pallas import tpu

from tests.verification.attacks.pairs import F32, differs


def pure(host: Any) -> Callable[[Any], Any]:
    return lambda x: jax.pure_callback(host, F32, x)


# ---- what nodes hold beside their children, which host functions are given -----------


@jax.tree_util.register_pytree_node_class
class Scaled:
    def __init__(self, x: Any, by: Any) -> None:
        self.x, self.by = x, by

    def tree_flatten(self) -> Any:
        return (self.x,), self.by

    @classmethod
    def tree_unflatten(cls, by: Any, children: Any) -> Scaled:
        return cls(children[0], by)


class Text(str):
    __slots__ = ()
    factor = 3


class Loose:
    def __init__(self, n: int) -> None:
        self.n = n

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loose)

    def __hash__(self) -> int:
        return 0

    def __mul__(self, other: Loose) -> int:
        return self.n * other.n


def given(by: Any, make: Callable[[], Any]) -> Callable[[Any], Any]:
    host = make()  # of one code, but no object that JAX's own caches know
    return lambda x: jax.pure_callback(host, F32, Scaled(x, by))


def squared() -> Any:
    return lambda s: np.asarray(s.x) * np.float32(s.by * s.by)  # of 8 bits, it wraps


def by_factor() -> Any:
    return lambda s: np.asarray(s.x) * np.float32(getattr(s.by, "factor", 1))


differs(
    "a number of NumPy in the tree that a host function is given",
    given(100, squared),
    given(np.int8(100), squared),
)
differs(
    "a subclass of str in the tree that a host function is given",
    given("a", by_factor),
    given(Text("a"), by_factor),
)
differs(
    "an object with an `==` of its own in the tree that a host function is given",
    given(Loose(2), squared),
    given(Loose(3), squared),
)

# ---- buffers that host functions share -----------------------------------------------


def counting(buffer: Any, wraps: Any) -> Any:
    def host(x: Any) -> Any:
        buffer[0] += 1
        return np.asarray(x) * np.float32(buffer[0])

    return host if wraps is None else functools.wraps(wraps)(host)


def two_counters(make: Any, is_shared: bool, wraps: Any = None) -> Callable[[Any], Any]:
    one = make()
    hosts = [counting(b, wraps) for b in (one, one if is_shared else make())]

    def program(x: Any) -> Any:
        for host in hosts:
            x = io_callback(host, F32, x, ordered=True)
        return x

    return program


def one_number() -> Any:
    return np.zeros(1)


def one_view() -> Any:
    return np.zeros(3)[1:]


for _name, _make, _wraps in (
    ("an array", one_number, None),
    ("a view", one_view, None),
    ("a list, in functions that wrap one of JAX", lambda: [0], jnp.sin),
):
    differs(
        f"host functions that share {_name}",
        two_counters(_make, True, _wraps),
        two_counters(_make, False, _wraps),
    )

# ---- what functions read of themselves and of their module ----------------------------


def with_attribute(name: str, value: Any, wraps: Any = None) -> Callable[[Any], Any]:
    def host(x: Any) -> Any:
        return x * np.float32(getattr(host, name))

    host = host if wraps is None else functools.wraps(wraps)(host)
    setattr(host, name, value)
    return pure(host)


for _name in ("scale", "__scale__"):
    differs(
        f"`{_name}` of a host function that wraps one of JAX",
        with_attribute(_name, 2, jnp.sin),
        with_attribute(_name, 3, jnp.sin),
    )


def named(n: int) -> Any:
    def host(x: Any) -> Any:
        return x * np.float32(len(host.__name__))

    host.__name__ = "a" * n
    return pure(host)


def documented(n: int) -> Any:
    def host(x: Any) -> Any:
        return x * np.float32(host.__doc__)

    host.__doc__ = str(n)
    return pure(host)


def annotated(n: int) -> Any:
    def host(x: Any) -> Any:
        return x * np.float32(host.__annotations__["x"])

    host.__annotations__ = {"x": n}
    return pure(host)


differs("the name that a host function reads", named(2), named(3))
differs("the docstring that a host function reads", documented(2), documented(3))
differs("the annotations that a host function reads", annotated(2), annotated(3))


def of_module(text: str, n: int) -> Any:
    space: dict[str, Any] = {"N": np.float32(n), "__name__": "hosts"}
    exec(text, space)
    return pure(space["host"])


for _name, _text in {
    "the body of a class": "def host(x):\n class A:\n  n = N\n return x * A.n",
    "`globals`": "def host(x):\n return x * globals()['N']",
}.items():
    differs(
        f"what {_name} in a host function reads of the module",
        of_module(_text, 2),
        of_module(_text, 3),
    )

# ---- draws in kernels -----------------------------------------------------------------

BITS = np.ones((8, 128), np.int32)


def kernel(body: Any, **options: Any) -> Callable[[Any], Any]:
    shape = jax.ShapeDtypeStruct(BITS.shape, BITS.dtype)
    return lambda x: pallas.pallas_call(body, out_shape=shape, **options)(x)


def drawing(chosen: Callable[[Any, Any], Any], seeds: bool = False) -> Any:
    def body(x: Any, o: Any) -> None:
        tpu.prng_seed(0)
        u = tpu.prng_random_bits(BITS.shape)
        if seeds:
            tpu.prng_seed(1)
        o[...] = chosen(u, lambda: tpu.prng_random_bits(BITS.shape))

    return kernel(body)


differs(
    "two draws in a kernel",
    drawing(lambda u, draw: u ^ draw()),
    drawing(lambda u, draw: u ^ u),
    BITS,
)
differs(
    "the order of two draws in a kernel",
    drawing(lambda u, draw: u - 2 * draw()),
    drawing(lambda u, draw: draw() - 2 * u),
    BITS,
)
differs(
    "a draw in a kernel before and after a seed",
    drawing(lambda u, draw: (u, draw())[0], True),
    drawing(lambda u, draw: (u, draw())[1], True),
    BITS,
)


def reading(place: int) -> Any:
    def get(name: str) -> Any:
        return getattr(tpu, name, None) or getattr(pallas, name)

    def body(x: Any, o: Any, s: Any) -> None:
        before = get("semaphore_read")(s)
        get("semaphore_signal")(s, 1)
        o[...] = x[...] + (before, get("semaphore_read")(s))[place]

    return kernel(body, scratch_shapes=[tpu.SemaphoreType.REGULAR])


differs(
    "a semaphore in a kernel before and after a signal", reading(0), reading(1), BITS
)
