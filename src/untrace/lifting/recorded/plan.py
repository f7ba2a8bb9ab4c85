"""What is known about a recording from writing it before: it is written until it works.

A value that a function hands on without returning it is returned, too; if that does not
help, the function dissolves. A call
that cannot be written is written from its equations: a region (`regions.py`). If that
fails too, the call around it is a region.
"""

from __future__ import annotations

import os
import types
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from untrace import jaxapi
from untrace.capture.attributes import Attributes, in_places
from untrace.folder import OWN_FOLDER
from untrace.ir import Block
from untrace.lifting.printing import Function
from untrace.lifting.recorded.functions.fields import Field
from untrace.lifting.recorded.functions.handing_on import (
    HandedOn,
    Made,
    Returned,
    handed_on,
    made_inside,
    used_outside,
)
from untrace.lifting.recorded.functions.held_values import Held, differing_values
from untrace.lifting.recorded.functions.hoisting import moved_out
from untrace.lifting.recorded.functions.needs import (
    Need,
    References,
    narrowed,
    needs,
)
from untrace.lifting.recorded.functions.traced_apart import TracedApart
from untrace.lifting.recorded.functions.traced_before import TracedBefore
from untrace.lifting.recorded.naming.traced_numbers import classes_of_traced_numbers
from untrace.lifting.recorded.naming.values import arrays_in, has_array, is_array
from untrace.lifting.recorded.unify.alike import Likeness
from untrace.lifting.recorded.unify.numbers import Merged
from untrace.optional import Signal, gives, optional
from untrace.recovery.record import (
    Body,
    Call,
    Place,
    Target,
    calls_around,
    calls_inside,
    is_library,
)

MAX_STEPS = 8  # in which the result of a function becomes what is needed of it
MAX_WIDENED = 2
MAX_AROUND = 4  # calls that are lowered by the equations around a difference
MAX_BAKED = 16  # passes that may be spent on them


class Restart(Signal):
    """The program has to be written again: more is known about it."""


@dataclass(eq=False, slots=True)
class Plan:
    """What to do differently the next time.

    Attributes:
      recording: The run that is written.
      dissolved: Calls of Python functions that are written as what they do.
      lowered: Calls that are written from their equations, with the reason.
      outlined: Such calls that take a function of their own.
      hidden: What such calls make besides their results.
      handed_on: What functions return besides their results.
      made: Where arrays were made, by identity; empty until that is asked for.
      n_looked: In how many runs they were looked for.
      attributes: What the objects hold that the program was given or made.
      hoisted: Calls inside a transformed function that are made before it, in order, by
        the call of that.
      dropped: Calls made apart from what is around them, which nothing needs.
      short: Which runs of a framework's functions are no functions of their own.
      apart: Runs that the recording does not have, such as those of derivative rules.
      traced: Jaxprs that the run made, by identity, and the runs that they came from.
      before: The runs of jitted functions that JAX knows again; found when asked for.
      tree_places: Where functions are mapped over trees; found when asked for.
      regions: What regions take from outside, and their equations.
      region_rules: The rules of these equations as they were traced, by the idioms that were
        not to be used in them.
      excluded: Lines of idioms that are not to be used.
      expand: Transformations whose calls are written as what JAX makes of them.
      closed: Such calls that are written as they were made all the same, and why.
      needs: What of the results of a library's functions is used, found step by step.
      complete: Calls that return everything after all.
      unnamed: Names that numbers are not to have.
      keys: What identifies the values of local variables, by the `id` of each.
      fields: The keys of arrays and containers in such a value, and the fields that they are in.
      described: How values are described, by identity.
      levels: Which of the names that they may have functions of libraries have.
      faults: Notes on calls that are no functions of their own by a fault of ours.
      places: Where functions of users and libraries were called, by the id of their code.
      passed: The user's functions that are passed to transformations, by the id of their
        code; found when asked for.
      whole: Parameters of libraries' functions that take objects which have no name in
        the callers: they are built there, because the functions need all of them.
      varying: Attributes of a library's classes that are arrays in some objects.
      numbered: Modules that pass their numbers as arrays somewhere.
      differing: What holds other values in some runs of a function than in others.
      unread: Fields of stand-ins that the program has no need for.
      prunes: Whether these are left out.
      mergeable: Names of functions that become one where they differ in numbers; None
        if all do.
      merging: Names of those that did when it was written last.
      merged: Which numbers become parameters of functions, as they did then.
      renamed: Functions that others have the names of their variables from.
      baked: Parameters that take functions and are written as what these do.
      doubtful: Those whose functions ran at several types.
      strong: Codes of functions that were traced with weak types and evaluated with others.
      pulled_back: Primitives of libraries that are functions with backward passes.
      imported: Functions of libraries with rules that no text can hold, by their `id`.
      passes_functions: Whether functions are passed to the user's functions.
      has_passed: Whether some were.
      n_rounds: How often it was written without being proved.
      failures: How often it failed in which way, called from which lines.
      n_widened: How often a call around one that was lowered was lowered, too.
      n_around: How often one was by the equations around a difference.
    """

    recording: Body
    dissolved: set[Call] = field(default_factory=set)
    lowered: dict[Call, str] = field(default_factory=dict)
    outlined: set[Call] = field(default_factory=set)
    hidden: dict[Call, list[Any]] = field(default_factory=dict)
    handed_on: dict[Call, list[HandedOn]] = field(default_factory=dict)
    made: dict[int, Made] = field(default_factory=dict)
    n_looked: int = 0
    attributes: Attributes = field(default_factory=Attributes)
    hoisted: dict[Call, list[Call]] = field(default_factory=dict)
    dropped: set[Call] = field(default_factory=set)
    short: dict[int, bool] = field(default_factory=dict)
    apart: TracedApart = field(default_factory=TracedApart)
    regions: dict[Any, tuple[list[Any], Block]] = field(default_factory=dict)
    traced: dict[int, tuple[Any, Body]] = field(default_factory=dict)
    region_rules: dict[frozenset[str], dict[Any, Any]] = field(default_factory=dict)
    before: TracedBefore | None = None
    tree_places: Set[Place] | None = None
    excluded: set[str] = field(default_factory=set)
    expand: frozenset[str] = frozenset()
    closed: dict[Any, str] = field(default_factory=dict)
    needs: dict[Call, list[Need]] = field(default_factory=dict)
    complete: set[Call] = field(default_factory=set)
    unnamed: set[str] = field(default_factory=set)
    keys: dict[int, Any] = field(default_factory=dict)
    fields: dict[int, list[tuple[Any, str]]] = field(default_factory=dict)
    described: dict[tuple[int, int], Any] = field(default_factory=dict)
    levels: dict[tuple[str, ...], int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    places: dict[int, set[Place | None]] = field(default_factory=dict)
    passed: Set[int] | None = None
    whole: set[tuple[int, str]] = field(default_factory=set)
    varying: set[tuple[type, str]] = field(default_factory=set)
    numbered: set[type] = field(init=False)
    differing: Mapping[Held, bool] = field(init=False)
    unread: set[Field] = field(default_factory=set)
    prunes: bool = True
    mergeable: Set[str] | None = None
    merging: Set[str] = frozenset()
    merged: dict[Likeness, Merged] = field(default_factory=dict)
    renamed: dict[Likeness, Function] = field(default_factory=dict)
    baked: set[tuple[int, str, int]] = field(default_factory=set)
    doubtful: set[tuple[int, str, int]] = field(default_factory=set)
    strong: set[Any] = field(default_factory=set)
    pulled_back: set[Any] = field(default_factory=set)
    imported: dict[int, Any] = field(default_factory=dict)
    passes_functions: bool = True
    has_passed: bool = False
    n_rounds: int = 0
    failures: Counter[tuple[str, tuple[str, ...]]] = field(default_factory=Counter)
    n_widened: int = 0
    n_around: int = 0

    def __post_init__(self) -> None:
        self.numbered = classes_of_traced_numbers(self.recording)
        self.differing = differing_values(self.recording)

    def roots(self) -> list[Body]:
        """List the runs that are in no other: the recording, and what was traced apart."""
        return [self.recording, *self.apart.runs]

    def traced_rules(self) -> dict[Any, Any]:
        """Return the rules of equations that were traced already, to add more."""
        return self.region_rules.setdefault(frozenset(self.excluded), {})

    def bake_parameter(self, key: tuple[int, str, int]) -> None:
        """Write a function into the one that it is passed to; after many, all of them.

        The program is written again for each.
        """
        self.baked.add(key)
        self.passes_functions = len(self.baked) < MAX_BAKED

    def bake(self) -> bool:
        """Write functions that are passed where they are called; tell whether any were.

        Those that ran at several types come first: they may do something else for each.
        """
        if self.doubtful - self.baked:
            self.baked |= self.doubtful
            return True
        was_passed, self.has_passed = self.has_passed, False
        self.passes_functions = False
        return was_passed

    def lower(self, item: Call, why: str) -> bool:
        """Write a call from its equations; tell whether that has not been tried."""
        if item in self.lowered or item.span is None:
            return False
        self.lowered[item] = why
        return True

    def widen(self, why: str) -> bool:
        """Write a transformation around the last call that was lowered from its equations.

        It is the innermost one, and the next time the outermost: what a library's
        primitive does under `jax.vmap` is only seen outside. `jax.jit` changes nothing.

        Returns:
          Whether there is one.
        """
        last = next(reversed(self.lowered), None)
        around = [
            outer
            for run in self.roots()
            for item, outside in calls_around(run)
            if item is last
            for outer in outside
        ]
        wider = [one for one in around if _transforms(one) and one not in self.lowered]
        if not wider or self.n_widened == MAX_WIDENED:
            return False
        self.n_widened += 1
        return self.lower(wider[0 if self.n_widened == MAX_WIDENED else -1], why)

    def lower_around(self, equations: Sequence[Any], why: str) -> bool:
        """Write a call that made one of some equations from its equations.

        Args:
          equations: Those of the program around a difference, outermost first; None is
            one that is not known.
          why: How it differs.

        It is the innermost call that is not written so yet, of the innermost equation.

        Returns:
          Whether there is one.
        """
        if self.n_around == MAX_AROUND:
            return False
        self.n_around += 1
        calls = [item for run in self.roots() for item, _ in calls_around(run)]
        for eqn in reversed(equations):
            made = set() if eqn is None else {*map(id, eqn.outvars)}
            for item in calls if made else ():
                span = item.span
                results = (
                    id(jaxapi.var_behind(result))
                    for bind in (span.log[span.first : span.last] if span else ())
                    for result in bind.results
                )
                if not made.isdisjoint(results) and self.lower(item, why):
                    return True
        return False

    def learn(self, references: References) -> bool:
        """Learn from what a program refers to which results it has no need for.

        Returns:
          Whether there is anything to write in another way.
        """
        found = needs(references, self.complete)
        is_more = bool(self.complete & self.needs.keys())
        for item in self.complete:
            self.needs.pop(item, None)
        for item, need in found.items():
            steps = self.needs.setdefault(item, [])
            if len(steps) < MAX_STEPS:
                steps.append(need)
                is_more = True
        return is_more

    @optional(gives(False))
    def learn_merged(
        self,
        found: Mapping[Likeness, Merged],
        renamed: Mapping[Likeness, Function],
        is_repeated: Callable[[str], bool],
    ) -> bool:
        """Learn which functions were merged; tell whether loops may call them now.

        Args:
          found: How they were, by what they have in common (`likeness`).
          renamed: Those that others had the names of their variables from.
          is_repeated: Tells whether something calls those of a name more than once.
        """
        is_more = any(is_repeated(key[0]) for key in found.keys() - self.merged.keys())
        self.merged.update(found)
        self.renamed.update(renamed)
        return is_more and self.mergeable != frozenset()

    def may_merge(self, stem: str) -> bool:
        """Whether functions of a name may become one where they differ in numbers."""
        return self.mergeable is None or stem in self.mergeable

    def _read_calls(self) -> None:
        if not self.places:
            own = (item for item in calls_inside(self.recording) if item.is_own)
            for item in own:
                places = self.places.setdefault(id(item.bodies[0].code), set())
                places.add(item.place)

    def is_called(self, code: types.CodeType) -> bool:
        """Whether the user's own function is called by Python, and not transformed."""
        self._read_calls()
        return not is_library(code) and id(code) in self.places

    def is_passed(self, code: types.CodeType) -> bool:
        """Whether the user's own function is passed to a transformation."""
        if self.passed is None:
            calls = calls_inside(self.recording)
            runs = [run for item in calls if not item.is_own for run in item.bodies]
            self.passed = {id(run.code) for run in runs if not is_library(run.code)}
        return id(code) in self.passed

    def is_called_again(self, code: types.CodeType, n_places: int = 2) -> bool:
        """Whether a function was called from several places."""
        self._read_calls()
        return len(self.places.get(id(code), ())) >= n_places

    def shown(self, item: Call, recorded: Call | None = None) -> Call:
        """Return a call of a Python function as if it had returned what is needed.

        `recorded` is the call as it was recorded, if that is another one.
        """
        recorded = recorded or item
        extra = self.handed_on.get(recorded)
        if extra:
            order = self.attributes.order([item.result]) if len(extra) > 1 else {}
            places = [order.get(id(one.value)) for one in extra]
            item = _with_more(item, in_places(extra, places))
        return narrowed(item, self.needs.get(recorded, ()))

    def hoist(self, array: Any, opened: Collection[Call]) -> bool:
        """Compute an array before the transformed function inside which it was computed.

        Returns:
          Whether it was, and depends on none of its arguments.
        """
        is_more = False
        waiting = [array]
        for value in waiting:  # which grows by what it is computed from
            each = (moved_out(run, value, opened) for run in self.roots())
            before, maker = next(filter(None, each), (None, None))
            if before is None or maker is None:
                continue
            moved = self.hoisted.setdefault(before, [])
            if maker not in moved:
                is_more = True
                moved.append(maker)
                waiting += arrays_in([*maker.args, *maker.kwargs.values()])
        for calls in self.hoisted.values():
            calls.sort(key=lambda item: item.span.first if item.span else 0)
        return is_more

    def hand_on(
        self,
        value: Any,
        opened: Collection[Call],
        is_kept: Callable[[Call], bool],
        whole: Callable[[Any], Any],
    ) -> bool:
        """Let functions return what they hand on without returning it.

        What all calls of them hand on is looked for, needed or not.

        Args:
          value: What is used outside of them.
          opened: The calls around the place where it is used.
          is_kept: Tells whether a call is written as a call.
          whole: Returns the tree that a flat list of leaves stands for.

        Returns:
          Whether there is anything that they did not return before.
        """
        roots = self.roots()
        for run in roots[self.n_looked :]:
            self.made.update(made_inside(run))
        self.n_looked = len(roots)
        returned = Returned()
        given = self.made, whole, self.attributes, returned
        found = handed_on(value, opened, *given)
        more = self._hands_on(found, is_kept)
        codes = {item.bodies[0].code for item in more}
        for run in roots if codes else ():
            for used, around in used_outside(run, self.made, codes, returned):
                self._hands_on(handed_on(used, around, *given), is_kept)
        return bool(more)

    def _hands_on(
        self, found: Mapping[Call, list[HandedOn]], is_kept: Callable[[Call], bool]
    ) -> list[Call]:
        """Let functions return more; return the calls of those that did not before."""
        more: list[Call] = []
        for item, parts in found.items():
            if not is_kept(item):
                continue
            known = self.handed_on.setdefault(item, [])
            for part in parts:
                held = _ids(part.value)
                if any(held <= _ids(one.value) for one in known):
                    continue
                known[:] = [one for one in known if not _ids(one.value) <= held]
                known.append(part)
                self.needs.pop(item, None)  # it was about the result without this
                more.append(item)
        return more

    def dissolve(self, array: Any, opened: Collection[Call]) -> bool:
        """Dissolve the functions that hand an array on without returning it.

        Returns:
          Whether there are any that were not dissolved before.
        """
        found = {item for run in self.roots() for item in makers(run, array)}
        found -= self.dissolved | set(opened)
        self.dissolved |= found
        return bool(found)

    def expose(self, array: Any, opened: Collection[Call]) -> bool:
        """Write the call that makes an array without returning it from its equations.

        Returns:
          Whether there is one that does not so already.
        """
        each = (_binders(run, array) for run in self.roots())
        binders = next(filter(None, each), None)
        if binders is None:
            return False
        *around, last = binders
        if any(known is array for known in self.hidden.get(last, ())):
            return False
        self.dissolved |= {item for item in around if item.is_own} - set(opened)
        self.hidden.setdefault(last, []).append(array)
        self.dropped.discard(last)
        self.lowered.setdefault(last, "it makes more than it returns")
        return True


def _ids(value: Any) -> set[int]:
    return set(map(id, arrays_in(value)))


def _with_more(item: Call, extra: Sequence[HandedOn]) -> Call:
    """Return a call as if it had returned more."""
    values = [one.value for one in extra]
    hints: list[Target] = [
        one.hint or ("state" if is_array(one.value) else None) for one in extra
    ]
    if has_array(item.result):
        values, hints = [item.result, *values], [item.target, *hints]
    if len(values) == 1:
        return replace(item, result=values[0], target=hints[0])
    return replace(item, result=tuple(values), target=tuple(hints))


def place_of(item: Call) -> str:
    """Say where a call was written, or where the function is that it runs."""
    if item.is_own:
        code = item.bodies[0].code
        return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}"
    place = item.place
    if place is None or place.filename.startswith(OWN_FOLDER):
        return ""
    return place.shown


def makers(body: Body, array: Any) -> tuple[Call, ...]:
    """Return the calls of Python functions inside which an array was made."""
    for item, inside in calls_around(body, of_python=True):
        made = arrays_in(item.result) if inside and not item.is_own else ()
        if any(leaf is array for leaf in made):
            return inside
    return ()


def _transforms(item: Call) -> bool:
    """Whether a call is of a transformation other than `jax.jit`."""
    made = item.function
    is_jitted = isinstance(made, jaxapi.Transformed) and made.maker[1] == "jit"
    return not (item.is_own or is_jitted) and bool(item.bodies)


def _binders(body: Body, array: Any) -> tuple[Call, ...] | None:
    """Return the calls around the primitive that made an array, the innermost last."""
    for item in body.calls:
        span = item.span
        if span is None:
            continue
        made = span.log[span.first : span.last]
        if not any(result is array for bind in made for result in bind.results):
            continue
        for run in item.bodies:
            inner = _binders(run, array)
            if inner:
                return item, *inner
        is_here = any(r is array for bind in span.binds() for r in bind.results)
        return (item,) if is_here else None
    return None
