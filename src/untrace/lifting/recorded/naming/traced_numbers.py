"""Numbers in modules of equinox that are arrays inside functions which JAX transforms.

They are settings, which a description of a module leaves out. `jax.jit` of a method makes
arrays of all of them, unlike `equinox.filter_jit`; then what is passed has them, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.inputs import is_module
from untrace.recovery.record import Body

_Held = set[tuple[type, str]]
"""Classes, and the names of attributes."""

_NUMBERS = (bool, int, float, complex)


def classes_of_traced_numbers(recording: Body) -> set[type]:
    """Return the modules whose numbers are arrays where a function takes them."""
    if "equinox" not in sys.modules:
        return set()
    found: set[type] = set()
    waiting = [recording]
    for body in waiting:  # which grows by what runs in it
        for item in body.calls:
            waiting += item.bodies
            if isinstance(item.function, jaxapi.Transformed):
                given = set(_held((item.args, item.kwargs), _NUMBERS))
                if given:
                    taken = [dict(run.parameters) for run in item.bodies]
                    both = given & set(_held(taken, (jaxapi.Tracer,)))
                    found |= {kind for kind, _ in both}
    return found


def _held(value: Any, kinds: tuple[type, ...]) -> Iterator[tuple[type, str]]:
    """Yield the attributes of modules in a value that are of some classes."""
    for part in jax.tree.leaves(value, is_leaf=is_module):
        if is_module(part):
            for name, attribute in vars(part).items():
                if isinstance(attribute, kinds):
                    yield type(part), name
                elif not isinstance(attribute, (jaxapi.Tracer, jax.Array)):
                    yield from _held(attribute, kinds)
