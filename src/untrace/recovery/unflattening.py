"""What JAX computes while it puts the arguments of a function together.

A class that JAX knows as a tree may convert what it holds when it is made, such as by
`jnp.array(scale)`, or compute more of it, `self.norm = jnp.linalg.norm(self.x)`. JAX makes
an object of the arrays that it traces, and then calls the function with it, which never
sees those: its first calls are what the class did.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.recovery.contents import held_attributes
from untrace.recovery.record import Bind, Body, Call, Span
from untrace.syntax.names import is_name


def unflattening() -> None:
    """Stand for what a class does when JAX makes an object of it."""


class Lost:
    """Stands for an array that JAX gave to a class, which computed another one."""


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
    held = _leaves(body)
    traced = _traced(binds, held)
    is_clear = len({*map(id, traced.values())}) == len(traced)
    if is_clear:  # each is made of an array of its own
        body.traced = traced
        more = _attribute_names(body.parameters.values())
        names = {key: word for key, word in more.items() if key not in held}
        names |= {key: held[key] for key in traced}
        body.calls += _makers(binds, names, made, made.first, body.setting)


def add_results(call: Call) -> list[Call]:
    """Return what made more of the objects that a call returned; it ends before that."""
    made, value = call.span, call.result
    if made is None or made.first == made.last or isinstance(value, jaxapi.Tracer):
        return []
    names = _attribute_names([value])
    if not names or len(binds := _at(made)) < 2:
        return []
    with jaxapi.outside_traces():
        leaves = jax.tree.leaves(value)
    known, lost = set(map(id, leaves)), set[int]()
    if len(known) == len(leaves):
        lost = {id(leaves[i]) for i in _computed(value, leaves)}
    end = _end(call, binds, known - lost)
    after = [(position, bind) for position, bind in binds if position >= end]
    names = {k: word for k, word in names.items() if k in lost or k not in known}
    makers = _makers(after, names, made, end, call.setting)
    traced = {k: v for k, v in _traced(after, known).items() if k in lost}
    call.is_remade = traced.keys() != lost
    if not makers or call.is_remade:
        return []
    call.span, call.traced = replace(made, last=end), traced
    call.returns = call.returns and not traced
    for maker in makers:
        maker.place, maker.turn = call.place, call.turn
    return makers


def _end(call: Call, binds: Sequence[tuple[int, Bind]], kept: Collection[int]) -> int:
    """Return the position where a call was at an end, and classes began to compute.

    What they read are leaves, or what stood in the place of those: results of the last
    equation. Else it is not known what they did, and the call ends behind all.
    """
    last = [pair for pair in binds if any(id(one) in kept for one in pair[1].results)]
    if not last and _is_one_equation(call.function):
        last = [pair for pair in binds if any(jaxapi.sub_jaxprs_of([pair[1]]))][:1]
    if not last:
        return binds[-1][0] + 1
    end = last[-1][0] + 1
    before = {id(r) for at, bind in binds if at < end for r in bind.results}
    unknown = before - {*kept, *map(id, last[-1][1].results)}
    read = {id(arg) for at, bind in binds if at >= end for arg in bind.args}
    return binds[-1][0] + 1 if unknown & read else end


def _is_one_equation(function: Any) -> bool:
    """Whether what was called binds one equation with a program: a loop, `jax.jit`."""
    is_transformed = isinstance(function, jaxapi.Transformed)
    return not is_transformed or function.maker[1] in ("jit", "checkpoint")


def _computed(value: Any, leaves: Sequence[Any]) -> list[int]:
    """Return the positions of leaves that classes compute where JAX makes objects anew.

    Some convert what is no array of JAX, which does not count.
    """
    structure = jax.tree.structure(value)
    found: list[int] = []
    for make in (np.zeros, jnp.zeros):
        try:
            with jaxapi.outside_traces():
                given = [make(leaf.shape, leaf.dtype) for leaf in leaves]
                again = jax.tree.leaves(jax.tree.unflatten(structure, given))
        except Exception:  # of a class that cannot be made of zeros, say
            return []
        found = [i for i, (a, b) in enumerate(zip(given, again)) if a is not b]
        if not found:
            break
    return found


def _traced(binds: Sequence[tuple[int, Bind]], held: Collection[int]) -> dict[int, Any]:
    """Return what JAX traced for the leaves that were made here, by the `id` of these.

    A leaf that was made of one array is a conversion of that, unless this is a leaf.
    """
    sources = _sources(binds)
    traced: dict[int, Any] = {}
    for _, bind in binds:
        for result in bind.results:
            if id(result) in held:
                given = sources[id(result)]
                is_converted = len(given) == 1 and id(given[0]) not in held
                traced[id(result)] = given[0] if is_converted else Lost()
    return traced


def _makers(
    binds: Sequence[tuple[int, Bind]],
    names: Mapping[int, str | None],
    made: Span,
    first: int,
    setting: Any,
) -> list[Call]:
    """Return calls, in order, that make the arrays with these names, by their `id`."""
    calls: list[Call] = []
    for position, bind in binds:
        for result in bind.results:
            if id(result) not in names:
                continue
            call = Call(unflattening, (), {}, None, target=names[id(result)])
            call.span = Span(made.trace, made.log, first, position + 1, made.axes)
            call.result, call.setting = result, setting
            calls.append(call)
            first = position + 1
    if calls:  # what else was made may be asked for, too
        last = calls[-1]
        assert last.span is not None
        last.span = replace(last.span, last=made.last)
    return calls


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


def _attribute_names(values: Iterable[Any]) -> dict[int, str | None]:
    """Return what arrays in attributes of objects are called, by their `id`.

    Objects that JAX does not take apart, it does not put together either.
    """
    found: dict[int, str | None] = {}
    left = [*values]
    for value in left:
        if type(value) in (tuple, list, dict):
            left += value.values() if isinstance(value, dict) else value
        elif not isinstance(value, jaxapi.Tracer) and (parts := _children(value)):
            left += parts
            for name, one in held_attributes(value):
                is_plain = type(one) in (tuple, list, dict)
                arrays = jax.tree.leaves(one) if is_plain else [one]
                found |= {id(x): name for x in arrays if isinstance(x, jaxapi.Tracer)}
    return {
        key: name if name and is_name(name) else None for key, name in found.items()
    }


def _children(value: Any) -> list[Any]:
    """Return what JAX takes out of an object; nothing if that is a leaf."""
    try:
        with jaxapi.outside_traces():  # taking an object apart may compute, too
            parts = jax.tree.leaves(value, is_leaf=lambda one: one is not value)
    except Exception:  # of its class, where it was not made by JAX
        return []
    return [part for part in parts if part is not value]


def _is_object(value: Any) -> bool:
    is_plain = type(value) in (tuple, list, dict)
    return not (is_plain or isinstance(value, jaxapi.Tracer))


def _word(key: Any) -> str | None:
    """Return the name in a key of a tree, if it is one."""
    word = getattr(key, "key", getattr(key, "name", None))
    return word if isinstance(word, str) and is_name(word) else None
