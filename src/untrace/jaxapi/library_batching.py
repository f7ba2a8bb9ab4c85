"""How a program batches the primitives of libraries, and functions that are batched so.

A library may say itself how its primitive is batched: whether any of a batch is wrong is
one answer for all of them.
"""

# These are JAX's private hooks; `tests/lifting/test_batched_libraries.py` checks each.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
from jax._src import core as _core
from jax._src.interpreters import batching as _batching

from untrace.jaxapi.evaluation import eval_jaxpr
from untrace.jaxapi.implementations import (
    bound,
    computation,
    implementation,
    is_same_plain,
    opened,
    pulled_back,
)
from untrace.jaxapi.jaxprs import equations_inside, split_jaxpr
from untrace.jaxapi.libraries import library_of
from untrace.jaxapi.recording import without_trace_caches
from untrace.jaxapi.tracing import trace_flat

Flags = tuple[bool, ...]
"""Which operands are batched."""
Cases = Mapping[Flags, int]
"""The ways in which something is batched, with a size of the batch."""
Batches = dict[tuple[Any, ...], dict[Flags, int]]
"""Those of primitives, by these and the types of their operands (see `batches_key`)."""


def batches_key(primitive: Any, avals: Iterable[Any]) -> tuple[Any, ...]:
    """Return what the ways are noted for: a primitive at types without batches."""
    types = [(getattr(a, "shape", ()), str(getattr(a, "dtype", ""))) for a in avals]
    return primitive, tuple(types)


@contextlib.contextmanager
def noting_batches(noted: Batches) -> Generator[None]:
    """Note how primitives of libraries are batched meanwhile, in this thread.

    Within another such context both take note.
    """
    token = _noted.set((*_noted.get(), noted))
    _watching.enter()
    try:
        yield
    finally:
        _watching.leave()
        _noted.reset(token)


_noted: ContextVar[tuple[Batches, ...]] = ContextVar("noted", default=())


class _Watching:
    """Puts rules that take note into JAX's table while any thread wants to know."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_wanted = 0
        self._replaced: list[tuple[Any, Any, Any]] = []

    def enter(self) -> None:
        table: dict[Any, Any] = _batching.fancy_primitive_batchers
        with self._lock:
            self._n_wanted += 1
            if self._n_wanted == 1:
                rules = [(p, rule) for p, rule in table.items() if library_of(p)]
                self._replaced = [(p, rule, _noting(p, rule)) for p, rule in rules]
                table.update({p: noting for p, _, noting in self._replaced})

    def leave(self) -> None:
        table: dict[Any, Any] = _batching.fancy_primitive_batchers
        with self._lock:
            self._n_wanted -= 1
            if not self._n_wanted:
                for primitive, rule, noting in self._replaced:
                    if table.get(primitive) is noting:  # else it has a new one
                        table[primitive] = rule
                self._replaced = []


_watching = _Watching()


def _noting(primitive: Any, rule: Callable[..., Any]) -> Callable[..., Any]:
    def noting(axis: Any, values: Sequence[Any], dims: Sequence[Any], **params: Any):
        flags = tuple([dim is not None for dim in dims])
        try:
            types = map(jax.typeof, values)
            key = batches_key(primitive, map(_without, types, dims))
            for noted in _noted.get() if any(flags) else ():
                noted.setdefault(key, {})[flags] = axis.size
        except Exception:  # values of a library may be what they like
            pass
        return rule(axis, values, dims, **params)

    return noting


def _without(aval: Any, dim: Any) -> Any:
    if dim is None:
        return aval
    shape = (*aval.shape[:dim], *aval.shape[dim + 1 :])
    return aval.update(shape=shape)


@dataclass(frozen=True, eq=False)
class LibraryRule:
    """The batching rule of a library's primitive, for a function in its place.

    Attributes:
      primitive: The primitive.
      params: Its params.
      avals: The types of its operands.
      cases: The ways in which it is batched.
      noted: Those of all primitives; those of the ones inside are added.
    """

    primitive: Any
    params: Mapping[str, Any]
    avals: tuple[Any, ...]
    cases: Cases
    noted: Batches

    def __call__(self, axis_size: int, in_batched: Any, *args: Any) -> Any:
        jaxpr, are_batched = self.traced(tuple(in_batched), axis_size)
        results = eval_jaxpr(*split_jaxpr(jaxpr), *args)
        if len(results) == 1:
            return results[0], are_batched[0]
        return tuple(results), tuple(are_batched)

    def traced(self, flags: Flags, size: int) -> tuple[Any, Sequence[bool]]:
        """Return what the primitive is in a batch, and which results are batched."""
        plain = trace_flat(bound(self.primitive, self.params), self.avals)
        axis = _batching.AxisData(_core.no_axis_name, size, None, None)
        return _batching.batch_jaxpr(plain, axis, list(flags), False)

    def plain(self, flags: Flags, size: int) -> Any:
        """Return what `traced` does, with what primitives in it compute, for a file.

        Those stay that the program batches again, or whose derivatives are others.
        """
        jaxpr, are_batched = self.traced(flags, size)
        inside = [(e.primitive, [v.aval for v in e.invars]) for e in _libraries(jaxpr)]
        if any(batches_key(*each) in self.noted for each in inside):
            return jaxpr, are_batched
        return opened(jaxpr, is_derived=True), are_batched

    def bound_in_batches(self) -> Iterator[Any]:
        """Yield the primitives of libraries that the primitive is in batches."""
        for flags, size in self.cases.items():
            for eqn in _libraries(self.traced(flags, size)[0]):
                yield eqn.primitive

    def is_own(self, plain: Any) -> bool:
        """Whether the library batches otherwise than JAX batches what is computed.

        How JAX does batch the primitives in that is noted.
        """
        for flags, size in self.cases.items():
            axis = _batching.AxisData(_core.no_axis_name, size, None, None)
            made, are_batched = self.traced(flags, size)
            try:
                with without_trace_caches(), noting_batches(self.noted):
                    other = _batching.batch_jaxpr(plain, axis, list(flags), False)
            except Exception:  # what JAX cannot do
                return True
            if list(are_batched) != list(other[1]) or not is_same_plain(made, other[0]):
                return True
        return False


def _libraries(jaxpr: Any) -> Iterator[Any]:
    """Yield the equations of libraries' primitives in a jaxpr and those inside."""
    for eqn in split_jaxpr(jaxpr)[0].eqns:
        for each in (eqn, *equations_inside(eqn)):
            if library_of(each.primitive):
                yield each


def batched(rule: LibraryRule, out_avals: Sequence[Any], is_pulled_back: bool) -> Any:
    """Return what a library's primitive computes, as a function with its batching rule.

    Args:
      rule: The rule.
      out_avals: The types of the results.
      is_pulled_back: Whether the function has the backward pass of the library, too.

    Returns:
      A closed jaxpr; None if what it computes is not known, or is batched in the same way
      by JAX.
    """
    of_rule = rule.primitive, rule.params, rule.avals, out_avals
    plain = computation(*of_rule)
    if plain is None or not rule.is_own(plain):
        return None
    inner = (pulled_back if is_pulled_back else implementation)(*of_rule)

    def of_batch(*args: Any) -> Any:
        results = eval_jaxpr(*split_jaxpr(inner), *args)
        return results[0] if len(results) == 1 else tuple(results)

    of_batch.__name__ = of_batch.__qualname__ = rule.primitive.name
    function = jax.custom_batching.custom_vmap(of_batch)
    function.def_vmap(rule)
    return trace_flat(lambda *args: jax.tree.leaves(function(*args)), rule.avals)
