"""Trace a program so that some of its values are results as well.

What nothing is asked of stays a single equation. Calls are traced through; a loop stacks
the values of its turns, a `cond` has zeros for those of the branches it did not take.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.interpreters.diverging.moments import (
    BRANCH,
    TURN,
    TURNS,
    Around,
    Site,
)
from untrace.interpreters.evaluate import Evaluator, Step
from untrace.interpreters.sub_programs import (
    body_param,
    rows_where,
    scan_sizes,
    solver,
    split,
)

Seen = dict[Site, Any]
_Made = tuple[Sequence[Any], Seen]


class Observer:
    """Traces programs with more results.

    Args:
      places: The equations whose results are asked for, with what is around them.
      limits: How many turns of each `while` are kept.
    """

    def __init__(
        self,
        places: frozenset[tuple[Around, int]],
        limits: Mapping[tuple[Around, int], int],
    ) -> None:
        self._places = places
        self._limits = limits
        self._tracers: dict[str, Callable[..., _Made]] = {
            "scan": self._scan,
            "while": self._while,
            "cond": self._cond,
            "custom_linear_solve": self._solve,
        }
        self._entered = {
            (around[:depth], equation)
            for around, _ in places
            for depth, (equation, _) in enumerate(around)
        }

    def run(self, jaxpr: Any, args: Sequence[Any], around: Around = ()) -> _Made:
        """Trace a program.

        Args:
          jaxpr: The program, or a part of it.
          args: Its inputs.
          around: Where it stands.

        Returns:
          Its results, and the values that were asked for by their places.
        """
        seen: Seen = {}

        def handler(step: Step, *operands: Any) -> Any:
            many = step.primitive.multiple_results
            place = around, id(step.equation)
            trace = self._tracer(step, place)
            if trace is None:
                made = step.bind(*operands)
                results = made if many else [made]
            else:
                results, inner = trace(step, operands, around)
                seen.update(inner)
            if place in self._places and body_param(step.equation) is None:
                for position, value in enumerate(results):
                    seen[Site(*place, position)] = _plain(value)
            return results if many else results[0]

        evaluator = Evaluator(handler, jaxapi.equation_context)
        outputs = evaluator.run(jaxpr, args, ())
        return outputs, {s: v for s, v in seen.items() if v is not None}

    def _tracer(
        self, step: Step, place: tuple[Around, int]
    ) -> Callable[[Step, Sequence[Any], Around], _Made] | None:
        """Return how an equation is looked into; None if it is not."""
        is_asked = place in self._places
        if is_asked and step.name == "while":
            return self._while
        if is_asked and step.name == "cond":
            return self._cond
        if place not in self._entered:
            return None
        if step.name in _CHECKPOINTS:
            return self._checkpoint
        if body_param(step.equation) is not None:
            return self._call
        return self._tracers.get(step.name)

    def _call(self, step: Step, operands: Sequence[Any], around: Around) -> _Made:
        key = body_param(step.equation) or ""
        inside = (*around, (id(step.equation), None))
        return self.run(step.params[key], operands, inside)

    def _solve(self, step: Step, operands: Sequence[Any], around: Around) -> _Made:
        inside = (*around, (id(step.equation), None))
        return self.run(*solver(step.params, operands), inside)

    def _checkpoint(self, step: Step, operands: Sequence[Any], around: Around) -> _Made:
        """Trace the body anew: the call itself says what is computed again."""
        key = body_param(step.equation) or ""
        jaxpr, inside = step.params[key], (*around, (id(step.equation), None))
        sites: list[Site] = []

        def body(*args: Any) -> list[Any]:
            outputs, seen = self.run(jaxpr, args, inside)
            sites[:] = seen
            return [*outputs, *seen.values()]

        traced: Any = jax.make_jaxpr(body)(*operands)
        inner, consts = split(traced)
        is_open = split(jaxpr)[0] is jaxpr and inner is not traced
        if is_open and consts:
            return step.bind(*operands), {}
        params = {**step.params, key: inner if is_open else traced}
        made = step.primitive.bind(*operands, **step.primitive.get_bind_params(params))
        n_results = len(made) - len(sites)
        return made[:n_results], dict(zip(sites, made[n_results:]))

    def _scan(self, step: Step, operands: Sequence[Any], around: Around) -> _Made:
        params = step.params
        n_consts, n_carry = scan_sizes(params)
        consts, rows = operands[:n_consts], operands[n_consts + n_carry :]
        inside = (*around, (id(step.equation), TURN))
        sites: list[Site] = []

        def turn(carry: list[Any], row: list[Any]) -> tuple[list[Any], Any]:
            made, seen = self.run(params["jaxpr"], [*consts, *carry, *row], inside)
            sites[:] = seen
            return list(made[:n_carry]), (list(made[n_carry:]), list(seen.values()))

        carry, (stacked, values) = jax.lax.scan(
            turn,
            list(operands[n_consts : n_consts + n_carry]),
            list(rows),
            params["length"],
            params["reverse"],
            params["unroll"],
        )
        return [*carry, *stacked], dict(zip(sites, values))

    def _while(self, step: Step, operands: Sequence[Any], around: Around) -> _Made:
        params, place = step.params, (around, id(step.equation))
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        of_cond, of_body = operands[:n_cond], operands[n_cond : n_cond + n_body]
        carry = list(operands[n_cond + n_body :])
        inside = (*around, (id(step.equation), TURN))
        is_batched = bool(params["cond_jaxpr"].out_avals[0].shape)

        def holds(carry: Sequence[Any]) -> Any:
            condition = Evaluator(_bound, jaxapi.equation_context)
            return condition.run(params["cond_jaxpr"], [*of_cond, *carry], ())[0]

        def turn(carry: list[Any]) -> tuple[list[Any], Seen]:
            made, seen = self.run(params["body_jaxpr"], [*of_body, *carry], inside)
            if is_batched:
                made = rows_where(holds(carry), made, carry)
            return list(made), seen

        shapes, sites = _shapes(turn, carry)
        n_kept = self._limits.get(place, 1)
        kept = [jnp.zeros((n_kept, *s.shape), s.dtype) for s in shapes]

        def goes_on(state: Any) -> Any:
            return jnp.any(holds(state[1])) if is_batched else holds(state[1])

        def step_on(state: Any) -> Any:
            number, carry, kept = state
            made, seen = turn(carry)
            values = [
                rows.at[number].set(seen[s], mode="drop")
                for s, rows in zip(sites, kept)
            ]
            return number + 1, made, values

        start = (jnp.int32(0), carry, kept)
        number, carry, kept = jax.lax.while_loop(goes_on, step_on, start)
        return carry, {Site(*place, TURNS): number, **dict(zip(sites, kept))}

    def _cond(self, step: Step, operands: Sequence[Any], around: Around) -> _Made:
        index, *rest = operands
        branches = step.params["branches"]
        place = around, id(step.equation)

        def branch(k: int) -> Callable[[list[Any]], tuple[Sequence[Any], Seen]]:
            inside = (*around, (id(step.equation), k))
            return lambda operands: self.run(branches[k], operands, inside)

        bodies = [branch(k) for k in range(len(branches))]
        known = [_shapes(body, rest) for body in bodies]
        sites = [site for _, own in known for site in own]
        shapes = [shape for own, _ in known for shape in own]

        def taken(k: int) -> Callable[..., tuple[list[Any], list[Any]]]:
            def run(*operands: Any) -> tuple[list[Any], list[Any]]:
                made, seen = bodies[k](list(operands))
                values = [
                    seen[site] if site in seen else jnp.zeros(shape.shape, shape.dtype)
                    for site, shape in zip(sites, shapes)
                ]
                return list(made), values

            return run

        made, values = jax.lax.switch(
            index, list(map(taken, range(len(bodies)))), *rest
        )
        chosen = jnp.clip(jnp.asarray(index, jnp.int32), 0, len(branches) - 1)
        return made, {Site(*place, BRANCH): chosen, **dict(zip(sites, values))}


_CHECKPOINTS = frozenset({"remat2", "remat", "checkpoint"})


def _shapes(
    trace: Callable[[list[Any]], tuple[Sequence[Any], Seen]], operands: list[Any]
) -> tuple[list[Any], list[Site]]:
    """Return the types of the values that are seen in a part of a program, and where."""
    sites: list[Site] = []

    def values(operands: list[Any]) -> list[Any]:
        _, seen = trace(operands)
        sites[:] = seen
        return list(seen.values())

    return jax.eval_shape(values, operands), sites


def _bound(step: Step, *operands: Any) -> Any:
    return step.bind(*operands)


def _plain(value: Any) -> Any:
    """The bits of keys: they can be stacked like all else. None for what has none."""
    aval = jaxapi.aval_of(value)
    if jaxapi.is_key(aval):
        return jax.random.key_data(value)
    is_array = hasattr(aval, "dtype") and aval.dtype != jaxapi.FLOAT0
    return value if is_array and not jaxapi.is_token(aval) else None
