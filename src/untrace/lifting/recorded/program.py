"""What the functions of one generated module share while they are written."""

from __future__ import annotations

import contextlib
import functools
import types
from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.capture.trees import Node, Tree, replaced_nodes
from untrace.ir import Block
from untrace.lifting.blocks.inlining import without_jit
from untrace.lifting.lifter import Lifter
from untrace.lifting.printing import Function
from untrace.lifting.recorded.building import text_term
from untrace.lifting.recorded.calls.retraced import Region, region_of
from untrace.lifting.recorded.checks import check_nodes
from untrace.lifting.recorded.descriptions import Descriptions
from untrace.lifting.recorded.functions.function_names import settle
from untrace.lifting.recorded.functions.needs import References
from untrace.lifting.recorded.functions.runs import Runs
from untrace.lifting.recorded.functions.sameness import meaning, untyped
from untrace.lifting.recorded.functions.stand_ins import StandIns
from untrace.lifting.recorded.naming.module_arrays import ModuleArrays
from untrace.lifting.recorded.naming.shapes import Shapes
from untrace.lifting.recorded.naming.transformed import MAYBE_PUBLIC
from untrace.lifting.recorded.naming.values import (
    has_array,
    is_array,
    is_plain,
)
from untrace.lifting.recorded.numbers.number_texts import readable
from untrace.lifting.recorded.numbers.numbers import (
    Numbers,
    array_name,
    named_floats,
)
from untrace.lifting.recorded.plan import Plan
from untrace.lifting.recorded.printing import render
from untrace.lifting.recorded.terms import Global, Ref, Term
from untrace.lifting.recorded.tree import Draft, Tail, no_count
from untrace.lifting.recorded.unify.alike import Likeness
from untrace.lifting.recorded.unify.copies import rename_variables
from untrace.lifting.recorded.unify.names import stem_of
from untrace.lifting.recorded.unify.numbers import (
    Merged,
    give_numbers,
    likeness,
)
from untrace.lifting.recorded.unwritable import UnknownArray
from untrace.lifting.spelling import spell_home
from untrace.lifting.spelling.homes import public_name
from untrace.optional import is_strict
from untrace.options import Options
from untrace.recovery.made_keys import KeyParts
from untrace.recovery.record import Body, Call, Formula, SharedPart, is_library
from untrace.recovery.transformations import names_of
from untrace.stages import staged
from untrace.syntax.importable import public_home

# Calls in a module of a framework, and in any other function of one, that are enough
# for a function of its own.
SHORT, MEDIUM, LONG = 3, 5, 8
"""Of arrays alone, or a layer; called from `OFTEN` places; any other."""
OFTEN = 3
OUTSIDE, INSIDE = "", " under a transformation"
IN_EQUATIONS = " in opened transformations"
"""Where a function is jitted."""
_EFFECTS = frozenset(
    {
        "print",
        "callback",
        "io_callback",
        "breakpoint",
        "check",
        "check_error",
        "debug_callback",
        "debug_check",
        "free_ref",
        "ref_addupdate",
        "ref_set",
        "ref_swap",
        "store",
    }
)


class Program:
    """What the functions of one generated module share."""

    def __init__(
        self,
        lifter: Lifter,
        options: Options,
        plan: Plan,
        finish: Callable[[Draft, Program], None],
    ) -> None:
        self._finish = finish
        self.plan = plan
        self.open_calls: list[Call] = []
        self.n_trials = 0
        self.tail: Tail | None = None
        self.shaped: tuple[tuple[str, Any], ...] = ()  # of the call being written
        self.n_apart = 0
        self.is_stale = False  # what was written cannot be used
        self.strong: set[int] = set()  # weak arrays that stand for others, by identity
        self.is_partial = False  # nor does it refer to all that will be used
        self.has_missed = False  # it can be shorter
        self.references = References()
        # Attributes of classes that are no parameters, as far as was known.
        self.not_passed: set[tuple[type, str]] = set()
        self.written: list[tuple[Call, Term]] = []
        self.unjitted: set[str] = set()
        self.alive: list[Any] = []
        self.has_given = False
        self.n_transforming = 0
        self.lifter = lifter
        lifter.constants.keeps_jax = True
        self.options = options
        # Shapes with the names of dimensions, by the `id` of inputs.
        self.named_sizes: dict[int, Sequence[Any]] = {}
        self.main_code: types.CodeType | None = (
            None  # of the function that the user gave
        )
        self.item: Call | None = None  # the call being written
        self.formulas: dict[int, deque[Formula]] = {}
        self.arrays: dict[
            int, str
        ] = {}  # names of constants, at the call being written
        # What it reads of what several variables, or parts of them, hold, in order.
        self.parts: list[SharedPart] = []
        self.users_arrays: dict[int, str] = {}  # those of the user's code around it
        self._scalars: dict[Body | None, dict[int, int | float]] = {}
        self.numbers = Numbers(lifter.scope, plan.unnamed, not options.anonymous)
        self.runs = Runs(plan)
        self.shapes = Shapes()
        self.describe = Descriptions(
            plan.described,
            self.shapes,
            options.keep_types,
            plan.unread,
            plan.numbered,
        )
        self.customs: dict[Any, Term] = {}
        self.open_customs: list[int] = []
        self.rule_statements: dict[str, str] = {}  # by the functions that have rules
        self.open_runs: list[Body] = []  # that functions are being written by
        self.stand_ins = StandIns(lifter, is_widening=not options.anonymous)
        self.classes = self.stand_ins.classes
        self.merged: dict[Likeness, Merged] = {}
        self.renamed: dict[Likeness, Function] = {}
        self.given_numbers: set[str] = set()  # functions that were merged before
        self.modules: set[str] = set()  # parameters that take modules of flax.nnx
        self.is_wrapper = False  # a library made what the user gave
        self.is_one_call = False  # and that is the call of a function that it jits
        self.rearranged: list[Tree] = []  # whose leaves are taken together
        self.jitted: dict[Body, Body] = {}  # runs of what libraries have jitted
        self.locals: set[str] = set()
        self.hidden: set[str] = set()
        self.numbered: set[str] = set()  # names of functions that locals are not to get
        self.drafts: dict[Function, Draft] = {}
        # Jitted functions, by their runs, and the numbers that calls pass.
        self.defined: dict[object, tuple[Term, dict[str, str]]] = {}
        self._functions: dict[Any, Function] = {}
        self.begun: list[Draft] = []  # whether or not they are functions of the module
        self._taken: dict[tuple[int, str], bool] = {}
        self._after: list[tuple[Function, int, Term]] = []
        self._effects: dict[int, bool] = {}

    def release(self) -> None:
        """Part what refers to itself, once nothing of it is to be written any more.

        Most of what a job makes is held by it, and would be left to the garbage collector.
        """
        for draft in self.begun:
            draft.lift, draft.counted_to = None, no_count
        vars(self).clear()

    def takes(self, parameter: tuple[int, str], is_whole: bool) -> None:
        """Take note of how a parameter is passed an object: as it is, or its arrays.

        A function that takes both ways would be two; it is one that takes it whole.
        """
        if self._taken.setdefault(parameter, is_whole) != is_whole:
            self.plan.whole.add(parameter)
            self.is_stale = True

    def lower_line(self, line: str, why: str) -> bool:
        """Write the call behind a line of the text from its equations, if there is one."""
        line = line.partition(": ")[2] or line if line.startswith("line ") else line
        texts = [(self._shown(term), item) for item, term in self.written]
        found = [
            (len(text), item) for text, item in texts if text and _is_in(text, line)
        ]
        found.sort(key=lambda pair: -pair[0])
        return any(self.plan.lower(item, why) for _, item in found)

    def _shown(self, term: Term) -> str:
        """Return the text of a call in the file; what is not there may be no Python."""
        text, module = term.render(), self.lifter.imports.module
        with contextlib.suppress(SyntaxError):
            text = self.numbers.with_inlined(text)
            return readable(text, lambda: module("jax.numpy"), self.numbers.names())
        return text

    def scalars_here(self) -> dict[int, int | float]:
        """Return the numbers that arrays were made of in the run that is written.

        A function that closes over such an array takes it as an operand.
        """
        run = self.open_runs[-1] if self.open_runs else None
        return self._scalars.setdefault(run, {})

    def formula(self, value: float) -> Formula | None:
        """Return how a number was computed, or the next of those that are one object."""
        found = self.formulas.get(id(value))
        if found is None:
            return None
        found.rotate(-1)
        return found[-1]

    @contextlib.contextmanager
    def seen_from(self, item: Call) -> Generator[None]:
        """Let numbers, arrays and shapes have the names that they had at a call."""
        numbers = self.numbers
        before = numbers.roles, numbers.held, numbers.module_names
        others = self.formulas, self.arrays, self.shaped, self.users_arrays
        parts = self.parts
        around, self.item = self.item, item
        numbers.roles, numbers.held = dict(item.numbers), item.held
        numbers.module_names = item.module_names
        self.formulas = {}
        for one in item.formulas:
            self.formulas.setdefault(id(one.value), deque()).append(one)
        self.arrays = dict(item.arrays)
        if item.place is None or item.place.is_users:
            self.users_arrays = self.users_arrays | self.arrays
        self.shaped, self.parts = item.shaped, [*item.parts]
        try:
            yield
        finally:
            numbers.roles, numbers.held, numbers.module_names = before
            self.formulas, self.arrays, self.shaped, self.users_arrays = others
            self.parts = parts
            self.item = around

    # ---- what the user wants to see the inside of ----------------------------------

    def opens(self, item: Call) -> bool:
        """Whether a call is written as what JAX makes of its transformation."""
        names = self.plan.expand - {"jit"}
        found = names_of(item.function) & names if names else frozenset[str]()
        if not found or item in self.plan.closed:
            return False
        # `jax.nn.relu` has rules, too.
        return not found & MAYBE_PUBLIC or public_name(item.function) is None

    def opens_jit(self) -> bool:
        """Whether functions that are jitted here are written without it."""
        if "jit" not in self.plan.expand:
            return False
        place = INSIDE if self.n_transforming else OUTSIDE
        if place in self.plan.closed:
            return False
        self.unjitted.add(place)
        return True

    def close_jit(self) -> bool:
        """Leave jitted functions jitted; tell whether some were written without it."""
        for place in (INSIDE, IN_EQUATIONS, OUTSIDE):
            if place in self.unjitted:
                why = f"without `jax.jit`{place} it is another program"
                self.plan.closed[place] = why
                return True
        return False

    def region(self, item: Call, is_known: Callable[[Any], bool]) -> Region:
        """Return the equations of a call."""

        def rewrite(block: Block) -> Block:
            lifted = self.lifter.rewrite(block)
            return without_jit(lifted) if is_inlining else lifted

        is_inlining = "jit" in self.plan.expand and IN_EQUATIONS not in self.plan.closed
        if is_inlining:
            self.unjitted.add(IN_EQUATIONS)
        return region_of(item, self.plan, rewrite, is_known, is_inlining)

    # ---- shared parts --------------------------------------------------------------

    def constant(self, value: Any, field: str = "") -> Term:
        """Write an array that was not computed by the program.

        It is called after the variable that holds it, or the field that it is in.
        """
        is_small = isinstance(value, np.ndarray) and value.ndim <= 1 and value.size <= 8
        if is_small and not self.is_named(value):
            text = self.lifter.spell(value)
            if len(text) < 60:
                return text_term(text)
        known = "" if self.options.anonymous else self._variable(value) or field
        return Term([Global(self.lifter.constants.name(value, array_name(known)))])

    def is_named(self, value: Any) -> bool:
        """Whether a module of the user has a name for a constant array that files tell."""
        return not self.options.anonymous and bool(self._module_arrays.name(value))

    def _variable(self, value: Any) -> str:
        """Return the variable that holds an array: the user's, else a library's."""
        known = self.users_arrays.get(id(value))
        if known:
            return known
        return self._module_arrays.name(value) or self.arrays.get(id(value), "")

    @functools.cached_property
    def _module_arrays(self) -> ModuleArrays:
        """The user's constant arrays, once somebody has asked."""
        return ModuleArrays(self.plan.roots())

    def home_term(self, home: tuple[str, str]) -> Term:
        """Write the name of a public function, imported."""
        module, name = home
        if module in ("jax.numpy.linalg", "jax.numpy.fft"):
            module, name = "jax.numpy", f"{module[10:]}.{name}"
        return Term([Global(spell_home((module, name), self.lifter.imports))])

    def class_name(self, node: Node) -> str:
        """Return the class of a node, imported or replaced by a NamedTuple."""
        if node.kind != "replaced":
            return self.lifter.imports.attribute(*public_home(node.cls))
        return self.stand_ins.name(node)

    def define_classes(self, tree: Tree) -> None:
        """Define the classes of a tree's nodes."""
        for node in replaced_nodes(tree):
            self.class_name(node)

    @staged("finish functions")
    def finish(self, draft: Draft) -> None:
        """Complete a function, by the passes over it."""
        self._finish(draft, self)

    def function(
        self,
        draft: Draft,
        key: Any = None,
        numbers: dict[str, str] | None = None,
        integers: dict[str, str] | None = None,
        passed: dict[str, str] | None = None,
        key_parts: dict[str, KeyParts] | None = None,
        keywords: dict[str, bool] | None = None,
    ) -> Function:
        """Add a function to the module, once.

        `key` tells functions apart whose text is the same, `numbers` are names of
        parameters of the original that held integers, `integers` what all variables held.
        `key_parts` are keys that the original makes of what its parameters hold, `keywords`
        which of them its call passes by keyword.
        `passed` gets the numbers that a call has to pass, by the parameters for them that
        functions like this one have.
        """
        held = (numbers or {}), key_parts or {}
        made, merged = self._rendered(draft, held), None
        if passed is not None and self.plan.may_merge(stem_of(draft.name)):
            merged = self.plan.merged.get(likeness(made)) if self.plan.merged else None
        given = give_numbers(made, merged) if merged else None
        shared = None if given is None else merged
        made.again = lambda: self._rendered(draft, held, shared)
        if passed is not None and given is not None:
            passed.update(given)
            draft.gives_numbers = True
            self.given_numbers.add(stem_of(draft.name))
        made.integers, made.keywords = integers or {}, keywords or {}
        made.numbers = {**named_floats(draft), **(numbers or {})}
        made.names = draft.names or (draft.name,)
        text = (made.names[0], *meaning(made), key)
        first = self._functions.get(text)
        if first is None:
            made.name = self.lifter.scope.fresh_global(draft.name)
            self.lifter.functions.append(made)
            self._functions[text], self.drafts[made] = made, draft
            return made
        if first.comment != made.comment:
            first.comment = ""  # called at several types
        first.agree(made)
        if untyped(first.lines) == untyped(made.lines) and first.lines != made.lines:
            first.lines = untyped(first.lines)
            self.drafts[first].forget_types()
        if first.signature != made.signature:
            first.signature = ""
        return first

    def _rendered(
        self,
        draft: Draft,
        held: tuple[Collection[str], dict[str, KeyParts]],
        merged: Merged | None = None,
    ) -> Function:
        """Write a complete function, with parameters for numbers that others have."""
        made = self.render(draft)
        if not self.options.anonymous:  # keys would tell the names
            made.in_keys, made.key_parts = frozenset(held[0]), held[1]
        other = self.plan.renamed.get(likeness(made)) if self.plan.renamed else None
        if other is not None:
            rename_variables(made, other)
        if merged is not None:
            give_numbers(made, merged)
        return made

    def render(self, draft: Draft) -> Function:
        """Write a complete function, and note the names that it gives."""
        imported = frozenset(self.lifter.imports.attributes.values())
        made = render(draft, self.numbered, imported)
        if is_strict():
            check_nodes(draft)
        for name in draft.locals():
            self.locals.add(name.text)
            if name.is_given and not name.is_foreign and name.text != name.hint:
                self.hidden.add(name.hint)
        return made

    def add_after(self, names: set[str], statement: Term) -> None:
        """Write a statement after the last of some functions of the module.

        Functions of the same text are one, so that a rule may stand before the function
        that it belongs to.
        """
        last = [one for one in self.lifter.functions if one.name in names][-1]
        last.after += ["", "", statement.render()]
        self._after.append((last, len(last.after) - 1, statement))

    def settle_names(self, main: Function) -> None:
        """Give functions names under which no local hides them, and no two have one."""
        functions, scope = [*self.lifter.functions, main], self.lifter.scope
        named = [one for one in functions if one.names and one.again is not None]
        levels = self.plan.levels
        while True:
            before = [function.name for function in named]
            settle(functions, levels, self.hidden)
            scope.release(one.name for one in self.drafts)  # some of which are gone
            for one in named:
                one.name = scope.fresh_global(one.names[levels.get(one.names, 0)])
            numbered = {f.name for f in named if f.name not in f.names} & self.locals
            is_settled = before == [function.name for function in named]
            if is_settled and numbered <= self.numbered:
                return
            self.numbered |= numbered  # else a local would get the next number
            self.write_again(functions)

    def write_again(self, functions: Sequence[Function]) -> None:
        """Write the text of functions with the names that they have by now."""
        self.locals.clear()
        self.hidden.clear()
        for function in functions:
            function.write_again()
        for function, index, statement in self._after:
            function.after[index] = statement.render()

    def reads_left_out(self, functions: Sequence[Function]) -> bool:
        """Whether functions of the module refer to a field that was left out."""
        left_out = set(self.references.left_out)
        drafts = [self.drafts[one] for one in functions if one in self.drafts]
        parts = (part for draft in drafts for part in draft.parts()) if left_out else ()
        return any(type(p) is Ref and p.resolved().name in left_out for p in parts)

    def calls_repeatedly(self, stem: str) -> bool:
        """Whether a function refers to those of a name several times, as turns do."""
        return any(
            sum(
                isinstance(part, Global)
                and isinstance(part.symbol, Function)
                and stem_of(part.symbol.name) == stem
                for part in draft.parts()
            )
            > 1
            for draft in self.begun
        )

    def has_effects(self, item: Call) -> bool:
        """Whether a call does more than return its result.

        A kernel writes to the arrays that it is given, which are its result.
        """
        known = self._effects.get(id(item))
        if known is None:
            name = getattr(item.function, "__name__", "")
            operator = getattr(item.function, "name", "")
            known = getattr(item.function, "maker", ()) != jaxapi.KERNEL_HOME and (
                name in _EFFECTS
                or jaxapi.is_debugging(item.function)
                or operator == "__setitem__"
                or any(self.has_effects(c) for b in item.bodies for c in b.calls)
            )
            self._effects[id(item)] = known
        return known

    def hands_on(self, error: UnknownArray) -> bool:
        """Let functions return an unknown array that they make; tell whether any do."""
        return self.plan.hand_on(
            error.value,
            self.open_calls,
            lambda item: not self.is_dissolved(item),
            self.shapes.opened,
        )

    def is_dissolved(self, item: Call) -> bool:
        """Whether a call of a Python function is written as what it does."""
        code = item.bodies[0].code
        if item in self.plan.dissolved:
            return True
        if code.co_name == "<lambda>" or code.co_name == "__init__":
            return True
        if not is_library(code):
            return False
        body = item.bodies[0]
        known = self.plan.short.get(id(body))
        if known is None:
            is_named = code.co_name == "__call__" or (
                _is_formula(body) and self.plan.is_called_again(code)
            )
            limit = SHORT if is_named else LONG
            if self.plan.is_called_again(code, OFTEN):
                limit = min(limit, MEDIUM)
            known = is_wrapper(body) or count_calls(body) < limit
            self.plan.short[id(body)] = known
        return known


def _is_in(text: str, line: str) -> bool:
    """Whether an expression is written in a line, or the line is a part of it."""
    text, line = _without_layout(text), _without_layout(line).rstrip(",")
    return text in line or (len(line) > 3 and line in text)


def _without_layout(text: str) -> str:
    """Leave out spaces, and the commas that end what stands on several lines."""
    text = "".join(text.split())
    for end in ")]}":
        text = text.replace(f",{end}", end)
    return text


def _is_formula(body: Body) -> bool:
    """Whether a function makes one array of arrays and numbers, and of no object."""
    given = body.parameters.values()
    return (
        not body.code.co_freevars
        and is_array(body.result)
        and all(is_array(value) or is_plain(value) for value in given)
    )


def is_wrapper(body: Body) -> bool:
    """Whether all that a run does is done by one function that it calls, or by the user's."""
    busy = [c for c in body.calls if _is_busy(c)]
    return (len(busy) == 1 and busy[0].is_own) or _calls_only_users(body)


def _calls_only_users(body: Body) -> bool:
    """Whether a run only calls functions of the user: a `setup` and a method, say."""
    busy = [c for c in body.calls if _is_busy(c)]
    runs = [c.bodies[0] for c in busy if c.is_own]
    return 0 < len(busy) == len(runs) and all(
        not is_library(run.code) or _calls_only_users(run) for run in runs
    )


def _is_busy(item: Call) -> bool:
    if item.is_own:
        return count_calls(item.bodies[0]) > 0
    return has_array(item.result) and not jaxapi.is_tree_function(item.function)


def count_calls(body: Body) -> int:
    """Count the calls of public functions that a run makes."""
    return sum(
        count_calls(c.bodies[0]) if c.is_own else _is_busy(c) for c in body.calls
    )
