"""`while` loops, run backwards as often as they were run.

How often that was has to follow from what is known: the condition reads a counter, or other
values that depend on nothing unknown. They are run forward first, alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from untrace.interpreters.inverse_rules.loops import (
    part_of,
    placed_like,
    split_values,
    why_stuck,
)
from untrace.interpreters.inverting.body import Solved, planned, solve_body
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.step import WAITS, NotInvertible, Step
from untrace.recovery.classifying import recorded


class Loop:
    """A `while` loop that is run backwards, as often as it was run."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.network = step.network
        params = step.params
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        operands = [cell.whole for cell in step.operands]
        self.cond, self.body = params["cond_jaxpr"], params["body_jaxpr"]
        self.of_cond = operands[:n_cond]
        self.of_body = operands[n_cond : n_cond + n_body]
        self.inits = operands[n_cond + n_body :]
        self.finals = [cell.whole for cell in step.results]
        self.first = n_cond + n_body
        self.n_body = n_body

    def solve(self) -> None:
        """Solve the loop.

        Raises:
          NotInvertible: If it cannot be.
        """
        own = self._own()
        n = range(len(self.inits))
        cond = planned(
            self.network, self.cond, [*self.of_cond, *[k in own for k in n]], [False]
        )
        if cond.outputs[0] is None:
            raise NotInvertible(
                "the number of turns is not known: the condition depends on what is "
                "not known"
            )
        ahead = self._forwards(own)
        for i, k in enumerate(own):
            self.step.make(k, part_of(ahead, 1, i))
        finals = {k: each for k, each in enumerate(self.finals) if each is not None}
        finals |= {k: part_of(ahead, 1, i) for i, k in enumerate(own)}
        carried = sorted(finals)
        while True:
            plan = self._plan((), carried)
            at_start = plan.inputs[self.n_body :]
            kept = [k for k in carried if at_start[k] is not None]
            if kept == carried:
                break
            carried = kept
        gains = [k for k in carried if self.inits[k] is None]
        if not gains:
            is_told = any(k not in own for k in finals)
            raise NotInvertible(
                "a turn of the loop cannot be solved" + why_stuck(plan)
                if is_told
                else WAITS
            )
        back = self._backwards(carried, [finals[k] for k in carried], ahead, plan)
        for i, k in enumerate(carried):
            self.network.learn(self.step.operands[self.first + k], part_of(back, 0, i))
        missing = plan.without_formula()
        self.network.log_dets += [(node, None) for node in missing]
        if plan.network.log_dets and not missing:
            self.network.log_dets.append((self.step.node, part_of(back, 1, 0)))

    def _plan(self, carried: Sequence[int], handed_on: Sequence[int]) -> Solved:
        n = range(len(self.inits))
        return planned(
            self.network,
            self.body,
            [*self.of_body, *[k in carried for k in n]],
            [k in handed_on for k in n],
        )

    def _own(self) -> list[int]:
        carried = [k for k, each in enumerate(self.inits) if each is not None]
        while True:
            found = self._plan(carried, ())
            kept = [k for k in carried if found.outputs[k] is not None]
            if kept == carried:
                return carried
            carried = kept

    def _forwards(self, own: Sequence[int]) -> Lazy:
        """Return the number of turns and how the values end that depend on nothing."""
        of_cond = [each for each in self.of_cond if each is not None]
        of_body = [each for each in self.of_body if each is not None]
        inits = [each for k in own if (each := self.inits[k]) is not None]
        n = range(len(self.inits))

        def placed(carry: Sequence[Any]) -> list[Lazy | None]:
            here = dict(zip(own, carry))
            return [Lazy.of(here[k]) if k in here else None for k in n]

        def run(*values: Any) -> Any:
            cond_values, body_values, carry = split_values(
                values, [len(of_cond), len(of_body), len(inits)]
            )

            @recorded
            def goes_on(state: Any) -> Any:
                _, *carry = state
                inputs = [*placed_like(self.of_cond, cond_values), *placed(carry)]
                made = solve_body(self.network, self.cond, inputs, [None]).outputs[0]
                return None if made is None else made.value

            @recorded
            def turn(state: Any) -> Any:
                n_turns, *carry = state
                inputs = [*placed_like(self.of_body, body_values), *placed(carry)]
                made = solve_body(self.network, self.body, inputs, [None] * len(n))
                ends = [each.value for k in own if (each := made.outputs[k])]
                return (n_turns + 1, *ends)

            n_turns, *ends = jax.lax.while_loop(goes_on, turn, (0, *carry))
            return n_turns, ends

        return Lazy(run, [*of_cond, *of_body, *inits], False)

    def _backwards(
        self, carried: Sequence[int], finals: Sequence[Lazy], ahead: Lazy, plan: Solved
    ) -> Lazy:
        of_body = [each for each in self.of_body if each is not None]
        n = range(len(self.inits))
        has_terms = not plan.without_formula() and bool(plan.network.log_dets)

        def run(ahead: Any, *values: Any) -> Any:
            body_values, carry = split_values(values, [len(of_body), len(finals)])

            @recorded
            def goes_on(state: Any) -> Any:
                return state[0] > 0

            @recorded
            def inverse_turn(state: Any) -> Any:
                n_turns, *carry = state
                here = dict(zip(carried, carry))
                solved = solve_body(
                    self.network,
                    self.body,
                    [*placed_like(self.of_body, body_values), *[None for _ in n]],
                    [Lazy.of(here[k]) if k in here else None for k in n],
                )
                at_start = solved.inputs[self.n_body :]
                made = [each.value for k in carried if (each := at_start[k])]
                made += [carry[-1] + solved.log_det()] if has_terms else []
                return (n_turns - 1, *made)

            term = [jnp.zeros(())] if has_terms else []
            start = (ahead[0], *carry, *term)
            _, *made = jax.lax.while_loop(goes_on, inverse_turn, start)
            return made[: len(finals)], made[len(finals) :]

        return Lazy(run, [ahead, *of_body, *finals], False)
