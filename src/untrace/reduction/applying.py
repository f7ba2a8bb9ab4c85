"""Apply edits: evaluate the program under them while JAX traces it again.

Equations that no edit concerns are bound as they stood. Where the types of operands or
the insides of a sub-program have changed, the sub-program is traced again too. What
does not trace, or gives results that do not fit, is no candidate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from untrace import jaxapi
from untrace.ir import (
    Atom,
    Block,
    Equation,
    Literal,
    Value,
    all_blocks,
    all_equations,
    from_jaxpr,
    params_of_jax,
    rebuilt,
    sub_blocks,
)
from untrace.jaxapi import evaluation
from untrace.reduction.edits import Edits, Held, Opening, Substitute
from untrace.reduction.program import Program


class Unfitting(Exception):
    """The edited program is not one."""


def apply(program: Program, edits: Edits) -> Program | None:
    """Return the edited program without dead code, or None if it does not trace."""
    held = [
        value
        for value in _defined(program.block)
        if isinstance(edits.replaced.get(value), Held)
    ]
    carried = [opening for opening in edits.opened.values() if opening.carry]
    entering = [array for opening in carried for array in opening.carry or ()]
    arrays = [*_inputs(program, edits), *_held(edits, held), *entering]
    kept = [value for value in program.block.inputs if value not in edits.inputs]
    known = {value: value.aval for value in kept}
    places: list[Value | None] = [*program.block.inputs, *held]
    places += [None] * len(entering)
    avals = [
        jaxapi.aval_of(array) if value not in known else known[value]
        for value, array in zip(places, arrays)
    ]
    names = [*program.names, *[""] * (len(held) + len(entering))]
    evaluator = _Evaluator(edits, program.block)

    def flat(*tracers: Any) -> list[Any]:
        n = len(program.block.inputs)
        known = dict(zip(held, tracers[n:]))
        rest = iter(tracers[n + len(held) :])
        evaluator.carries = {
            id(opening): tuple(next(rest) for _ in opening.carry or ())
            for opening in carried
        }
        return evaluator.block(program.block, tracers[:n], known, edits.outputs)

    try:
        with jaxapi.deep_recursion():
            traced = jaxapi.trace_flat(flat, avals, program.name, names)
            closed, used = evaluation.without_dead_code(traced)
    except Exception:  # an edit may ask anything of JAX
        return None
    made = _cleaned(
        traced, closed, used, arrays, names, program.name, _controls(program, edits)
    )
    return None if _n_passing(made.block) > _n_passing(program.block) else made


def _n_passing(block: Block) -> int:
    """Count results of `while` loops that are just what enters.

    `jax.lax.while_loop` gives these without the loop, so that no public call makes it.
    """
    return sum(
        result is not None and is_passed
        for eqn in all_equations(block)
        if eqn.name == "while"
        for result, is_passed in zip(eqn.results, _passed(eqn))
    )


def program_from(
    jaxpr: Any,
    values: Sequence[Any],
    names: Sequence[str],
    name: str,
    controls: Sequence[Any] | None = None,
) -> Program:
    """Make a program of a closed jaxpr: its constants become inputs, dead code goes."""
    with jaxapi.deep_recursion():
        closed, used = evaluation.without_dead_code(jaxpr)
        return _cleaned(jaxpr, closed, used, values, names, name, controls)


# ---- what inputs hold -----------------------------------------------------------------


def _inputs(program: Program, edits: Edits) -> list[Any]:
    """Return what the inputs of a program hold after the edits."""
    return [
        _changed(edits.inputs[value], array) if value in edits.inputs else array
        for value, array in zip(program.block.inputs, program.values)
    ]


def _held(edits: Edits, held: Sequence[Value]) -> list[Any]:
    found = [edits.replaced[value] for value in held]
    return [item.array for item in found if isinstance(item, Held)]


def _controls(program: Program, edits: Edits) -> list[Any] | None:
    """Return the control inputs after the edits, in the order of all inputs.

    Where an edit says nothing of them and they no longer fit, they are what the inputs
    are: then the failure cannot be told to depend on that input.
    """
    if program.controls is None:
        return None
    inputs = [
        _control(edits.inputs[value], array, control)
        if value in edits.inputs
        else control
        for value, array, control in zip(
            program.block.inputs, program.values, program.controls
        )
    ]
    held = [
        item.array if item.control is None else item.control
        for value in _defined(program.block)
        if isinstance(item := edits.replaced.get(value), Held)
    ]
    carried = [
        array
        for opening in edits.opened.values()
        if opening.carry
        for array in opening.control or opening.carry
    ]
    return [*inputs, *held, *carried]


def _control(change: Any, array: Any, control: Any) -> Any:
    if callable(change):
        return change(control)
    is_same = jaxapi.same_type(jaxapi.aval_of(change), jaxapi.aval_of(array))
    return control if is_same else change


def _changed(change: Any, array: Any) -> Any:
    return change(array) if callable(change) else change


def _cleaned(
    traced: Any,
    closed: Any,
    used: Sequence[bool],
    values: Sequence[Any],
    names: Sequence[str],
    name: str,
    controls: Sequence[Any] | None = None,
) -> Program:
    consts = jaxapi.split_jaxpr(traced)[1]
    kept = [i for i, is_used in enumerate(used) if is_used]
    held, called = [*consts, *values], [*[""] * len(consts), *names]
    others = None if controls is None else [*consts, *controls]
    return Program(
        from_jaxpr(closed),
        tuple(held[i] for i in kept),
        name,
        tuple(called[i] for i in kept),
        None if others is None else tuple(others[i] for i in kept),
    )


def _defined(block: Block) -> list[Value]:
    results = [r for eqn in block.equations for r in eqn.results if r is not None]
    return [*block.inputs, *results]


class _Evaluator:
    """Evaluates blocks under edits; what is not edited is bound as it was."""

    def __init__(self, edits: Edits, root: Block) -> None:
        self.edits = edits
        self.touched = _touched(edits, root)
        self.read = _read(root) if edits.opened else set[Atom]()
        self.carries: dict[int, tuple[Any, ...]] = {}

    def block(
        self,
        block: Block,
        arguments: Sequence[Any],
        known: Mapping[Value, Any] | None = None,
        outputs: tuple[Atom, ...] | None = None,
    ) -> list[Any]:
        replaced = self.edits.replaced
        changed = self.edits.constants
        env: dict[Value, Any] = {
            value: changed.get(value, const) for value, const in block.constants
        }
        for value, argument in zip(block.inputs, arguments):
            env[value] = self._substitute(value, argument, env, known)
        for eqn in block.equations:
            if self._is_gone(eqn):
                results: Sequence[Any] = [None] * len(eqn.results)
            else:
                results = self.equation(eqn, [self.atom(a, env) for a in eqn.operands])
            for value, result in zip(eqn.results, results):
                if value is None:
                    continue
                if value in replaced:
                    result = self._substitute(value, result, env, known)
                env[value] = result
        chosen = block.outputs if outputs is None else outputs
        return [self.atom(a, env) for a in chosen]

    def atom(self, atom: Atom, env: Mapping[Value, Any]) -> Any:
        if isinstance(atom, Literal):
            return self.edits.literals.get(atom, atom.value)
        return env[atom]

    def _substitute(
        self,
        value: Value,
        result: Any,
        env: Mapping[Value, Any],
        known: Mapping[Value, Any] | None,
    ) -> Any:
        """Return what stands for a value: itself, if no edit says otherwise."""
        substitute: Substitute | None = self.edits.replaced.get(value)
        if substitute is None:
            return result
        if isinstance(substitute, Held):
            return substitute.array if known is None else known[value]
        return self.atom(substitute, env)

    def _is_gone(self, eqn: Equation) -> bool:
        """Whether nothing of an equation is wanted."""
        if eqn in self.edits.dropped:
            return True
        replaced = self.edits.replaced
        return not eqn.effects and all(
            result is None or result in replaced for result in eqn.results
        )

    # ---- equations -----------------------------------------------------------------

    def equation(self, eqn: Equation, operands: list[Any]) -> Sequence[Any]:
        rewritten = self.edits.rewritten.get(eqn)
        made = None if rewritten is None else rewritten(operands)
        if made is not None:
            return made
        opening = self.edits.opened.get(eqn)
        if opening is not None:
            with evaluation.opened_call(eqn):
                return self.opened(eqn, operands, opening)
        params = {**eqn.params, **self.edits.params.get(eqn, {})}
        is_new = [
            not jaxapi.same_type(evaluation.aval(operand), atom.aval)
            for operand, atom in zip(operands, eqn.operands)
        ]
        if any(block in self.touched for block in sub_blocks(eqn)) or any(is_new):
            params = self._retraced(eqn, params, operands)
        else:
            params = params_of_jax(params)
        return evaluation.bind(eqn, params, operands)

    def _retraced(
        self, eqn: Equation, params: dict[str, Any], operands: list[Any]
    ) -> dict[str, Any]:
        avals = [evaluation.aval(operand) for operand in operands]
        made: dict[str, Any] = {}
        for key, param in params.items():
            if isinstance(param, Block):
                made[key] = self._jaxpr(eqn, key, param, avals)
            elif isinstance(param, tuple) and any(isinstance(p, Block) for p in param):
                blocks: list[Any] = [
                    self._jaxpr(eqn, key, p, avals) if isinstance(p, Block) else p
                    for p in param
                ]
                made[key] = rebuilt(param, blocks)
            else:
                made[key] = param
        check_loop(eqn, made)
        return made

    def _jaxpr(self, eqn: Equation, key: str, block: Block, avals: list[Any]) -> Any:
        """Trace a sub-program again, at the types its operands have now."""
        inputs = _inner_avals(eqn, key, block, avals)
        names = getattr(block.debug_info, "arg_names", None)
        known = block.debug_info if names and len(names) == len(inputs) else None

        def flat(*tracers: Any) -> list[Any]:
            return self.block(block, tracers)

        with evaluation.sub_program_region(eqn):
            traced = jaxapi.trace_flat(flat, inputs, debug_info=known)
        if block.is_closed:
            return traced
        body, consts = jaxapi.split_jaxpr(traced)
        if consts:
            raise Unfitting("an open jaxpr has no constants")
        return body

    def opened(
        self, eqn: Equation, operands: list[Any], opening: Opening
    ) -> Sequence[Any]:
        """Evaluate the body of a sub-program in place."""
        name, params = eqn.name, eqn.params
        if name == "scan":
            return self._scan_step(eqn, operands, opening)
        if name == "while":
            body = params["body_jaxpr"]
            skipped, n = params["cond_nconsts"], params["body_nconsts"]
            consts = operands[skipped : skipped + n]
            carry = self._carry(opening) or operands[skipped + n :]
            return self.block(body, [*consts, *carry])
        if name == "cond":
            return self.block(params["branches"][opening.branch], operands[1:])
        if name == "custom_linear_solve":
            sizes = params["const_lengths"]
            start = sizes.matvec + sizes.vecmat
            consts = operands[start : start + sizes.solve]
            return self.block(
                params["jaxprs"].solve, [*consts, *operands[sum(sizes) :]]
            )
        blocks = list(sub_blocks(eqn))
        if not blocks:
            raise Unfitting(f"{name} has no sub-program")
        if name == "shard_map":
            operands = [_corner(o, v.aval) for o, v in zip(operands, blocks[0].inputs)]
        return self.block(blocks[0], operands)

    def _carry(self, opening: Opening) -> tuple[Any, ...] | None:
        return self.carries.get(id(opening), opening.carry)

    def _scan_step(
        self, eqn: Equation, operands: list[Any], opening: Opening
    ) -> Sequence[Any]:
        body: Block = eqn.params["jaxpr"]
        n_consts, n_carry = jaxapi.scan_sizes(eqn.params)
        consts = operands[:n_consts]
        entering = self._carry(opening) or operands[n_consts : n_consts + n_carry]
        carry, xs = entering[:n_carry], entering[n_carry:]
        if not xs:
            xs = [operand[opening.step] for operand in operands[n_consts + n_carry :]]
        results = self.block(body, [*consts, *carry, *xs])
        return [
            y if i < n_carry or value not in self.read else y[None]
            for i, (y, value) in enumerate(zip(results, eqn.results))
        ]


def _read(root: Block) -> set[Atom]:
    """Collect what equations read or sub-programs return: its type has to stay."""
    blocks = list(all_blocks(root))
    read = {
        atom for block in blocks for eqn in block.equations for atom in eqn.operands
    }
    return read.union(*(block.outputs for block in blocks if block is not root))


def _touched(edits: Edits, root: Block) -> set[Block]:
    """Collect the blocks that hold an edit, and those around them."""
    keys: set[Any] = {
        *edits.replaced,
        *edits.params,
        *edits.opened,
        *edits.dropped,
        *edits.literals,
        *edits.constants,
        *edits.rewritten,
    }
    verdicts: dict[Block, bool] = {}

    def visit(block: Block) -> bool:
        if block not in verdicts:
            inner = [visit(b) for eqn in block.equations for b in sub_blocks(eqn)]
            verdicts[block] = any(inner) or _holds(block, keys)
        return verdicts[block]

    with jaxapi.deep_recursion():
        visit(root)
    return {block for block, is_touched in verdicts.items() if is_touched}


def _holds(block: Block, keys: set[Any]) -> bool:
    """Whether an edit speaks of anything in a block itself."""
    return not (
        keys.isdisjoint(block.inputs)
        and keys.isdisjoint(value for value, _ in block.constants)
        and keys.isdisjoint(block.equations)
        and keys.isdisjoint(block.outputs)
        and all(keys.isdisjoint(eqn.results) for eqn in block.equations)
        and all(keys.isdisjoint(eqn.operands) for eqn in block.equations)
    )


def _corner(operand: Any, aval: Any) -> Any:
    """Return the part of an array that the first device has."""
    return operand[tuple(slice(0, size) for size in aval.shape)]


def _inner_avals(
    eqn: Equation, key: str, block: Block, avals: list[Any]
) -> Sequence[Any]:
    """Return the types that the inputs of a sub-program have now."""
    known = [value.aval for value in block.inputs]
    if eqn.name == "shard_map":
        return known
    if eqn.name == "scan":
        n_consts, n_carry = jaxapi.scan_sizes(eqn.params)
        n = n_consts + n_carry
        found = [*avals[:n], *(evaluation.without_leading_axis(a) for a in avals[n:])]
    elif eqn.name == "while":
        n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        consts = avals[:n_cond] if key == "cond_jaxpr" else avals[n_cond:][:n_body]
        found = [*consts, *avals[n_cond + n_body :]]
    elif eqn.name == "cond":
        found = avals[1:]
    elif eqn.name == "custom_linear_solve":
        lengths, i = eqn.params["const_lengths"], eqn.params["jaxprs"].index(block)
        before = sum(lengths[:i])
        found = [*avals[before : before + lengths[i]], *avals[sum(lengths) :]]
    elif eqn.name.startswith("scatter"):  # what is done to two scalars
        return [aval.update(dtype=avals[0].dtype) for aval in known]
    elif eqn.name.startswith("reduce"):  # likewise, for several arrays at once
        return [aval.update(dtype=a.dtype) for aval, a in zip(known, avals)]
    else:
        found = avals
    if len(found) != len(known):
        return known
    return found


def check_loop(eqn: Equation, params: Mapping[str, Any]) -> None:
    """Check what JAX takes for granted when loops and branches are bound.

    Raises:
      Unfitting: If it does not hold, or no public function makes that loop.
    """
    if eqn.name == "scan":
        n_consts, n_carry = jaxapi.scan_sizes(eqn.params)
        body = jaxapi.split_jaxpr(params["jaxpr"])[0]
        entering = [v.aval for v in body.invars[n_consts : n_consts + n_carry]]
        _check_types(entering, [v.aval for v in body.outvars[:n_carry]])
    elif eqn.name == "while":
        body = jaxapi.split_jaxpr(params["body_jaxpr"])[0]
        _check_types(
            [v.aval for v in body.invars[params["body_nconsts"] :]],
            [v.aval for v in body.outvars],
        )
        if not _changes(body, params):
            raise Unfitting("`while_loop` takes away what changes nothing")
    elif eqn.name == "cond":
        bodies = [jaxapi.split_jaxpr(b)[0] for b in params["branches"]]
        for body in bodies[1:]:
            _check_types(
                [v.aval for v in bodies[0].outvars], [v.aval for v in body.outvars]
            )


def _changes(body: Any, params: Mapping[str, Any]) -> bool:
    """Whether a while loop changes what it carries, or its condition reads it."""
    cond = jaxapi.split_jaxpr(params["cond_jaxpr"])[0]
    carried = body.invars[params["body_nconsts"] :]
    looked_at = cond.invars[params["cond_nconsts"] :]
    read = {id(v) for eqn in cond.eqns for v in eqn.invars}
    read.update(id(v) for v in cond.outvars)
    return any(
        made is not given or id(seen) in read
        for given, made, seen in zip(carried, body.outvars, looked_at)
    )


def _passed(eqn: Equation) -> Iterator[bool]:
    """Say of each value that a while loop carries whether nothing changes or reads it."""
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    carried = body.inputs[eqn.params["body_nconsts"] :]
    looked_at = cond.inputs[eqn.params["cond_nconsts"] :]
    read = {atom for inner in cond.equations for atom in inner.operands}
    read.update(cond.outputs)
    for given, made, seen in zip(carried, body.outputs, looked_at):
        yield made is given and seen not in read


def _check_types(expected: Sequence[Any], found: Sequence[Any]) -> None:
    if any(not jaxapi.same_type(a, b) for a, b in zip(expected, found)):
        raise Unfitting("a loop or branch no longer fits together")
