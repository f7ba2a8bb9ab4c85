"""Write primitives of libraries as what they compute.

Equinox has primitives such as `nonbatchable`, which returns what it is given and refuses
to be batched. A file that binds them needs the library. Their implementations are
traced instead: the equations of JAX's own primitives that compute the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, from_jaxpr, params_of_jax
from untrace.lifting.blocks.inlining import Inliner, renamed
from untrace.lifting.lifter import Lifter
from untrace.lifting.spelling import PlainImports, Unspellable, spell

OPENED = "Written as what they compute"


class Opener(Inliner):
    """Puts what primitives of libraries compute in the places of their equations.

    Args:
      keep: Leave them as they are.
      unspellable: Open only those with params that cannot be written.
      pulled_back: Those that are functions with the backward passes that they have; more
        may be added.
      batches: How the program batches them: what JAX would batch in another way is a
        function with a batching rule.

    Attributes:
      primitives: Those that were opened, and whether with their backward passes.
      differing: Names of those whose derivatives are not those of what they compute.
      transforming: Names of those that are batched, or transposed, in another way.
      batched: Names of those that are functions with batching rules, and whether they
        take floats.
    """

    def __init__(
        self,
        keep: bool = False,
        unspellable: bool = False,
        pulled_back: Collection[Any] = (),
        batches: jaxapi.Batches | None = None,
    ) -> None:
        super().__init__()
        self._batches: jaxapi.Batches = {} if batches is None else batches
        self._pulled_back = pulled_back
        self._n_pulled_back = len(pulled_back)
        self._keep = keep
        self._unspellable = unspellable
        self.primitives: dict[Any, bool] = {}
        self.differing: dict[str, None] = {}
        self.transforming: dict[str, None] = {}
        self.batched: dict[str, bool] = {}
        self._originals: dict[Any, Callable[..., Any]] = {}

    def block(self, block: Block) -> Block:
        """Open the equations of a block and of its sub-programs, once."""
        if len(self._pulled_back) > self._n_pulled_back:
            self._n_pulled_back = len(self._pulled_back)
            self._blocks.clear()
            for known in (
                self.primitives,
                self.differing,
                self.transforming,
                self.batched,
            ):
                known.clear()
        return block if self._keep else super().block(block)

    def opened(self, eqn: Equation, operands: Sequence[Atom]) -> Block | None:
        """Return what an equation computes, if its primitive is a library's."""
        if not jaxapi.library_of(eqn.primitive):
            return None
        if self._unspellable and _can_be_bound(eqn):
            return None
        avals = [atom.aval for atom in eqn.operands]
        types = params_of_jax(eqn.params), avals, eqn.result_avals
        has_backward = eqn.primitive in self._pulled_back
        batched = self._batched(eqn, *types)
        if batched is not None:
            self.primitives[eqn.primitive] = has_backward
            self.batched[eqn.name] = self.batched.get(eqn.name, False) or any(
                jax.numpy.issubdtype(getattr(aval, "dtype", bool), jax.numpy.inexact)
                for aval in avals
            )
            block = self.block(from_jaxpr(batched))
            (call,) = block.equations
            block = self._in_place(block, call, "call", eqn.primitive, types[0])
            return _placed(block, eqn, operands)
        compute = jaxapi.pulled_back if has_backward else jaxapi.implementation
        jaxpr = compute(eqn.primitive, *types)
        if jaxpr is None:
            return None
        self.primitives[eqn.primitive] = has_backward
        block = self.block(from_jaxpr(jaxpr))
        if has_backward and jaxapi.pulls_back_otherwise(eqn.primitive, *types):
            (call,) = block.equations
            block = self._in_place(block, call, "call_jaxpr", eqn.primitive, types[0])
        elif jaxapi.differentiates_otherwise(eqn.primitive, *types):
            self.differing[eqn.name] = None
        elif jaxapi.transforms_otherwise(eqn.primitive, *types):
            block = self.block(self._call(eqn.primitive, types[0], jaxpr))
        return _placed(block, eqn, operands)

    def _batched(
        self,
        eqn: Equation,
        params: Mapping[str, Any],
        avals: Sequence[Any],
        out_avals: Sequence[Any],
    ) -> Any:
        """Return what an equation computes, as a function with its batching rule.

        None if the program does not batch it, or as JAX would.
        """
        key = jaxapi.batches_key(eqn.primitive, avals)
        cases = self._batches.get(key)
        if not cases:
            return None
        noted = self._batches
        rule = jaxapi.LibraryRule(eqn.primitive, params, tuple(avals), cases, noted)
        for primitive in rule.bound_in_batches():
            self.primitives.setdefault(primitive, primitive in self._pulled_back)
        is_pulled_back = eqn.primitive in self._pulled_back
        return jaxapi.batched(rule, out_avals, is_pulled_back)

    def _call(self, primitive: Any, params: Mapping[str, Any], jaxpr: Any) -> Block:
        """Write what a primitive computes as a function, in whose place it may be bound."""
        inner, consts = jaxapi.split_jaxpr(jaxpr)

        def called(*args: Any) -> Sequence[Any]:
            return jaxapi.eval_jaxpr(inner, consts, *args)

        called.__name__ = called.__qualname__ = primitive.name
        block = from_jaxpr(jaxapi.trace_flat(jax.jit(called), jaxpr.in_avals))
        (call,) = block.equations
        return self._in_place(block, call, "jaxpr", primitive, params)

    def _in_place(
        self,
        block: Block,
        call: Equation,
        param: str,
        primitive: Any,
        params: Mapping[str, Any],
    ) -> Block:
        """Let the function of a call, which is a block, be in the place of a primitive."""
        self.transforming[primitive.name] = None
        inside: Block = call.params[param]
        names = jaxapi.operand_names(primitive, len(inside.inputs))
        function = replace(
            inside,
            debug_info=inside.debug_info._replace(arg_names=names),
            original=self._bound(primitive, params),
        )
        call = replace(call, params={**call.params, param: function})
        return replace(block, equations=(call,))

    def _bound(self, primitive: Any, params: Mapping[str, Any]) -> Callable[..., Any]:
        """Return one function for equal params."""
        made = jaxapi.bound(primitive, params)
        items = [(key, type(params[key]), params[key]) for key in sorted(params)]
        try:
            return self._originals.setdefault((primitive, *items), made)
        except TypeError:  # params without a hash
            return made

    def note(self, lifter: Lifter) -> None:
        """Let the module and its header know the primitives that were opened."""
        if not self.primitives:
            return
        lifter.opened = dict(self.primitives)
        names = {primitive.name for primitive in self.primitives}
        owners = sorted({jaxapi.library_of(primitive) for primitive in self.primitives})
        bound = _listed(self.transforming)
        floats = [name for name, has_floats in self.batched.items() if has_floats]
        pulled = _listed(
            {p.name for p, has_backward in self.primitives.items() if has_backward}
        )
        lifter.note(
            f"{OPENED}: {_listed(names)} of {', '.join(owners)}. "
            "Their rules for `vmap` and `grad` are not kept: this file may allow what "
            "they refuse"
            + (f", and `src.load()` binds {bound} for theirs." if bound else ".")
            + (
                f" {pulled} can be differentiated in reverse mode alone."
                if pulled
                else ""
            )
            + (
                f" {_listed(self.batched)} {_is(self.batched)} batched as in this "
                "program alone."
                if self.batched
                else ""
            )
            + (
                f" Where {_listed(floats)} {_is(floats)} not batched, there is no "
                "derivative in reverse mode."
                if floats
                else ""
            )
        )
        if self.differing:
            differing = _listed(self.differing)
            lifter.note(
                f"Derivatives of {differing} are not kept, and refused: recover the "
                "derivative of the original instead (`src.load()` does not refuse)."
            )


def _placed(block: Block, eqn: Equation, operands: Sequence[Atom]) -> Block:
    """Return a block over the operands of the equation in whose place it is."""
    made = renamed(block, dict(zip(block.inputs, operands)))
    equations = [replace(e, source_info=eqn.source_info) for e in made.equations]
    return replace(made, equations=tuple(equations))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


def _is(names: Collection[str]) -> str:
    return "is" if len(names) == 1 else "are"


def _can_be_bound(eqn: Equation) -> bool:
    """Whether the params of an equation can be written, sub-programs aside."""
    for param in eqn.params.values():
        items = param if type(param) is tuple else (param,)  # pyright: ignore[reportUnknownVariableType]
        if any(isinstance(item, Block) for item in items):  # pyright: ignore[reportUnknownVariableType]
            continue
        try:
            spell(param, PlainImports())
        except Unspellable:
            return False
    return True
