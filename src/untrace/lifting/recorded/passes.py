"""The passes of level "api", in order: over each function, and then over the module.

A writer makes the tree of a function (`writer.py`); the first passes are done to it as soon
as it is complete, since what calls it depends on what is left. When all functions are
there, the others are done to the module. docs/design/passes.md shows what each does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from untrace.lifting.printing import Function
from untrace.lifting.recorded.checks import check_functions
from untrace.lifting.recorded.folding import drop_dead, finish
from untrace.lifting.recorded.functions.inlining import inline_single_calls
from untrace.lifting.recorded.functions.keywords import give_keywords
from untrace.lifting.recorded.functions.library import used_functions
from untrace.lifting.recorded.functions.outermost import opened
from untrace.lifting.recorded.naming.part_names import name_parts, name_taken
from untrace.lifting.recorded.naming.second_names import give_second_names
from untrace.lifting.recorded.numbers.number_texts import write_numbers
from untrace.lifting.recorded.printing import text_so_far
from untrace.lifting.recorded.program import Program
from untrace.lifting.recorded.repeats.kept_contexts import KeptContexts
from untrace.lifting.recorded.repeats.loops import write_loops
from untrace.lifting.recorded.repeats.rows import unpack_rows
from untrace.lifting.recorded.tree import Draft
from untrace.lifting.recorded.unify import merge_alike
from untrace.lifting.recorded.unify.optional_functions import merge_optional
from untrace.lifting.recorded.unify.settings import name_after_settings
from untrace.optional import is_strict
from untrace.passes_watched import is_watched, show
from untrace.stages import stage
from untrace.syntax.parsed import parsed

# ---- over a function ---------------------------------------------------------------


def reroll(draft: Draft, program: Program) -> None:
    """Write loops and comprehensions for statements that repeat."""
    kind = program.options.reroll
    for module in ("jax", "jax.numpy"):  # of which files import what they use
        program.lifter.imports.module(module)
    contexts = KeptContexts(draft.statements)
    if contexts.is_empty or (contexts.is_regular and kind in ("auto", "for")):
        if kind != "none":
            write_loops(draft, kind)
        contexts.restore(draft.statements)


FUNCTION_PASSES: dict[str, Callable[[Draft, Program], None]] = {
    "drop dead": lambda draft, program: drop_dead(draft, keeps_turns=True),
    "note references": lambda draft, program: program.references.add(draft),
    "take parts": lambda draft, program: name_taken(draft),
    "unpack rows": lambda draft, program: unpack_rows(draft),
    "reroll": reroll,
    "name parts": lambda draft, program: name_parts(draft),
    "fold": lambda draft, program: finish(draft),
    "second names": lambda draft, program: give_second_names(draft),
}
"""What is done to the tree of each function."""


def finish_function(draft: Draft, program: Program) -> None:
    """Do what is done to the tree of a function once it is complete."""
    if is_watched():
        show("write", draft.name, text_so_far(draft))
    for name, run in FUNCTION_PASSES.items():
        with stage(name):
            run(draft, program)
        if is_watched():
            show(name, draft.name, text_so_far(draft))


# ---- over the module ---------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Module:
    """The functions of a program, all of which are written."""

    main: Function
    program: Program

    @property
    def functions(self) -> list[Function]:
        """All functions in their order, the main one last."""
        return [*self.program.lifter.functions, self.main]

    def numpy(self) -> str:
        """Import `jax.numpy`; return what it is called."""
        return self.program.lifter.imports.module("jax.numpy")


def keep_used(module: Module) -> None:
    """Keep the functions that the main one needs."""
    program, functions = module.program, module.program.lifter.functions
    functions[:] = used_functions(functions, module.main, program.drafts)


def inline(module: Module) -> None:
    """Write short functions of libraries where they are called."""
    program = module.program
    missed = inline_single_calls(
        program.references, module.functions, program.drafts, program.write_again
    )
    program.plan.dissolved |= missed
    program.has_missed = bool(missed)
    keep_used(module)


def name(module: Module) -> None:
    """Give functions and numbers the names that they can have."""
    module.program.settle_names(module.main)
    module.program.numbers.inline_refused(module.functions)


def open_main(module: Module) -> None:
    """Let a program that only calls one jitted function be that function."""
    program = module.program
    if program.is_one_call:
        jit = program.home_term(("jax", "jit")).render()
        functions = program.lifter.functions
        module.main = opened(module.main, functions, program.drafts, jit)


def unify(module: Module) -> None:
    """Let functions that are alike but for numbers, flags, sizes, keys or what they apply be one."""
    program = module.program
    makes_keys = not program.options.anonymous  # they would tell the names
    merged = merge_alike(
        *(program.lifter.functions, module.main, program.merged),
        *(makes_keys, program.plan.may_merge, program.renamed),
    )
    program.plan.merging = program.given_numbers | merged
    merge_optional(program.lifter.functions, module.main)
    parsed.cache_clear()  # the trees take more memory than the texts


def tell_apart(module: Module) -> None:
    """Call functions that are still of one name after what makes them different."""
    if not module.program.options.anonymous:
        name_after_settings(module.program.lifter.functions, module.main)


def write_floats(module: Module) -> None:
    """Write floats as people do, and those of the module that are used once in place."""
    numbers = module.program.numbers
    write_numbers(module.functions, module.numpy, numbers.names())
    numbers.inline_single_uses(module.functions)
    if numbers.inlined:
        write_numbers(module.functions, module.numpy, numbers.names())


def spell_keywords(module: Module) -> None:
    """Pass by keyword what the program passed so."""
    if not module.program.options.anonymous:
        for function in module.program.lifter.functions:
            give_keywords(function, module.functions)


SHORTENING: Sequence[Callable[[Module], None]] = (keep_used, inline)
"""What is done to all functions before it is known whether they are written again."""

FINISHING: Sequence[Callable[[Module], None]] = (
    name,
    open_main,
    unify,
    tell_apart,
    write_floats,
    spell_keywords,
)
"""What is done to them once they are not."""


def change_module(module: Module, passes: Sequence[Callable[[Module], None]]) -> None:
    """Put all functions through some passes."""
    for run in passes:
        with stage(run.__name__.replace("_", " ")):
            run(module)
        if is_strict():
            check_functions(module.functions, run.__name__)
        if is_watched():
            texts = ["\n".join(one.text_lines()) for one in module.functions]
            show(run.__name__.replace("_", " "), "", "\n\n\n".join(texts))
