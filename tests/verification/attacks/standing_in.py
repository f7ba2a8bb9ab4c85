"""Functions of leaves that stand in for batching rules and host functions of trees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.custom_batching import custom_vmap

from tests.verification.attacks.pairs import F32, X, Y, differs


def rule(size: int, flags: Any, tree: Any, n: float = 2.0) -> Any:
    """Take and return a dict."""
    out = dict(zip(("sum", "same"), (n * sum(tree.values()), tree["a"])))
    return out, jax.tree.map(lambda _: True, out)


def another(size: int, flags: Any, tree: Any) -> Any:
    return rule(size, flags, tree, n=3.0)


def made(n: float) -> Any:
    def local(size: int, flags: Any, tree: Any) -> Any:
        return rule(size, flags, tree, n)

    return local


RULE, ANOTHER = f"{__name__}.rule", f"{__name__}.another"
LOCAL = f"{__name__}.made.<locals>.local"
JVP = "jax._src.custom_batching.custom_vmap_jvp.<locals>.jvp_of_rule_rule"


def of_trees(*batching: Any, keys: Sequence[str] = ("ab",)) -> Any:
    """Call a function of a tree with one rule after the other."""

    def program(x: Any, y: Any) -> Any:
        for i, batched in enumerate(batching):
            f = custom_vmap(lambda d: {"sum": sum(d.values()), "same": d["a"]})
            f.def_vmap(batched)
            out = f(dict(zip(keys[i % len(keys)], (x, y, y))))
            x, y = out["same"], out["sum"]
        return x, y

    return program


@functools.cache
def stand_in(name: str, takes_leaves: bool = True, number: int = 0) -> Any:
    """A function that says that it takes the leaves of what another one takes."""

    def function(*args: Any) -> Any:
        raise NotImplementedError

    function.__untrace_stand_in__ = name  # type: ignore[attr-defined]
    if takes_leaves:
        function.__untrace_takes_leaves__ = True  # type: ignore[attr-defined]
    return function


def of_leaves(
    *rules: Any, function: Any = lambda *leaves: (leaves[0], sum(leaves)), n: int = 2
) -> Any:
    """Call the function over leaves, as a file is written."""

    def program(x: Any, y: Any) -> Any:
        for batched in rules:
            f = custom_vmap(lambda *leaves: function(*leaves))
            f.def_vmap(batched)
            x, y = f(*(x, y, y)[:n])
        return x, y

    return program


def closing_over(name: str) -> Any:
    """Call a function of one leaf that closes over the other operand."""

    def program(x: Any, y: Any) -> Any:
        f = custom_vmap(lambda y: (x, sum((x, y))))
        f.def_vmap(stand_in(name))
        return f(y)

    return program


def pair(name: str, first: Any, second: Any) -> None:
    """Register two programs whose rules differ, or that are not both compared."""
    differs(name, first, second, X, Y, because="their batching rules differ")


pair("rules of other trees", of_trees(rule), of_trees(rule, keys=("ac",)))
pair("a rule of a tree or of leaves", of_trees(rule), of_leaves(rule))
pair("a stand-in for another rule", of_trees(rule), of_leaves(stand_in(ANOTHER)))
pair(
    "a stand-in for a rule of a tree, not of its leaves",
    of_trees(rule),
    of_leaves(stand_in(RULE, False)),
)
pair(
    "a stand-in for a rule, over another function",
    of_trees(rule),
    of_leaves(stand_in(RULE), function=lambda x, y: (x, x - y)),
)
pair(
    "a stand-in for a rule, its results in another order",
    of_trees(rule),
    of_leaves(stand_in(RULE), function=lambda *leaves: (sum(leaves), leaves[0])),
)
pair(
    "a stand-in for a rule of fewer leaves",
    of_trees(rule, keys=("abc",)),
    of_leaves(stand_in(RULE)),
)
pair(
    "a stand-in for a rule of more leaves",
    of_trees(rule),
    of_leaves(stand_in(RULE), n=3),
)
pair(
    "a stand-in for a rule that is not given what is closed over",
    of_trees(rule),
    closing_over(RULE),
)
pair(
    "stand-ins for two rules in another order",
    of_trees(rule, another),
    of_leaves(stand_in(ANOTHER), stand_in(RULE)),
)
pair(
    "a stand-in for two rules",
    of_trees(made(2.0), made(3.0)),
    of_leaves(*[stand_in(LOCAL)] * 2),
)
pair(
    "a stand-in for a rule of two trees",
    of_trees(rule, rule, keys=("ab", "ac")),
    of_leaves(*[stand_in(RULE)] * 2),
)
pair(
    "stand-ins for two rules, one of them twice",
    of_trees(*map(made, (2.0, 3.0, 3.0))),
    of_leaves(*[stand_in(LOCAL, number=n) for n in (0, 1, 0)]),
)
pair(
    "a stand-in for the rule of a derivative",
    lambda x, y: jax.jvp(of_trees(rule), (x, y), (x, y)),
    lambda x, y: jax.jvp(of_leaves(stand_in(RULE)), (x, y), (x, y)),
)
pair(
    "stand-ins for rules of two names",
    *[of_leaves(stand_in(name)) for name in (RULE, ANOTHER)],
)
pair(
    "stand-ins for a rule, of leaves or not",
    *[of_leaves(stand_in(RULE, of)) for of in (True, False)],
)


# ---- host functions --------------------------------------------------------------------


def hosts(*functions: Callable[[Any], Any], is_tree: bool = True) -> Any:
    """Call host functions of a tree, or of its leaf."""

    def program(x: Any) -> Any:
        for function in functions:
            x = jax.pure_callback(function, F32, {"a": x} if is_tree else x)
        return x

    return program


def host(n: float) -> Any:
    return lambda tree: np.asarray(tree["a"]) * np.float32(n)


HOST = f"{__name__}.host.<locals>.<lambda>"
differs(
    "a stand-in of leaves for two host functions",
    hosts(host(2.0), host(3.0)),
    hosts(*[stand_in(HOST)] * 2, is_tree=False),
    because="the host functions differ",
)
differs(
    "stand-ins for host functions of two names",
    *[hosts(stand_in(name, False), is_tree=False) for name in "ab"],
    because="the host functions differ",
)
