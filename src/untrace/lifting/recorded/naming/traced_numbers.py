"""Numbers in modules of equinox that are arrays inside functions which JAX transforms.

They are settings, which a description of a module leaves out. `jax.jit` of a method makes
arrays of all of them, unlike `equinox.filter_jit`; then what is passed has them, too.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.inputs import is_module
from untrace.recovery.record import Body, calls_inside

_Held = set[tuple[type, str]]
"""Classes, and the names of attributes."""

_NUMBERS = (bool, int, float, complex)


def classes_of_traced_numbers(recording: Body) -> set[type]:
    """Return the modules whose numbers are arrays where a function takes them."""
    if "equinox" not in sys.modules:
        return set()
    found: set[type] = set()
    for item in calls_inside(recording):
        if item.bodies and not item.is_own:  # of a transformation, or `jax.lax.cond`
            given = _in_all([*item.args, *item.kwargs.values()], _NUMBERS)
            if given:
                runs = [run.parameters.values() for run in item.bodies]
                taken = _in_all(itertools.chain(*runs), (jaxapi.Tracer,))
                found |= {kind for kind, _ in given & taken}
    return found


def _in_all(values: Iterable[Any], kinds: tuple[type, ...]) -> _Held:
    return {one for value in values for one in _held(value, kinds)}


def _held(value: Any, kinds: tuple[type, ...]) -> Iterator[tuple[type, str]]:
    """Yield the attributes of modules in a value that are of some classes."""
    try:
        parts = jax.tree.leaves(value, is_leaf=is_module)
    except Exception:  # such as that of a state of equinox that has been used up
        return
    for part in parts:
        if is_module(part):
            for name, attribute in vars(part).items():
                if any(isinstance(one, kinds) for one in _items(attribute)):
                    yield type(part), name
                elif not isinstance(attribute, (jaxapi.Tracer, jax.Array)):
                    yield from _held(attribute, kinds)


def _items(attribute: Any) -> Iterator[Any]:
    """Yield what is in an attribute, or in the lists that it is."""
    if type(attribute) in (list, tuple):
        for one in attribute:
            yield from _items(one)
    else:
        yield attribute
