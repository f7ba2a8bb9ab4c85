"""Write a recorded computation again until nothing more is learnt about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from untrace.capture import Captured
from untrace.capture.trees import holds_text
from untrace.ir import Block
from untrace.lifting.constructing import construct
from untrace.lifting.contexts import ambient_managers, tracing_context
from untrace.lifting.dimensions import name_dimensions
from untrace.lifting.examples import example_lines
from untrace.lifting.lift import Listing, key_enums, note_devices
from untrace.lifting.lifter import Lifter
from untrace.lifting.printing import Function
from untrace.lifting.recorded import checks
from untrace.lifting.recorded.functions.annotations import note_annotations
from untrace.lifting.recorded.functions.fields import keep_used, origins, unread_fields
from untrace.lifting.recorded.main_function import main_function
from untrace.lifting.recorded.passes import (
    FINISHING,
    SHORTENING,
    Module,
    change_module,
    finish_function,
)
from untrace.lifting.recorded.plan import Plan, Restart
from untrace.lifting.recorded.program import Program
from untrace.lifting.recorded.unwritable import UnknownArray, Unwritable
from untrace.optional import is_strict
from untrace.options import Options
from untrace.progress import expect, is_told
from untrace.stages import stage
from untrace.syntax.names import identifier

MAX_WRITINGS = 64
NOT_EXPANDED = "Not everything that was named is expanded"


def lift_recorded(
    captured: Captured,
    options: Options,
    block: Block,
    plan: Plan,
    rewrite: Callable[[Block], Block],
) -> tuple[Listing, Program]:
    """Write a recorded computation at the level of calls.

    Args:
      options: What the user asked for.
      block: The computation, as it was read.
      plan: What is known from writing it before; more is added.
      rewrite: Finds idioms in what is written from its equations.

    Raises:
      Unwritable: If it cannot be written, not even with regions.
    """
    n_calls = captured.recording.n_calls if is_told() else 0
    for _ in range(MAX_WRITINGS):
        expect(n_calls)
        # Calls have scopes; what is written from equations stands under those of its call.
        plain = replace(options, scopes=False)
        lifter = Lifter(plain, rule_cases=captured.rule_cases)
        lifter.rewrite = rewrite
        lifter.traced_rules = plan.traced_rules()
        lifter.is_folding = not options.types
        program = Program(lifter, options, plan, finish_function)
        try:
            listing = _lift(captured, program, block)
        except Restart:
            program.release()
            continue
        except UnknownArray as error:
            array, opened = error.array, program.open_calls
            if not (
                plan.hoist(array, opened)
                or program.hands_on(error)
                or plan.dissolve(array, opened)
                or plan.expose(array, opened)
            ):
                raise
            continue
        if not plan.learn_merged(
            program.merged, program.renamed, program.calls_repeatedly
        ):
            if is_strict():
                checks.check_defined(listing.functions, lifter.is_global)
            return listing, program
        program.release()
    raise Unwritable("ever more of its calls cannot be written")


def _learns(
    captured: Captured, program: Program, functions: Sequence[Function]
) -> bool:
    """Learn what functions need not return and fields need not hold.

    Returns:
      Whether the program is to be written again.
    """
    learnt = (
        program.has_missed,
        program.plan.learn(program.references),
        _leave_out(captured, program, functions),
    )
    return any(learnt)


def _leave_out(
    captured: Captured, program: Program, functions: Sequence[Function]
) -> bool:
    """Find fields of stand-ins that nothing reads; tell whether there are any.

    If one is read after all, by what is of use only without it, they are all left in.
    """
    plan = program.plan
    if not plan.prunes:
        return False
    if program.reads_left_out(functions):
        plan.unread.clear()
        plan.prunes = False
        return True
    shown = [parameter.tree for parameter in captured.parameters]
    whole = [*shown, captured.result, *program.rearranged]
    texts, classes = _texts(functions), dict(program.classes)
    keep_used(classes, shown, texts)
    unread = unread_fields(classes, whole, texts) - plan.unread
    plan.unread |= unread
    return bool(unread)


def _lift(captured: Captured, program: Program, block: Block) -> Listing:
    lifter, options = program.lifter, program.options
    lifter.imports.keys(key_enums(captured))
    for note in captured.notes:
        lifter.note(note)
    lifter.imports.dims = name_dimensions(block, lifter.scope)
    for dimension in captured.dimensions.named if captured.dimensions else ():
        lifter.scope.fresh_global(dimension.name)
    context = tracing_context(ambient_managers(lifter), lifter)
    name = identifier(options.name or captured.name, "function")
    shown = [parameter.tree for parameter in captured.parameters]
    if (
        options.annotate != "none" or options.shows_comments
    ):  # their classes are known before they are used
        for tree in shown:
            program.define_classes(tree)
    with stage("functions"):
        main = main_function(captured, program, name)
    module = Module(main, program)
    change_module(module, SHORTENING)
    if program.is_partial or _learns(captured, program, module.functions):
        raise Restart
    if program.is_stale:
        raise Restart
    change_module(module, FINISHING)
    functions = module.functions
    note_annotations(functions, lifter)
    for tree in shown:
        program.define_classes(tree)
    with stage("example inputs"):
        example = example_lines(
            captured,
            block,
            lifter,
            lambda tree, texts, shortening: construct(
                tree, texts, lifter, program.classes, shortening=shortening
            ),
        )
    keep_used(program.classes, shown, [*_texts(functions), "\n".join(example)])
    for line in origins(program.classes):
        lifter.note(line)
    is_runnable = note_devices(lifter, block)
    for fault in program.plan.faults:
        lifter.note(fault)
    for why in program.plan.closed.values():
        lifter.note(f"{NOT_EXPANDED}: {why}.")
    listing = Listing(
        lifter,
        block,
        program.classes,
        module.main,
        example,
        context,
        is_runnable,
        not holds_text(captured.result),
    )
    text = "\n".join([*_texts(functions), *example])
    named = captured.dimensions.definitions(text) if captured.dimensions else []
    lifter.constants.numbers = [*named, *program.numbers.definitions()]
    return listing


def _texts(functions: Sequence[Function]) -> list[str]:
    return ["\n".join(function.text_lines()) for function in functions]
