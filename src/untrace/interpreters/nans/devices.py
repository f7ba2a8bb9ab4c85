"""The devices that the body of a `shard_map` runs on, and what each of them computes.

Also run by path, by Python installations without this package: it imports JAX alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ..evaluate import Evaluator, Step
from ..sub_programs import all_equations
from .grading import badness

_SAME_ON_ONE_DEVICE = frozenset({"pvary", "pcast"})
"""Primitives that only say on which devices values differ."""


def bind_alone(step: Step, *operands: Any) -> Any:
    """Evaluate a step as a whole, outside of the `shard_map` that it may belong to.

    All types inside of a `shard_map` name its mesh. So what is inside of the step is
    traced anew, without it.
    """
    if step.name in _SAME_ON_ONE_DEVICE:
        return operands if step.primitive.multiple_results else operands[0]
    if not _is_mapped(step.equation):
        return step.bind(*operands)
    evaluator = Evaluator(bind_alone, own_context_alone)
    return Step(step.equation, step.path, evaluator)(*map(without_mesh, operands))


@contextlib.contextmanager
def own_context_alone(equation: Any) -> Generator[None, None, None]:
    """Enter the context of an equation, but not the mesh of its `shard_map`."""
    with equation.ctx.manager:
        if not _is_mapped(equation):
            yield
            return
        with jax.sharding.use_abstract_mesh(jax.sharding.AbstractMesh((), ())):
            yield


def _is_mapped(equation: Any) -> bool:
    mesh = getattr(equation.ctx, "cur_abstract_mesh", None)
    return bool(getattr(mesh, "manual_axes", ()))


def without_mesh(value: Any) -> Any:
    """Return a value that is known as one whose type names no mesh."""
    if isinstance(value, jax.core.Tracer):
        return value
    if jnp.issubdtype(jnp.result_type(value), jax.dtypes.prng_key):
        words = without_mesh(jax.random.key_data(value))
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(value))
    return jnp.asarray(np.asarray(value))


class Devices(NamedTuple):
    """The devices of a `shard_map`.

    Attributes:
      params: Those of its equation.
      around: Those of the `shard_map` that it stands in, if it does.
      operands: What it is given there, as a function of what the outermost is given.
    """

    params: Any
    around: Devices | None = None
    operands: Callable[..., Sequence[Any]] | None = None

    @property
    def are_several(self) -> bool:
        """Whether what one of them has may itself lie on several devices."""
        mesh = self.params["mesh"]
        mapped = {*getattr(mesh, "manual_axes", ()), *self.params["newly_manual_axes"]}
        return any(size > 1 for n, size in mesh.shape.items() if n not in mapped)

    def each(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that stacks what another one computes on each device."""
        mapped = _stacked(self.params, function)
        around, operands = self.around, self.operands
        if around is None or operands is None:
            return mapped
        outside = around.each(lambda *args: mapped(*operands(*args)))

        def each_of_each(*args: Any) -> Any:
            made = outside(*args)
            return jax.tree.map(lambda x: jnp.reshape(x, (-1, *x.shape[2:])), made)

        return each_of_each


def _stacked(params: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that stacks what another one computes on devices of one map."""
    axes = [n for n in params["mesh"].axis_names if n in params["newly_manual_axes"]]

    def stacked(*args: Any) -> Any:
        return jax.tree.map(lambda x: jnp.asarray(x)[None], function(*args))

    return jax.shard_map(
        stacked,
        mesh=params["mesh"],
        in_specs=tuple(params["in_specs"]),
        out_specs=jax.P(tuple(axes)),
        axis_names=set(axes),
        check_vma=params["check_vma"],
    )


def first_bad_device(results: Sequence[Any], level: int) -> int:
    """Return the first device with a bad result; 0 if none has one."""
    grades = [[int(badness(x)) for x in result] for result in results]
    bad = [i for grade in grades for i, g in enumerate(grade) if g >= level]
    return min(bad, default=0)


def is_on_several(jaxpr: Any, args: Sequence[Any]) -> bool:
    """Return whether values of a program may lie on several devices."""
    placed = [getattr(x, "sharding", None) for x in args]
    if any(len(sharding.device_set) > 1 for sharding in placed if sharding is not None):
        return True
    return any(eqn.primitive.name in _PLACING for eqn in all_equations(jaxpr))


_PLACING = frozenset({"mesh_cast", "reshard", "shard_map", "sharding_constraint"})
"""Primitives that put values on the devices of a mesh."""
