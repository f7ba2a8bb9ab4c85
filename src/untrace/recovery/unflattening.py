"""What JAX computes while it puts the arguments of a function together.

A class that JAX knows as a tree may convert what it holds when it is made, such as by
`jnp.array(scale)`, or compute more of it, `self.norm = jnp.linalg.norm(self.x)`. JAX makes
an object of the arrays that it traces, and then calls the function with it, which never
sees those: its first calls are what the class did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.recovery.contents import held_attributes
from untrace.recovery.record import Bind, Body, Call, Span
from untrace.syntax.names import is_name


def unflattening() -> None:
    """Stand for what a class does when JAX makes an object of it."""


def add_conversions(body: Body, made: Span, function: Any = None) -> None:
    """Let a function begin with what made the arrays that it was given.

    Args:
      body: Its run, which begins.
      made: What was bound from when JAX was called until then.
      function: What was called.
    """
    is_mapped = isinstance(function, jaxapi.Transformed) and function.maker[1] == "pmap"
    if is_mapped:  # it takes rows of what it is given before
        return
    if made.first == made.last or not (binds := _at(made)):
        return
    first = made.first
    sources, held, more = _sources(binds), _leaves(body), _attributes(body)
    traced: dict[int, Any] = {}
    calls: list[Call] = []
    for position, bind in binds:
        for result in bind.results:
            given = sources[id(result)]
            if id(result) in held and len(given) == 1:
                name, traced[id(result)] = held[id(result)], given[0]
            elif id(result) in more and id(result) not in held:
                name = more[id(result)]
            else:
                continue
            call = Call(unflattening, (), {}, None, target=name)
            call.span = Span(made.trace, made.log, first, position + 1, made.axes)
            call.result, call.setting = result, body.setting
            calls.append(call)
            first = position + 1
    is_clear = len({*map(id, traced.values())}) == len(traced)
    if is_clear:  # each is made of an array of its own
        body.traced = traced
        body.calls += calls


def _at(made: Span) -> list[tuple[int, Bind]]:
    """Return what was bound at the trace, with its positions."""
    chosen = set(map(id, made.binds()))
    log = enumerate(made.log[made.first : made.last], made.first)
    return [(position, bind) for position, bind in log if id(bind) in chosen]


def _sources(binds: Sequence[tuple[int, Bind]]) -> dict[int, list[Any]]:
    """Return the arrays from outside that each result was made of, by the `id` of that."""
    known: dict[int, list[Any]] = {}
    for _, bind in binds:
        each: dict[int, Any] = {}
        for arg in bind.args:
            if isinstance(arg, jaxapi.Tracer) and jaxapi.literal_behind(arg) is None:
                each |= {id(one): one for one in known.get(id(arg), [arg])}
        known |= {id(result): list(each.values()) for result in bind.results}
    return known


def _leaves(body: Body) -> dict[int, str | None]:
    """Return what arrays in objects that a function was given are called, by their `id`."""
    found: dict[int, str | None] = {}
    with jaxapi.outside_traces():  # taking an object apart may compute, too
        for value in jax.tree.leaves(dict(body.parameters), is_leaf=_is_object):
            if _is_object(value):
                flat, _ = jax.tree_util.tree_flatten_with_path(value)
                found |= {id(leaf): _word(path[-1]) for path, leaf in flat if path}
    return found


def _attributes(body: Body) -> dict[int, str | None]:
    """Return what arrays in attributes of such objects are called, by their `id`."""
    found: dict[int, str | None] = {}
    seen: dict[int, Any] = {}
    left = [*body.parameters.values()]
    for value in left:
        if id(value) in seen or isinstance(value, jaxapi.Tracer):
            continue
        seen[id(value)] = value
        if type(value) in (tuple, list, dict):
            left += value.values() if isinstance(value, dict) else value
        for name, one in held_attributes(value):
            left.append(one)
            if isinstance(one, jaxapi.Tracer):
                found[id(one)] = name if is_name(name) else None
    return found


def _is_object(value: Any) -> bool:
    is_plain = type(value) in (tuple, list, dict)
    return not (is_plain or isinstance(value, jaxapi.Tracer))


def _word(key: Any) -> str | None:
    """Return the name in a key of a tree, if it is one."""
    word = getattr(key, "key", getattr(key, "name", None))
    return word if isinstance(word, str) and is_name(word) else None
