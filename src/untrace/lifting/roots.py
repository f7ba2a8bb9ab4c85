"""`jax.lax.custom_root` where JAX keeps it as one equation (jax 0.12).

The equation's primitive is made for the call and holds three functions: the one whose
root is sought, the solver and the solver of the tangent system. They are traced and
printed as the functions that `jax.lax.custom_root` takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from untrace.ir import Atom, Block, Equation, from_jaxpr
from untrace.lifting.control import hoists_in_order
from untrace.lifting.frame import Frame
from untrace.lifting.printing import Function, Group, Rhs, control, grouped


@control("call_hi_primitive")
def typed_primitive(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write the typed primitives that JAX itself makes."""
    primitive = eqn.params.get("_prim")
    kind = type(primitive).__name__
    if kind == "CustomRoot":
        return _custom_root(primitive, eqn, frame)
    if kind == "_RootLinearMap":
        return _linear_map(primitive, eqn, frame)
    return None


def _custom_root(primitive: Any, eqn: Equation, frame: Frame) -> Rhs | None:
    avals = primitive.in_avals
    sizes = [len(jax.tree.leaves(part)) for part in avals]
    solve_consts, guess, f_consts, tangent_consts = _split(eqn.operands, sizes)
    try:
        f = _block(primitive.f, avals[2], avals[1])
    except (TypeError, ValueError):
        # Under vmap the guess may be unbatched and the root batched: no call of
        # `custom_root` has such functions.
        return None
    solve = _block(primitive.solve, avals[0], avals[1])
    tangent = _block(primitive.tangent_solve, avals[3], avals[1], avals[1])
    pairs = ((f, f_consts), (solve, solve_consts), (tangent, tangent_consts))
    if not all(hoists_in_order(block, captured) for block, captured in pairs):
        return None
    group = Group("x", len(guess))
    f_text = frame.callable(f, "f", f_consts, [group], _results(f))
    solve_text = frame.callable(
        solve, "solve", solve_consts, [Group("_", 0), group], _results(solve)
    )
    tangent_text = _tangent_solve(tangent, tangent_consts, len(guess), frame)
    frame.lifter.imports.module("jax")
    guess_text = grouped(frame.texts(guess))
    options = ", has_aux=True" if primitive.has_aux else ""
    call = f"{f_text}, {guess_text}, {solve_text}, {tangent_text}{options}"
    return Rhs(f"jax.lax.custom_root({call})", grouped)


def _tangent_solve(block: Block, captured: Sequence[Atom], n: int, frame: Frame) -> str:
    """Write `tangent_solve(g, y)`; `g` stands for the linear maps in its body."""
    name = frame.names.fresh("tangent_solve")
    child = frame.child()
    for value, atom in zip(block.inputs, captured):
        child.env[value] = frame.text(atom)
    linear_map = child.names.fresh("g")
    right_hand_side = block.inputs[len(captured) + n :]
    names = [child.define(value, "y") for value in right_hand_side]
    frame.lifter.linear_maps.append(linear_map)
    child.body(block)
    frame.lifter.linear_maps.pop()
    child.returns(_results(block)(child))
    parameters = f"{linear_map}, {names[0] if n == 1 else 'ys'}"
    if n != 1:
        child.lines.insert(0, f"{', '.join(names)} = ys")
    frame.nest(Function(name, parameters, child.lines).text_lines())
    return name


def _linear_map(primitive: Any, eqn: Equation, frame: Frame) -> Rhs | None:
    """Write the application of the derivative of `f`, or of its transpose.

    Inside `tangent_solve` it is the function that this was given; elsewhere, where a
    derivative has moved it, it is made by a helper.
    """
    avals = primitive.in_avals
    sizes = [len(jax.tree.leaves(part)) for part in avals]
    consts, point, vector = _split(eqn.operands, sizes)
    vector_text = grouped(frame.texts(vector))
    if frame.lifter.linear_maps and not primitive.transposed:
        return Rhs(f"{frame.lifter.linear_maps[-1]}({vector_text})", grouped)
    f = _block(primitive.f, avals[0], avals[1])
    if not hoists_in_order(f, consts):
        return None
    f_text = frame.callable(f, "f", consts, [Group("x", len(point))], _results(f))
    helper = frame.lifter.helper("root_linear_map")
    options = ", transposed=True" if primitive.transposed else ""
    point_text = grouped(frame.texts(point))
    return Rhs(f"{helper}({f_text}, {point_text}, {vector_text}{options})", grouped)


def _block(function: Any, *avals: Any) -> Block:
    """Trace one of the functions, which JAX has wrapped in a call, and read its body."""
    block = from_jaxpr(jax.make_jaxpr(function)(*avals))
    if len(block.equations) == 1 and isinstance(
        inner := block.equations[0].params.get("call_jaxpr"), Block
    ):
        return inner
    return block


def _results(block: Block) -> Any:
    return lambda child: grouped(child.texts(block.outputs))


def _split(atoms: Sequence[Atom], sizes: Sequence[int]) -> list[Sequence[Atom]]:
    parts: list[Sequence[Atom]] = []
    start = 0
    for size in sizes:
        parts.append(atoms[start : start + size])
        start += size
    return parts
