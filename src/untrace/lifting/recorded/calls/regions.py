"""Write a call from its equations: what it bound at its trace, as a function.

The primitives are bound once more, to new operands, which gives the equations as they
were before anything around the call transformed them. Idioms are sought in them, and
the function is written as at level "lax".
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from untrace import jaxapi
from untrace.capture.origins import function_name
from untrace.errors import LiftingError, reason
from untrace.ir import Atom, Block, Value
from untrace.lifting.blocks.inlining import renamed
from untrace.lifting.frame import Frame, module_function
from untrace.lifting.heads import Parameters, plain_head
from untrace.lifting.lift import count_blocks
from untrace.lifting.names.naming import UNNAMED
from untrace.lifting.names.source_names import source_names
from untrace.lifting.recorded.building import call
from untrace.lifting.recorded.calls.equations import RESULTS, expression
from untrace.lifting.recorded.calls.lost_derivatives import lost_derivative
from untrace.lifting.recorded.calls.opening import (
    hint_of,
    is_whole,
    opened_function,
    output_text,
    tree_target,
)
from untrace.lifting.recorded.calls.retraced import Region, used
from untrace.lifting.recorded.naming.hints import result_hint
from untrace.lifting.recorded.naming.leaves import with_leaves
from untrace.lifting.recorded.naming.naming import rename, targets
from untrace.lifting.recorded.naming.transformed import opened_name
from untrace.lifting.recorded.naming.values import arrays_in
from untrace.lifting.recorded.plan import Plan, Restart, place_of
from untrace.lifting.recorded.program import Program
from untrace.lifting.recorded.terms import Global, Name, Term
from untrace.lifting.recorded.tree import Names, Statement
from untrace.lifting.recorded.unwritable import UnknownArray
from untrace.lifting.recorded.writer import Writer
from untrace.recovery.functions import innermost
from untrace.recovery.record import Call
from untrace.recovery.unflattening import unflattening
from untrace.stages import staged
from untrace.syntax.names import identifier


def write_call(item: Call, writer: Writer) -> None:
    """Write a call as it was made; take note if it has to be written from its equations.

    What follows is written all the same, since there may be more such calls; then the
    program is written again.

    Raises:
      Restart: If it has to be written again at once.
    """
    program = writer.program
    plan = program.plan
    if item in plan.dropped or _is_constant(item, plan) or _is_made(item, writer):
        return
    for inner in plan.hoisted.get(item, ()):
        write_call(inner, writer)
    n_open, n_dissolving = len(program.open_calls), writer.n_dissolving
    trail, turn = writer.trail, writer.turn
    was_kept = item.is_own and not program.is_dissolved(item)
    program.n_apart += item.is_apart
    why = "" if program.options.keep_types else lost_derivative(item, plan.pulled_back)
    why = why or ("a class computes what it returns anew" if item.is_remade else "")
    if why:
        program.plan.lowered.setdefault(item, why)
    try:
        is_region = item.function is unflattening or item in program.plan.lowered
        if is_region or _takes_other_numbers(item, program) or program.opens(item):
            write_region(item, writer)
        else:
            writer.as_made(item)
    except Restart:
        raise
    except Exception as error:  # the recorder stands on private names of JAX
        if program.n_trials or not _plan(item, program, error):
            raise
        program.is_stale = True
        del program.open_calls[n_open:]
        writer.n_dissolving = n_dissolving
        writer.trail, writer.turn = trail, turn
        if was_kept and program.is_dissolved(item):
            write_call(item, writer)  # there may be more such calls in it
        else:
            _hold_place(item, writer)
    finally:
        program.n_apart -= item.is_apart


def _hold_place(item: Call, writer: Writer) -> None:
    """Let a call stand in its place that will be written from its equations.

    What it takes and makes is known by then, and so is what needs no writing again.
    """
    try:
        region = _region(item, writer)
        terms = [writer.value(operand) for operand in region.operands]
        _assign(item, region, call(Term(["region"]), terms), writer)
    except Exception:  # as above; the next writing tells
        writer.program.is_partial = True
        targets(item.result, item.target, item, writer)


def _is_made(item: Call, writer: Writer) -> bool:
    """Whether a call was made before the function that it stands in."""
    moved = writer.program.plan.hoisted.values()
    return any(item in calls for calls in moved) and all(
        writer.find(id(array)) is not None for array in arrays_in(item.result)
    )


def _is_constant(item: Call, plan: Plan) -> bool:
    """Whether a call that is not written was evaluated while the program was traced."""
    if not item.is_eager and item not in plan.lowered:
        return False
    arrays = arrays_in(item.result)
    is_known = not any(isinstance(array, jaxapi.Tracer) for array in arrays)
    return is_known and (item.is_eager or bool(arrays))


def _plan(item: Call, program: Program, error: Exception) -> bool:
    """Plan what to do about a call that cannot be written; tell whether it is planned.

    Raises:
      Restart: If what follows depends on it.
    """
    plan, opened = program.plan, program.open_calls
    if item.is_apart or _only_takes_apart(item):
        plan.dropped.add(item)  # what it returns may not be needed
        raise Restart from error
    if program.n_apart:
        return False
    if isinstance(error, UnknownArray) and (
        plan.hoist(error.array, opened)
        or program.hands_on(error)
        or plan.dissolve(error.array, opened)
        or plan.expose(error.array, opened)
    ):
        raise Restart from error
    if item.is_own and not program.is_dissolved(item):
        plan.dissolved.add(item)  # it takes or returns what has no name
        if not isinstance(error, LiftingError):
            name = item.bodies[0].code.co_name
            why = f"Written without `{name}` as a function of its own: {reason(error)}"
            plan.faults.append(why)
        return True
    if program.opens(item):
        plan.lowered.pop(item, None)
        plan.closed[item] = reason(error)
        return True
    if plan.lower(item, reason(error)):
        return True
    if jaxapi.is_tree_function(item.function):
        plan.dropped.add(item)
        raise Restart from error
    return False


def _only_takes_apart(item: Call) -> bool:
    """Whether a call takes a tree apart or puts it together, and makes nothing."""
    if not jaxapi.is_tree_function(item.function):
        return False
    is_map = "map" in getattr(item.function, "__name__", "")
    # What is put together may be computed meanwhile, `tree.unflatten(map(f, leaves))`.
    return not is_map and not (item.span and item.span.binds())


@staged("regions")
def write_region(item: Call, writer: Writer) -> None:
    """Write a call as a call of a function that is made from its equations.

    Raises:
      LiftingError: If what it returns is not known by its equations.
    """
    program = writer.program
    region = _region(item, writer)
    if not region.results and not region.block.effects:
        rename(item.result, item.target, writer)
        return
    operands, block = region.operands, region.block
    is_tree = program.opens(item) and is_whole(item.result)
    flat = ", ".join(RESULTS[: len(region.results)])
    target = tree_target(item.result, region, program) if is_tree else flat
    term = _expression(item, region, target, writer)
    if is_tree:
        if term is None:
            term = opened_function(item, region, writer).called(item, writer)
        writer.assign(item, term)
        return
    if term is None:
        terms = [writer.value(operand) for operand in operands]
        hints = [hint_of(writer.locate(id(operand))) for operand in operands]
        function = _function(item, block, hints, writer)
        term = call(Term([Global(function)]), terms)
    term = with_leaves(term, writer)
    _assign(item, region, term, writer)
    why = program.plan.lowered.get(item)
    if why is not None and not _binds_libraries_alone(item):
        where = _users_place(item, writer) or place_of(item)
        shown = f"`{_name(item)}`" + (f" ({where})" if where else "")
        program.lifter.note(f"{shown} is written from its equations: {why}")


def _region(item: Call, writer: Writer) -> Region:
    """Return the equations of a call, for what no name stands for."""
    found = writer.program.region(item, lambda v: writer.find(id(v)) is not None)
    return _passed_on(_as_strong(found, writer.program.strong), writer)


def _takes_other_numbers(item: Call, program: Program) -> bool:
    """Whether a call would convert numbers to the type of what stands for an operand.

    What it makes of such operands has their types, too.
    """
    strong = program.strong
    if not strong or item.is_own or isinstance(item.function, jaxapi.Primitive):
        return False
    given = [value for value in item.args if id(value) not in strong]
    if len(given) == len(item.args):
        return False
    strong |= {id(v) for v in arrays_in(item.result) if getattr(v, "weak_type", False)}
    return any(
        type(value) in (bool, int, float, complex) or getattr(value, "weak_type", False)
        for value in given
    )


def _as_strong(region: Region, strong: Collection[int]) -> Region:
    """Give inputs the types of what is in the place of their operands."""
    inputs = {
        value: Value(value.aval.update(weak_type=False))
        for value, operand in zip(region.block.inputs, region.operands)
        if id(operand) in strong
    }
    if not inputs:
        return region
    made = renamed(region.block, dict(inputs))
    block = replace(made, inputs=tuple([inputs.get(v, v) for v in made.inputs]))
    return replace(region, block=block)


def _assign(item: Call, region: Region, term: Term, writer: Writer) -> None:
    """Name what the equations of a call make."""
    names = tuple([Name(result_hint(item)) for _ in region.results])
    for name, result in zip(names, region.results):
        writer.define(result, name)
    made: Names = names[0] if len(names) == 1 else names
    is_effect = bool(region.block.effects)
    statement = Statement(made or None, term, is_effect, is_row=len(names) > 1)
    writer.draft.statements.append(statement)
    rename(item.result, item.target, writer)


def _binds_libraries_alone(item: Call) -> bool:
    """Whether all that a call does are primitives of libraries, of which the header tells."""
    if isinstance(item.function, jaxapi.Primitive):
        return bool(jaxapi.library_of(item.function))
    span = item.span
    binds = span.log[span.first : span.last] if span is not None else []
    return bool(binds) and all(jaxapi.library_of(bind.primitive) for bind in binds)


def _passed_on(region: Region, writer: Writer) -> Region:
    """Let results that are operands stand for them; return what is left."""
    given = dict(zip(region.block.inputs, region.operands))
    results: list[Any] = []
    outputs: list[Atom] = []
    for result, output in zip(region.results, region.block.outputs):
        if output in given:
            writer.pass_on(result, given[output])  # type: ignore[index]
        else:
            results.append(result)
            outputs.append(output)
    if len(results) == len(region.results):
        return region
    block = replace(region.block, outputs=tuple(outputs))
    operands, block = used(region.operands, block)
    return Region(operands, results, block)


def _expression(item: Call, region: Region, target: str, writer: Writer) -> Term | None:
    """Write a region of one equation where it stands, if that takes no definitions.

    It must give `RESULTS` as they stand in the target.
    """
    program, block, results = writer.program, region.block, region.results
    if item in program.plan.outlined or len(block.equations) != 1:
        return None
    if not 0 < len(results) <= len(RESULTS):
        return None
    (eqn,) = block.equations
    if eqn.results != block.outputs:
        return None
    operands = [writer.value(operand) for operand in region.operands]
    hints = [hint_of(writer.locate(id(operand))) for operand in region.operands]
    named = {v: h for v, h in zip(block.inputs, hints) if h != UNNAMED}
    program.lifter.hints.update({**source_names(block), **named})
    found = expression(block, operands, program.lifter)
    if found is None or found[1] != target:
        program.plan.outlined.add(item)
        program.is_stale = True  # what was written for it is forgotten
        return None
    return found[0]


def _function(item: Call, block: Block, hints: Sequence[str], writer: Writer) -> str:
    """Write a block as a function of the module; return its name."""
    lifter = writer.program.lifter
    lifter.shared |= count_blocks(block)[1]
    lifter.hints.update(source_names(block))

    def build(frame: Frame) -> tuple[Parameters, list[str]]:
        names = [frame.define(v, hint) for v, hint in zip(block.inputs, hints)]
        frame.read_dimensions(block.inputs)
        frame.body(block)
        frame.returns(", ".join(output_text(atom, frame) for atom in block.outputs))
        return plain_head(*names), []

    if writer.program.opens(item):
        name = opened_name(item.function, item.args)
    elif item.function is unflattening and isinstance(item.target, str):
        name = identifier(f"compute_{item.target}", "function")
    else:
        called = _name(item) if item.is_own else f"run_{_name(item)}"
        name = identifier(called, "function")
    return module_function(lifter, block, name, build)


def _users_place(item: Call, writer: Writer) -> str:
    """Say where the user's code called what made a call; "" if that is not known."""
    around = [call.place for call in writer.program.open_calls]
    places = [*around, *writer.trail, item.place]
    users = [place for place in places if place is not None and place.is_users]
    return users[-1].shown if users else ""


def _name(item: Call) -> str:
    """Name what was called."""
    function = item.function
    if function is None:
        name = item.bodies[0].code.co_name
    elif isinstance(function, jaxapi.Transformed):
        name = function.maker[1]
        inner = innermost(function.function) if name == "jit" else None
        name = function_name(inner) if inner is not None else name
    elif isinstance(function, (jaxapi.CUSTOM_JVP, jaxapi.CUSTOM_VJP)):
        name = function_name(innermost(function) or function.fun)
    else:
        name = getattr(function, "name", "") or function_name(function)
    return name.strip("<>_")
