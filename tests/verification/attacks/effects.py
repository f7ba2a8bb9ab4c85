"""Effects and refs made inside: their order, how many there are, what they touch."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from tests.verification.attacks.pairs import differs, regrouped


def refs(*steps: Any, n: int = 2) -> Any:
    """A program that makes refs and takes steps with them."""

    def f(x: Any) -> Any:
        made = [jax.new_ref(x) for _ in range(n)]
        results = [step(x, *made) for step in steps]
        return [r for r in results if r is not None], [r[...] for r in made]

    return f


def put(which: int, value: float, place: Any = ...) -> Any:
    def step(x: Any, *made: Any) -> None:
        made[which][place] = x[place] * value

    return step


def add(which: int, value: float) -> Any:
    def step(x: Any, *made: Any) -> None:
        made[which][...] += x * value

    return step


def get(which: int, place: Any = ...) -> Any:
    return lambda x, *made: made[which][place]


def swap(which: int, value: float) -> Any:
    return lambda x, *made: jax.ref.swap(made[which], ..., x * value)


differs("which new ref is written", refs(put(0, 2.0)), refs(put(1, 2.0)))
differs(
    "order of writes to one ref",
    refs(put(0, 2.0), put(0, 3.0)),
    refs(put(0, 3.0), put(0, 2.0)),
)
differs(
    "order of a read and a write", refs(get(0), put(0, 2.0)), refs(put(0, 2.0), get(0))
)
differs("a write or an addition", refs(put(0, 2.0)), refs(add(0, 2.0)))
differs("a swap or a write", refs(swap(0, 2.0)), refs(put(0, 2.0)))
differs("place of a write", refs(put(0, 2.0, 0)), refs(put(0, 2.0, 1)))
differs(
    "slice of a write", refs(put(0, 2.0, slice(0, 2))), refs(put(0, 2.0, slice(1, 3)))
)
differs("place of a read", refs(get(0, 0)), refs(get(0, 1)))
differs("one write or two", refs(put(0, 2.0)), refs(put(0, 2.0), put(0, 2.0)))
differs("one addition or two", refs(add(0, 2.0)), refs(add(0, 2.0), add(0, 2.0)))
differs(
    "a write that is overwritten", refs(put(0, 3.0), put(0, 2.0)), refs(put(0, 2.0))
)
differs(
    "read of which ref",
    refs(put(0, 2.0), put(1, 3.0), get(0)),
    refs(put(0, 2.0), put(1, 3.0), get(1)),
)


def aliased(n: int) -> Any:
    """Write to one ref and read one: the same, or another with equal content."""

    def f(x: Any) -> Any:
        made = [jax.new_ref(x), jax.new_ref(x)]
        made[0][...] = x * 2.0
        return made[n][...]

    return f


def one_or_two(n: int) -> Any:
    def f(x: Any) -> Any:
        made = [jax.new_ref(jnp.zeros(4)) for _ in range(n)]
        made[0][...] += x
        made[-1][...] += x * 2.0
        return made[0][...] + made[-1][...]

    return f


def in_loop(n: int) -> Any:
    def f(x: Any) -> Any:
        made = [jax.new_ref(x), jax.new_ref(x)]

        def body(i: Any, c: Any) -> Any:
            made[n][...] += c
            return c * 2.0

        return lax.fori_loop(0, 3, body, x), made[0][...], made[1][...]

    return f


def in_branch(n: int) -> Any:
    def f(x: Any) -> Any:
        made = [jax.new_ref(x), jax.new_ref(x)]

        def branch() -> None:
            made[n][...] = x * 2.0

        lax.cond(x[0] > 0, branch, lambda: None)
        return made[0][...], made[1][...]

    return f


def in_call(n: int) -> Any:
    def f(x: Any) -> Any:
        made = [jax.new_ref(x), jax.new_ref(x)]
        jax.jit(lambda r: r.__setitem__(..., x * 2.0))(made[n])
        return made[0][...], made[1][...]

    return f


differs("read of the ref that was written", aliased(0), aliased(1))
differs("one ref or two of equal content", one_or_two(1), one_or_two(2))
differs("which ref a loop changes", in_loop(0), in_loop(1))
differs("which ref a branch changes", in_branch(0), in_branch(1))
differs("which ref a call changes", in_call(0), in_call(1))
differs(
    "ref given as an argument, written or not",
    lambda x: _argument(x, True),
    lambda x: _argument(x, False),
)
differs(
    "freeze or read",
    lambda x: jax.freeze(jax.new_ref(x)),
    lambda x: jax.new_ref(x)[...],
)
differs(
    "content of a new ref",
    lambda x: jax.new_ref(x)[...],
    lambda x: jax.new_ref(x * 2)[...],
)
differs("place of a write in a row", *[lambda x, i=i: _row(x, i) for i in (0, 1)])


def _argument(x: Any, is_written: bool) -> Any:
    def f(r: Any) -> Any:
        before = r[...]
        if is_written:
            r[...] = before * 2.0
        return before

    r = jax.new_ref(x)
    return jax.jit(f)(r), r[...]


def _row(x: Any, i: int) -> Any:
    r = jax.new_ref(jnp.stack([x, x]))
    r[i, 1:3] = x[1:3] * 2
    return r[...]


# ---- draws -----------------------------------------------------------------------------


def draw(n: float = 1.0) -> Any:
    return lax.rng_uniform(0.0, n, (4,))


differs(
    "two draws or one that is used twice",
    lambda x: draw() - draw(),
    lambda x: (lambda u: u - u)(draw()),
)
differs(
    "two draws or one, in results",
    lambda x: (draw(), draw()),
    lambda x: (lambda u: (u, u))(draw()),
)
differs(
    "two draws or one, in calls",
    lambda x: (jax.jit(draw)(), jax.jit(draw)()),
    lambda x: (lambda u: (u, u))(jax.jit(draw)()),
)
differs(
    "a draw for every round or one",
    lambda x: lax.fori_loop(0, 3, lambda i, c: c + draw(), x),
    lambda x: (lambda u: lax.fori_loop(0, 3, lambda i, c: c + u, x))(draw()),
)
differs("bound of a draw", lambda x: draw(1.0), lambda x: draw(2.0))
differs(
    "shape of a draw",
    lambda x: lax.rng_uniform(0.0, 1.0, (4,)),
    lambda x: lax.rng_uniform(0.0, 1.0, (5,)),
)
differs(
    "order of two draws",
    lambda x: (draw(1.0), draw(2.0)),
    lambda x: (draw(2.0), draw(1.0))[::-1],
    because="each gets the other's bits",
)
differs(
    "a draw that is dropped",
    lambda x: (draw(), draw(2.0))[1],
    lambda x: draw(2.0),
    because="the next draw gets other bits",
)


# ---- order of effects ------------------------------------------------------------------


def say(*texts: str, ordered: bool = False) -> Any:
    def f(x: Any) -> Any:
        for text in texts:
            jax.debug.print(text + " {x}", x=x, ordered=ordered)
        return x

    return f


def say_in(place: str) -> Any:
    def f(x: Any) -> Any:
        def body(c: Any) -> Any:
            if place == "inside":
                jax.debug.print("here {x}", x=c)
            return c * 2.0

        y = lax.fori_loop(0, 3, lambda i, c: body(c), x)
        if place == "outside":
            jax.debug.print("here {x}", x=y)
        return y

    return f


differs("order of messages", say("a", "b"), say("b", "a"))
differs("one message or two", say("a"), say("a", "a"))
differs("ordered messages", say("a", ordered=True), say("a"))
differs("a message in a loop or after it", say_in("inside"), say_in("outside"))
differs("a message or none", say_in("inside"), say_in("nowhere"))
differs(
    "in which branch a message stands",
    *[
        lambda x, i=i: lax.cond(
            x[0] > 0, *[(say("a") if i == j else say("b")) for j in (0, 1)], x
        )
        for i in (0, 1)
    ],
)
differs(
    "ordered and unordered mixed",
    lambda x: (say("a", ordered=True)(x), say("b")(x))[0],
    lambda x: (say("b")(x), say("a", ordered=True)(x))[0],
)
regrouped("a call with a message or its body", lambda x: jax.jit(say("a"))(x), say("a"))
