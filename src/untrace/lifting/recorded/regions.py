"""Write a call from its equations: what it bound at its trace, as a function.

The primitives are bound once more, to new operands, which gives the equations as they
were before anything around the call transformed them. Idioms are sought in them, and
the function is written as at level "lax".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax

from untrace import jaxapi
from untrace.capture.capture import function_name
from untrace.ir import Atom, Block, Literal, from_jaxpr
from untrace.lifting.frame import Frame
from untrace.lifting.lift import count_blocks
from untrace.lifting.recorded.equations import RESULTS, expression
from untrace.lifting.recorded.function import Names, Statement
from untrace.lifting.recorded.paths import last_word
from untrace.lifting.recorded.plan import Restart, place_of, reason
from untrace.lifting.recorded.terms import Global, Name, Term, call
from untrace.lifting.recorded.values import Found, arrays_in
from untrace.lifting.recorded.writer import UnknownArray, Unwritable, Writer
from untrace.lifting.source_names import source_names
from untrace.recovery.record import Bind, Call
from untrace.syntax.names import identifier

if TYPE_CHECKING:
    from untrace.lifting.recorded.program import Program


def write_call(item: Call, writer: Writer) -> None:
    """Write a call as it was made; take note if it has to be written from its equations.

    What follows is written all the same, since there may be more such calls; then the
    program is written again.

    Raises:
      Restart: If it has to be written again at once.
    """
    program = writer.program
    if item in program.plan.dropped:
        return
    n_open, n_dissolving = len(program.open_calls), writer.n_dissolving
    program.n_apart += item.is_apart
    try:
        if item in program.plan.lowered:
            write_region(item, writer)
        else:
            program.calls.write(item, writer)
    except Restart:
        raise
    except Exception as error:  # the recorder stands on private names of JAX
        if program.n_trials or not _plan(item, program, error):
            raise
        program.is_stale = True
        del program.open_calls[n_open:]
        writer.n_dissolving = n_dissolving
        writer.targets(item.result, item.target, item)
    finally:
        program.n_apart -= item.is_apart


def _plan(item: Call, program: Program, error: Exception) -> bool:
    """Plan what to do about a call that cannot be written; tell whether it is planned.

    Raises:
      Restart: If what follows depends on it.
    """
    plan, opened = program.plan, program.open_calls
    array = error.array if isinstance(error, UnknownArray) else None
    if item.is_apart or _only_takes_apart(item):
        plan.dropped.add(item)  # what it returns may not be needed
        raise Restart from error
    if program.n_apart:
        return False
    if array is not None and (
        plan.dissolve(array, opened) or plan.expose(array, opened)
    ):
        raise Restart from error
    if item.is_own and not program.is_dissolved(item):
        plan.dissolved.add(item)  # it takes or returns what has no name
        return True
    if plan.lower(item, reason(error)):
        return True
    if jaxapi.is_tree_function(item.function):
        plan.dropped.add(item)
        raise Restart from error
    return False


def _only_takes_apart(item: Call) -> bool:
    """Tell whether a call takes a tree apart or puts it together, and makes nothing."""
    is_map = "map" in getattr(item.function, "__name__", "")
    return jaxapi.is_tree_function(item.function) and not is_map


def write_region(item: Call, writer: Writer) -> None:
    """Write a call as a call of a function that is made from its equations.

    Raises:
      LiftingError: If what it returns is not known by its equations.
    """
    program = writer.program
    binds = item.span.binds() if item.span is not None else []
    results = _results(item, binds, writer)
    operands, block = _equations(item, binds, results, program)
    if not results and not block.effects:
        raise Unwritable(f"`{_name(item)}` returns what no equation makes")
    terms = [writer.value(operand) for operand in operands]
    hints = [_hint(writer.find(id(operand))) for operand in operands]
    term = _expression(item, block, results, terms, program)
    if term is None:
        function = _function(item, block, hints, writer)
        term = call(Term([Global(function)]), terms)
    names = tuple([Name(program.calls.hint(item)) for _ in results])
    for name, result in zip(names, results):
        writer.define(result, name)
    targets: Names = names[0] if len(names) == 1 else names
    is_effect = bool(block.effects)
    writer.draft.statements.append(Statement(targets or None, term, is_effect))
    writer.rename(item.result, item.target)
    why = program.plan.lowered[item]
    where = place_of(item)
    shown = f"`{_name(item)}`" + (f" ({where})" if where else "")
    program.lifter.note(f"{shown} is written from its equations: {why}")


def _results(item: Call, binds: Sequence[Bind], writer: Writer) -> list[Any]:
    """List the arrays that a call made and returned, or that are used all the same."""
    made = {id(result) for bind in binds for result in bind.results}
    found: dict[int, Any] = {}
    for array in [*arrays_in(item.result), *writer.program.plan.hidden.get(item, ())]:
        if writer.find(id(array)) is not None or id(array) in found:
            continue
        if id(array) in made or jaxapi.literal_behind(array) is not None:
            found[id(array)] = array
        elif isinstance(array, jaxapi.Tracer):
            raise Unwritable(f"`{_name(item)}` returns what no equation makes")
    if isinstance(item.result, jaxapi.FUNCTION_RESULTS):
        raise Unwritable(f"`{_name(item)}` returns a function")
    return list(found.values())


def _equations(
    item: Call, binds: Sequence[Bind], results: Sequence[Any], program: Program
) -> tuple[list[Any], Block]:
    """Return what a region takes from outside, and its equations, traced once."""
    plan = program.plan
    key = (item, *map(id, results), frozenset(plan.excluded))
    if key not in plan.regions:
        operands, block = _traced(binds, results)
        block = _without_origins(program.lifter.rewrite(block))
        plan.regions[key] = _used(operands, block)
    return plan.regions[key]


def _traced(binds: Sequence[Bind], results: Sequence[Any]) -> tuple[list[Any], Block]:
    """Bind primitives again; return what they take from outside, and their equations."""
    made: set[int] = set()
    needed: dict[int, Any] = {}
    for bind in binds:
        for arg in bind.bound.args:
            if _is_free(arg) and id(arg) not in made:
                needed.setdefault(id(arg), arg)
        made.update(map(id, bind.results))
    operands = list(needed.values())

    def read(env: dict[int, Any], array: Any) -> Any:
        literal = jaxapi.literal_behind(array)
        return env.get(id(array), array) if literal is None else literal

    def again(*values: Any) -> list[Any]:
        env = dict(zip(needed, values))
        for bind in binds:
            bound = bind.bound
            args = [read(env, arg) for arg in bound.args]
            outs = jaxapi.bind_again(bound.primitive, args, bound.params)
            env.update(zip(map(id, bind.results), outs))
        return [read(env, result) for result in results]

    jaxpr = jaxapi.trace_flat(again, [jax.typeof(operand) for operand in operands])
    block = from_jaxpr(jaxpr)
    # What a derivative rule closes over is passed, too.
    closed = [(v, c) for v, c in block.constants if _is_free(c)]
    rest = tuple([(v, c) for v, c in block.constants if not _is_free(c)])
    inputs = (*block.inputs, *[value for value, _ in closed])
    block = replace(block, inputs=inputs, constants=rest)
    return [*operands, *[const for _, const in closed]], block


def _is_free(value: Any) -> bool:
    """Tell whether a value is a tracer, and no scalar constant."""
    return isinstance(value, jaxapi.Tracer) and jaxapi.literal_behind(value) is None


def _without_origins(block: Block) -> Block:
    """Forget where the equations come from: they were bound here."""
    nowhere = jaxapi.no_source_info()
    equations = [replace(eqn, source_info=nowhere) for eqn in block.equations]
    return replace(block, equations=tuple(equations))


def _used(operands: Sequence[Any], block: Block) -> tuple[list[Any], Block]:
    """Drop the inputs that no equation reads."""
    read: set[Any] = {*block.outputs}
    for eqn in block.equations:
        read.update(eqn.operands)
    kept = [(o, v) for o, v in zip(operands, block.inputs) if v in read]
    inputs = tuple([value for _, value in kept])
    return [operand for operand, _ in kept], replace(block, inputs=inputs)


def _expression(
    item: Call,
    block: Block,
    results: Sequence[Any],
    operands: Sequence[Term],
    program: Program,
) -> Term | None:
    """Write a region of one equation where it stands, if that takes no definitions."""
    if item in program.plan.outlined or len(block.equations) != 1 or not results:
        return None
    (eqn,) = block.equations
    if eqn.results != block.outputs:
        return None
    found = expression(block, operands, program.lifter)
    if found is None or found[1] != ", ".join(RESULTS[: len(results)]):
        program.plan.outlined.add(item)
        program.is_stale = True  # what was written for it is forgotten
        return None
    return found[0]


def _function(item: Call, block: Block, hints: Sequence[str], writer: Writer) -> str:
    """Write a block as a function of the module; return its name."""
    lifter = writer.program.lifter
    lifter.shared |= count_blocks(block)[1]
    lifter.hints = {**lifter.hints, **source_names(block)}

    def build(frame: Frame) -> tuple[str, list[str]]:
        names = [frame.define(v, hint) for v, hint in zip(block.inputs, hints)]
        frame.read_dimensions(block.inputs)
        frame.body(block)
        frame.returns(", ".join(_output(atom, frame) for atom in block.outputs))
        return ", ".join(names), []

    name = _name(item)
    return lifter.function(block, name if item.is_own else f"run_{name}", build)


def _output(atom: Atom, frame: Frame) -> str:
    """Write a result, which is traced even if it is a constant."""
    if type(atom) is not Literal:
        return frame.text(atom)
    is_weak = getattr(atom.aval, "weak_type", False)
    text = frame.bare_text(atom) if is_weak else frame.text(atom)
    return f"{frame.lifter.imports.module('jax.numpy')}.array({text})"


def _name(item: Call) -> str:
    """Name what was called."""
    function = item.function
    if function is None:
        name = item.bodies[0].code.co_name
    elif isinstance(function, jaxapi.Transformed):
        name = function.maker[1]
    elif isinstance(function, (jaxapi.CUSTOM_JVP, jaxapi.CUSTOM_VJP)):
        name = function_name(function.fun)
    else:
        name = getattr(function, "name", "") or function_name(function)
    return identifier(name.strip("<>_"), "function")


def _hint(found: Found | None) -> str:
    """Name a parameter after what is passed."""
    if found is None:
        return "x"
    name, path = found
    return identifier(last_word([path]) if path else name.hint, "x")
