"""The table of primitives is complete, and says of each what is so.

Primitives are tried on the examples of the rules of level "lax", those that are an equation
alone; calls, loops and what needs several equations have tests of their own.
"""

from __future__ import annotations

import collections
import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import untrace
from tests.rules.examples import EXAMPLES, Example
from untrace.interpreters.inverse_rules.listing import listed
from untrace.interpreters.inverse_rules.table import LOST
from untrace.lifting.controls import CONTROLS
from untrace.lifting.rules.table import RULES


def table() -> dict[str, tuple[str, str]]:
    """Return verdict and text, by primitives."""
    rows = [line.split(" | ") for line in listed().splitlines()[2:]]
    return {
        name.strip("|` "): (verdict, text.removesuffix(" |"))
        for name, verdict, *rest in rows
        for text in [" | ".join(rest)]
    }


TABLE = table()


def drawn(value: Any, random: np.random.RandomState) -> Any:
    """Return numbers between 0.2 and 0.8, or whole ones, for a type."""
    if not isinstance(value, jax.ShapeDtypeStruct):
        return value
    if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
        keys = jax.random.split(jax.random.key(0), max(int(np.prod(value.shape)), 1))
        return keys.reshape(value.shape)
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        made = random.uniform(0.2, 0.8, value.shape) * np.exp(0.3j)
        return jnp.asarray(made, value.dtype)
    if jnp.issubdtype(value.dtype, jnp.inexact):
        made = random.uniform(0.2, 0.8, value.shape)
        if len(value.shape) > 1 and value.shape[-1] == value.shape[-2]:
            made = made + np.swapaxes(made, -1, -2) + 2 * np.eye(value.shape[-1])
        return jnp.asarray(made, value.dtype)
    return jnp.asarray(random.randint(0, 2, value.shape), value.dtype)


def is_inverted(case: Example) -> bool:
    """Return whether the program of an example is inverted in all or one argument."""
    random = np.random.RandomState(0)
    args = jax.tree.map(lambda leaf: drawn(leaf, random), list(case.args))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ys = case.function(*args)
        except Exception:  # some are only traced: on other devices, at other types
            return False
    results = ys if type(ys) is tuple else (ys,)
    for argnum in (None, *range(len(args))):
        known = [a for i, a in enumerate(args) if argnum is not None and i != argnum]
        try:
            untrace.inverse(
                case.function, *args, argnums=argnum, principal=True, check=False
            )(*results, *known)
        except untrace.InverseError:
            continue
        return True
    return False


def is_alone(case: Example) -> bool:
    """Return whether a program is one equation of its primitive."""
    try:
        eqns = jax.make_jaxpr(case.function)(*case.args).eqns
    except Exception:  # some are not there in this version of JAX
        return False
    return [eqn.primitive.name for eqn in eqns] == [case.primitive]


@functools.cache
def outcomes() -> dict[str, list[bool]]:
    """Return whether the first examples of each primitive are inverted."""
    found: dict[str, list[bool]] = collections.defaultdict(list)
    for case in EXAMPLES:
        if case.args and len(found[case.primitive]) < N_EXAMPLES and is_alone(case):
            found[case.primitive].append(is_inverted(case))
    return {name: each for name, each in found.items() if each}


N_EXAMPLES = 5

PARTS = """slice dynamic_slice real imag sort top_k svd reduce_precision reduce_sum
reduce_prod reduce_max reduce_min""".split()  # noqa: SIM905
"""One equation is not enough, or has other params: tested beside the rules."""


def test_every_primitive_has_a_line() -> None:
    known = {*RULES, *CONTROLS} - {"*", "call", "idiom", "remat"}  # not of primitives
    assert not known - TABLE.keys(), sorted(known - TABLE.keys())


def test_what_the_table_refuses_is_refused() -> None:
    refused = {name for name, (verdict, _) in TABLE.items() if verdict == "no"}
    assert refused == LOST.keys()
    inverted = {name for name in refused if any(outcomes().get(name, []))}
    assert not inverted
    assert len(refused & outcomes().keys()) > 50


def test_what_the_table_inverts_is_inverted() -> None:
    tried = {n for n in outcomes() if TABLE[n][0] != "no"} - set(PARTS)
    assert len(tried) > 70
    assert not {name for name in tried if not any(outcomes()[name])}
