"""`jax.lax.custom_root` where JAX keeps it as one equation (jax 0.12).

The equation's primitive is made for the call and holds three functions: the one whose
root is sought, the solver and the solver of the tangent system. They are traced and
printed as the functions that `jax.lax.custom_root` takes. What no call of that gives,
such as a batch of roots from one guess, is made by a helper from the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, from_jaxpr
from untrace.lifting.blocks.control import hoists_in_order
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame
from untrace.lifting.heads import plain_head
from untrace.lifting.printing import Function, Group, Rhs, grouped, tuple_text

NOT_GIVEN = ""
"""In place of the name of a linear map, where a function is not given one."""


@control("call_hi_primitive")
def typed_primitive(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write the typed primitives that JAX itself makes."""
    try:
        parts = jaxapi.root_parts(eqn.params.get("_prim"))
    except (TypeError, ValueError):  # the user's functions, as jax has transformed them
        return None
    if parts is None:
        return None
    if parts.kind == "CustomRoot":
        return _custom_root(parts, eqn, frame)
    return _linear_map(parts, eqn, frame)


def _custom_root(parts: jaxapi.RootParts, eqn: Equation, frame: Frame) -> Rhs:
    solve_consts, guess, f_consts, tangent_consts = _split(eqn.operands, parts)
    blocks = {name: from_jaxpr(jaxpr) for name, jaxpr in parts.functions.items()}
    f, solve, tangent = blocks["f"], blocks["solve"], blocks["tangent_solve"]
    pairs = ((f, f_consts), (solve, solve_consts), (tangent, tangent_consts))
    is_public = parts.results[: len(guess)] == parts.arguments[1]
    if not is_public or not all(hoists_in_order(*pair) for pair in pairs):
        return _made_root(parts, blocks, eqn, frame)
    group = Group("x", len(guess))
    results = _root_results(parts, len(guess))
    f_text = frame.callable(f, "f", f_consts, [group], _results(f))
    solve_text = frame.callable(
        solve, "solve", solve_consts, [Group("_", 0), group], results(solve)
    )
    tangent_text = _tangent_solve(tangent, tangent_consts, len(guess), frame)
    frame.lifter.imports.module("jax")
    guess_text = grouped(frame.texts(guess))
    call = f"{f_text}, {guess_text}, {solve_text}, {tangent_text}{_options(parts)}"
    return Rhs(f"jax.lax.custom_root({call})", _root_target(parts, len(guess)))


def _made_root(
    parts: jaxapi.RootParts, blocks: dict[str, Block], eqn: Equation, frame: Frame
) -> Rhs:
    """Write a call of the primitive, made of functions that take their constants."""
    arguments = _split(eqn.operands, parts)
    solve_consts, guess, f_consts, tangent_consts = arguments
    n_consts = dict(zip(("solve", "", "f", "tangent_solve"), map(len, arguments)))
    names: list[str] = []
    for hint in ("f", "solve", "tangent_solve"):
        block = blocks[hint]
        rest = len(block.inputs) - n_consts[hint]
        groups = [Group("consts", n_consts[hint], is_tuple=True)]
        sizes = (rest // 2, rest // 2) if hint == "tangent_solve" else (rest,)
        groups += [Group(name, size) for name, size in zip(("x", "y"), sizes)]
        frame.lifter.linear_maps.append(NOT_GIVEN)
        results = _root_results(parts, len(guess)) if hint == "solve" else _results
        names.append(frame.callable(block, hint, (), groups, results(block)))
        frame.lifter.linear_maps.pop()
    given = [
        tuple_text(frame.texts(solve_consts)),
        grouped(frame.texts(guess)),
        tuple_text(frame.texts(f_consts)),
        tuple_text(frame.texts(tangent_consts)),
    ]
    helper = frame.lifter.helper("root_with_rule")
    options = _options(parts) + _types(parts, eqn, (True, False, True, True), frame)
    text = f"{helper}({', '.join([*names, *given])}{options})"
    return Rhs(text, _root_target(parts, len(guess)))


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
    parameters = plain_head(linear_map, names[0] if n == 1 else "ys")
    if n != 1:
        child.lines.insert(0, f"{', '.join(names)} = ys")
    frame.nest(Function(name, parameters, child.lines).text_lines())
    return name


def _linear_map(parts: jaxapi.RootParts, eqn: Equation, frame: Frame) -> Rhs:
    """Write the application of the derivative of `f`, or of its transpose.

    Inside `tangent_solve` it is the function that this was given; elsewhere, where a
    derivative has moved it, it is made by a helper.
    """
    consts, point, vector = _split(eqn.operands, parts)
    vector_text = grouped(frame.texts(vector))
    transposed: bool = dict(parts.options)["transposed"]
    given = frame.lifter.linear_maps[-1] if frame.lifter.linear_maps else NOT_GIVEN
    if given and not transposed:
        return Rhs(f"{given}({vector_text})", grouped)
    f = from_jaxpr(parts.functions["f"])
    groups = [Group("consts", len(consts), is_tuple=True), Group("x", len(point))]
    f_text = frame.callable(f, "f", (), groups, _results(f))
    helper = frame.lifter.helper("root_linear_map")
    options = ", transposed=True" if transposed else ""
    options += _types(parts, eqn, (True, False, False), frame)
    texts = [tuple_text(frame.texts(consts)), grouped(frame.texts(point)), vector_text]
    return Rhs(f"{helper}({', '.join([f_text, *texts])}{options})", grouped)


def _results(block: Block) -> Any:
    return lambda child: grouped(child.texts(block.outputs))


def _root_results(parts: jaxapi.RootParts, n: int) -> Callable[[Block], Any]:
    """Return what writes the results of a solver: `n` roots, and perhaps more."""
    grouping = _root_target(parts, n)
    return lambda block: lambda child: grouping(child.texts(block.outputs))


def _root_target(parts: jaxapi.RootParts, n: int) -> Callable[[list[str]], str]:
    if not dict(parts.options)["has_aux"]:
        return grouped
    return lambda texts: f"{grouped(texts[:n])}, {grouped(texts[n:])}"


def _options(parts: jaxapi.RootParts) -> str:
    return ", has_aux=True" if dict(parts.options)["has_aux"] else ""


def _types(
    parts: jaxapi.RootParts, eqn: Equation, are_tuples: Sequence[bool], frame: Frame
) -> str:
    """Write the types the primitive was made for, where its operands have others.

    Transformations make primitives for types that are weak where the operands are not.
    """
    declared = [aval for avals in parts.arguments for aval in avals]
    if declared == [atom.aval for atom in eqn.operands]:
        return ""
    texts = [[frame.lifter.spell(aval) for aval in avals] for avals in parts.arguments]
    groups = [
        (tuple_text if is_tuple else grouped)(t)
        for is_tuple, t in zip(are_tuples, texts)
    ]
    return f", types=({', '.join(groups)})"


def _split(atoms: Sequence[Atom], parts: jaxapi.RootParts) -> list[Sequence[Atom]]:
    found: list[Sequence[Atom]] = []
    start = 0
    for avals in parts.arguments:
        found.append(atoms[start : start + len(avals)])
        start += len(avals)
    return found
