"""Write one function of a recording: which names it sees, which statements it has."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.capture.trees import Tree, leaves
from untrace.lifting.recorded.functions.function_values import Given
from untrace.lifting.recorded.functions.nested import join
from untrace.lifting.recorded.functions.short_types import short_types
from untrace.lifting.recorded.naming.values import (
    Found,
    Values,
    arrays_in,
    is_array,
)
from untrace.lifting.recorded.program import Program
from untrace.lifting.recorded.repeats.rows import row_of
from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Draft, Names, Statement, Trail
from untrace.lifting.recorded.unwritable import UnknownArray
from untrace.recovery import bytecode
from untrace.recovery.functions import function_key
from untrace.recovery.quoting import quoted
from untrace.recovery.record import Body, Call, End, Place, Target, Turn, is_library
from untrace.recovery.unpacking import Unpacked
from untrace.recovery.user_comments import remarks_at
from untrace.syntax.names import identifier
from untrace.syntax.text import comment

REACH = 10  # characters that are likely to lead to a module's parameters
N_LATEST = 4  # arrays whose shapes may be meant


@dataclass(frozen=True, slots=True)
class Forms:
    """How values, functions and calls are written, each of which may contain the others.

    A value may be a function, a function has statements, and statements have values. The
    modules for these reach each other through the writer; `main_function.py` is given all.

    Attributes:
      value: Writes any value; the string may name a number.
      static: Writes a value that is no array.
      function: Writes a function that is passed, by its runs in the call that takes it.
      body: Writes recorded calls, in order.
      as_made: Writes a call as it was made.
      targets: Makes the names for the result of a call.
    """

    value: Callable[[Any, Writer, str], Term]
    static: Callable[[Any, Writer], Term]
    function: Callable[[Any, Sequence[Body], Writer], Term]
    body: Callable[[Sequence[Call], Writer], None]
    as_made: Callable[[Call, Writer], None]
    targets: Callable[[Any, Target, Call, Writer], Names]


TurnKey = tuple[str, float, tuple[int, ...]]
"""A variable of a turn of a loop, the number that it holds, and the arrays it is of."""


class Writer:
    """Writes the statements of one function.

    Args:
      program: What the functions of the module share.
      draft: The function being written.
      parent: The function around a nested one, whose names it sees.
      caller: The function that calls this one: what is needed from there becomes a
        parameter.
      is_library: Whether the function is a library's, not the user's.
      is_method: Whether it is a method that is passed, whose object it needs.
      setting: JAX's settings around its statements.
      forms: How everything is written; as by the writer around, if None.
    """

    def __init__(
        self,
        program: Program,
        draft: Draft,
        parent: Writer | None = None,
        caller: Writer | None = None,
        is_library: bool = False,
        is_method: bool = False,
        setting: jaxapi.Setting = (),
        forms: Forms | None = None,
    ) -> None:
        around = parent or caller
        if forms is None:
            assert around is not None
            forms = around.forms
        self.forms: Forms = forms
        self.program = program
        self.draft = draft
        self.parent = parent
        self.caller = caller
        self.is_library = is_library
        self.values = Values(program.describe)
        self.is_method = is_method
        self.setting = setting
        self.is_closure = False
        self.lifted: list[tuple[Name, Found]] = []
        self.owned: dict[int, int] = {}  # names by identity, as they were made
        self.arguments: dict[tuple[int, str], Name] = {}
        self.floats: dict[int, dict[str, Name]] = {}  # parameters, by what they hold
        self.integers: dict[tuple[str, int], Name] = {}  # variables, and what they hold
        self.of_turns: dict[TurnKey, Name] = {}
        self.sized_by: set[tuple[str | int, ...]] = set()  # variables, and arrays
        self.sizes_taken: dict[
            int, Sequence[Any]
        ] = {}  # as variables, by `id` of arrays
        self.dropped: frozenset[str] = frozenset()  # parameters that hold no arrays
        self.given = Given()
        self.traced: Mapping[int, Any] = {}  # for arrays of parameters, by their `id`
        self._takers: dict[Any, list[Name]] = {}  # parameters, by what they took
        self.n_dissolving = 0
        self.trail: Trail = ()  # calls of dissolved functions
        self.turn: Turn = ()  # of the loops that they stand in
        self.n_formulas = 0
        self.plain_floats: dict[tuple[str, str], Name] = {}  # variables of no arguments
        # Parameters of which only the arrays were passed, by what identifies their values.
        self.apart: dict[Any, tuple[int, str]] = {}
        self.passed_on: dict[int, int] = {}  # arrays that are others here
        self.unpacked: dict[int, tuple[Target, ...]] = {}
        # What is to be unpacked of parameters, which hold this, by functions of this code.
        self.unpacking: list[tuple[Unpacked, Any, types.CodeType]] = []
        self.flags: dict[tuple[int, bool], Name] = {}  # unpacked with an array
        self._origins: dict[int, Found] = {}
        self.latest: deque[Any] = deque(maxlen=N_LATEST)
        draft.origins, draft.lift = self._origins, self._lifted
        draft.counted_to = self._counted_to
        program.begun.append(draft)

    # ---- names ---------------------------------------------------------------------

    def find(self, key: Any) -> Found | None:
        """Return the name that holds what has a key, from here outwards."""
        found = self.values.find(key)
        if found is not None:
            return found
        other = self._passed_on(key)
        if other != key:
            return self.find(other)
        if self.parent is not None:
            found = self.parent.find(key)
            if found is not None:
                self.is_closure = True
                found[0].captured = True
            return found
        if self.caller is not None:
            origin = self.caller.locate(key)
            if origin is not None:
                name = self._lifted(origin)
                self.values.add(key, name)
                return name, ()
        return None

    def locate(self, key: Any) -> Found | None:
        """Return the name that holds what has a key in the function that made it."""
        found = self.values.find(key)
        if found is not None:
            return self._origin(found)
        other = self._passed_on(key)
        if other != key:
            return self.locate(other)
        around = self.parent or self.caller
        return around.locate(key) if around is not None else None

    def _origin(self, found: Found) -> Found:
        """Return what a name stands for that a function was given, this or one around it.

        What a nested function passes on may have a name that the one around was given.
        """
        writer: Writer | None = self
        while writer is not None and id(found[0]) not in writer._origins:
            writer = writer.parent
        return found if writer is None else writer._origins[id(found[0])]

    def _passed_on(self, key: Any) -> Any:
        """Return the key that a container has with the arrays that it is made of here."""
        if not self.passed_on:
            return key
        if type(key) is int:
            return self.passed_on.get(key, key)
        return tuple(map(self._passed_on, key)) if type(key) is tuple else key

    def give(self, function: Any, name: Name) -> None:
        """Let a parameter stand for a function, and for calls of it."""
        self.own(name)
        name.held = function
        self.given.add(function)
        key = function_key(function)
        self.values.add(key, name)
        self._takers.setdefault(key, []).append(name)
        self.program.has_given = True

    def find_function(self, function: Any) -> Found | None:
        """Return the parameter, of this function or one around it, that a function is."""
        if not self.program.has_given:
            return None
        is_seen = self.given.sees(function, self.n_dissolving > 0)
        return self.find(function_key(function)) if is_seen else None

    def find_called(self, item: Call, function: Any) -> Found | None:
        """Return the parameter that is called; where several are one function, by its name."""
        found = self.find_function(function)
        takers = self._takers.get(function_key(function), ()) if self._takers else ()
        if found is None or len(takers) < 2 or item.place is None:
            return found
        loaded = bytecode.loads(item.place.code, item.place.offset)
        word = identifier(loaded[0].path[-1].strip("_")) if loaded else ""
        return next(((name, ()) for name in takers if name.hint == word), found)

    def needs_whole(self, key: Any) -> None:
        """Take note that an object is built again whose arrays were passed one by one.

        The caller builds it then, and so on up to where its arrays are not passed.
        """
        if key in self.apart:
            self.program.plan.whole.add(self.apart[key])
            self.program.is_stale = True
            if self.caller is not None:
                self.caller.needs_whole(key)
        elif self.parent is not None:
            self.parent.needs_whole(key)

    def shared_part(self, value: Any) -> Found | None:
        """Return the part that the call being written reads, of several that are alike."""
        parts = self.program.parts
        if not parts:
            return None
        key = self.values.key(value)
        for position, (variable, path, held) in enumerate(parts):
            if self.values.key(held) != key:
                continue
            del parts[position]
            names = [n for (_, hint), n in self.arguments.items() if hint == variable]
            for name in reversed(names):
                found = self.values.part_of(name, path)
                if found is not None and found[0] == key:
                    return name, found[1]
            return None
        return None

    def given_function(self, run: Body) -> Any:
        """Return the function that a parameter took and that ran; None if none did."""
        if not self.program.has_given:
            return None
        ran = self.given.that_ran(run)
        return next((f for f in ran if self.find(function_key(f)) is not None), None)

    def _lifted(self, origin: Found) -> Name:
        """Make a value from outside a parameter; `grouped` decides which part of it."""
        for name, known in self.lifted:
            if known[0] is origin[0] and known[1] == origin[1]:
                return name
        name = Name(origin[0].hint, True, reach=REACH if self.is_method else 0)
        self.lifted.append((name, origin))
        self._origins[id(name)] = origin
        return name

    def find_float(self, value: float, variable: str) -> Found | None:
        """Return the name that holds a float, from here outwards.

        Args:
          value: The float, known by identity.
          variable: What the program calls it here; "" if that is unknown. The compiler
            makes one object of alike numbers, so several parameters may hold it.

        Returns:
          None if several parameters of one function hold it, and none of them is meant.
        """
        writer = self
        while writer is not None and id(value) not in writer.floats:
            writer = writer.parent or writer.caller
        n_holders = 0 if writer is None else len(writer.floats[id(value)])
        while writer is not None:
            name = writer.floats.get(id(value), {}).get(variable)
            if name is not None:
                return self._reached((name, ()))
            writer = writer.parent
        return self.find(id(value)) if n_holders < 2 else None

    def find_integer(self, variable: str, value: int) -> Found | None:
        """Return the name of a variable of the program, here or around, with this value."""
        name = self.integers.get((variable, value))
        if name is not None:
            return name, ()
        code, around = self.draft.code, self.parent or self.caller
        if code is None or around is None:
            return None
        found = around.integer_for(code, variable, value)
        return None if found is None else self._taken(found)

    def integer_for(
        self, code: types.CodeType, variable: str, value: int
    ) -> Found | None:
        """Return the name of a variable around a function that is called here."""
        if _is_in(code, self.draft.code):
            return self.find_integer(variable, value)
        around = self.parent or self.caller
        found = around.integer_for(code, variable, value) if around else None
        return None if found is None else self._taken(found)

    def _taken(self, found: Found) -> Found:
        """Take what is known around: close over it, or be given it by what calls this."""
        if self.parent is None:
            return self._lifted(found), ()
        self.is_closure = found[0].captured = True
        return found

    def around(self) -> Writer | None:
        """Return what writes the function that this one is defined in.

        One that is called becomes a function of the module, which is given what it closes
        over.
        """
        if self.parent is not None:
            return self.parent
        around = self.caller
        while around is not None and not _is_in(self.draft.code, around.draft.code):
            around = around.parent or around.caller
        return around

    def hold_number(self, value: float, variable: str, name: Name) -> None:
        """Let a name stand for the number that a variable of the program holds."""
        if type(value) is int:
            self.integers[variable, value] = name
        else:
            self.values.add(id(value), name)

    def hold_float(self, value: float, variable: str, name: Name) -> None:
        """Let a parameter stand for the float that a variable of the program holds."""
        self.values.add(id(value), name)
        self.floats.setdefault(id(value), {})[variable] = name

    def _counted_to(self, value: int, end: End) -> Term | None:
        """Refer to the integer that a loop of the program counts to."""
        if not end.is_local:
            return self.program.numbers.named_integer(value, end.variable)
        found = self.find_integer(end.variable, value)
        return None if found is None else self.ref(found)

    def reach(self, origin: Found, is_tree: bool = False) -> Term:
        """Refer to a part of what a name holds that another function defined."""
        return self.ref(self._reached(origin, is_tree))

    def _reached(self, origin: Found, is_tree: bool = False) -> Found:
        """Return the name that a part of what another function's name holds has here."""
        if id(origin[0]) in self.owned:
            return origin
        if self.parent is not None:
            self.is_closure = True
            found = self.parent._reached(origin, is_tree)
            found[0].captured = True
            return found
        name = self._lifted(origin)
        name.is_tree = name.is_tree or is_tree
        return name, ()

    def own(self, name: Name) -> None:
        """Take note that a name is of this function."""
        self.owned.setdefault(id(name), len(self.owned))

    def rank(self, name: Name) -> tuple[int, int]:
        """Order names: those of inner functions first, then as they were made."""
        writer, n_out = self, 0
        while id(name) not in writer.owned:
            around = writer.parent or writer.caller
            if around is None:
                break
            writer, n_out = around, n_out + 1
        return n_out, writer.owned.get(id(name), 0)

    def ref(self, found: Found) -> Term:
        """Refer to a name, counting the use."""
        found[0].uses += 1
        return Term([Ref(found[0], found[1])])

    def value(self, value: Any, role: str = "") -> Term:
        """Write any value as an expression; `role` may name a number or an array."""
        try:
            return self.forms.value(value, self, role)
        except UnknownArray as error:
            error.value = value  # that around all others stays
            raise

    def number(self, value: float) -> Term:
        """Write a number."""
        return self.forms.static(value, self)

    def function(self, function: Any, bodies: Sequence[Body]) -> Term:
        """Write a function that is passed; `bodies` are runs in the call it is passed to."""
        return self.forms.function(function, bodies, self)

    # ---- statements ----------------------------------------------------------------

    def body(self, calls: Sequence[Call]) -> None:
        """Write recorded calls, in order."""
        self.forms.body(calls, self)

    def as_made(self, item: Call) -> None:
        """Write a call as it was made."""
        self.forms.as_made(item, self)

    @property
    def is_main(self) -> bool:
        """Whether this is the function that the user gave."""
        return self.parent is None and self.caller is None

    @property
    def in_library(self) -> bool:
        """Whether what is written now is a library's code, not the user's."""
        return self.is_library or self.n_dissolving > 0

    def is_new(self, result: Any) -> bool:
        """Whether a result holds anything that has no name yet."""
        arrays = self.values.tree(result)[1]
        if isinstance(result, jax.tree_util.Partial):
            return self.find(id(jaxapi.plain_map(result))) is None
        if not arrays:
            made = isinstance(result, jaxapi.FUNCTION_RESULTS)
            if made and self.values.find(id(result)) is None:
                return True
        if any(self._is_unknown(array) for array in arrays):
            return True
        parts = result if type(result) is tuple else ()  # of `jax.closure_convert`
        made = [jaxapi.converted(part) for part in parts]
        return any(one is not None and self.find(id(one)) is None for one in made)

    def _is_unknown(self, array: Any) -> bool:
        return self.find(id(array)) is None and (
            isinstance(array, jaxapi.Tracer) or not isinstance(array, np.ndarray)
        )

    def assign(self, item: Call, term: Term, shown: Call | None = None) -> Statement:
        """Assign the result of a call to the names that the caller gave it.

        `shown` is the call as it is written, if that is not how it was made.
        """
        written = shown or item
        names = self.forms.targets(written.result, written.target, item, self)
        statement = Statement(names, term, self.program.has_effects(item))
        statement.is_tuple = type(written.result) is tuple
        statement.row = row_of(written)
        self.stand_with(item, statement)
        statement.roles = {key[1]: role for key, role in item.numbers}
        if self.program.options.types:
            types = short_types(item.result)
            statement.comment = comment(types) if types else ""
        place = None if item.place is None else _users(item.place, self.trail)
        if self.program.options.shows_origins and place is not None:
            statement.origin = quoted(place.code, place.offset)
        if self.program.options.shows_comments and place is not None:
            statement.remarks = remarks_at(place.code, place.offset)
        self.draft.statements.append(statement)
        self.program.written.append((item, term))
        return statement

    def stand_with(self, item: Call, statement: Statement) -> None:
        """Let a statement stand where a call was made, in the same turn of a loop."""
        statement.site = item.place
        statement.trail = (*self.trail, item.place)
        statement.turn = (*item.turn, *self.turn)

    def define(
        self, value: Any, name: Name, traced: Mapping[int, Any] | None = None
    ) -> None:
        """Let a name of this function stand for a value, with what JAX traced for parts."""
        self.own(name)
        name.held = value
        instead = self.traced if name.is_parameter else traced or {}
        self.values.define(value, name, instead=instead)
        if isinstance(value, jaxapi.FUNCTION_RESULTS):
            self._see_outside(value, name)
        if is_array(value):
            self.latest.append(value)
        else:
            self.program.shapes.add(*self.values.tree(value), name.hint)
            if self.program.plan.unread:
                self._leave_out(*self.values.tree(value))

    def _leave_out(self, tree: Tree, arrays: Sequence[Any]) -> None:
        """Let a name that nothing assigns stand for arrays in fields that are not read."""
        kept = set(leaves(tree))
        rest = [array for index, array in enumerate(arrays) if index not in kept]
        rest = [array for array in rest if self._is_unknown(array)]
        if rest:
            name = Name("lost")
            self.program.references.left_out.append(name)
            for array in rest:
                self.values.add(id(array), name)

    def _see_outside(self, function: Any, name: Name) -> None:
        """Take what `jax.vjp` has kept from outside from there, not from its result."""
        writer = self.parent
        while writer is not None:
            for array in self.values.tree(function)[1]:
                found = self.values.find(id(array))
                if found and found[0] is name and writer.values.find(id(array)):
                    self.values.forget_array(array)
            writer = writer.parent

    def pass_on(self, result: Any, given: Any) -> None:
        """Let a result stand for the array that it is, which has a name.

        Raises:
          UnknownArray: If nothing has made it.
        """
        found = self.find(id(given))
        if found is None:
            name = Name("value", folded=self.value(given))
            found = name, ()
        other = self.passed_on.get(id(given), id(given))
        if other == id(result):
            return
        if is_array(given):
            self.passed_on[id(result)] = other
        self.values.define(result, *found)

    def is_another(self, array: Any) -> bool:
        """Whether another array stands for one here, or in a function around."""
        writer: Writer | None = self
        while writer is not None:
            if writer.passed_on.get(id(array), id(array)) != id(array):
                return True
            writer = writer.parent
        return False

    def lose(self, item: Call, shown: Call) -> None:
        """Let a name that nothing assigns stand for what a call does not return now."""
        kept = set(map(id, arrays_in(shown.result)))
        lost = [array for array in arrays_in(item.result) if id(array) not in kept]
        lost = [array for array in lost if self._is_unknown(array)]
        if lost:
            name = Name("lost")
            self.program.references.lost.append((name, item))
            for array in lost:
                self.values.add(id(array), name)

    def nest(self, draft: Draft) -> Term:
        """Define a function inside this one, unless it can be seen; return its name."""
        known = None if draft.is_run else self._nested(draft)
        if known is not None:
            return self.ref((known, ()))
        name = Name(draft.name, True)
        statement = Statement(name, nested=draft, is_effect=draft.is_run)
        self.draft.statements.append(statement)
        return self.ref((name, ()))

    def _nested(self, draft: Draft) -> Name | None:
        """Return the name of a nested function that is the same, from here outwards."""
        for statement in self.draft.statements:
            known, name = statement.nested, statement.targets
            if known is None or known.is_run or not isinstance(name, Name):
                continue
            if join(known, draft):
                return name
        found = self.parent._nested(draft) if self.parent is not None else None
        if found is not None:
            self.is_closure = found.captured = True
        return found


def _users(place: Place, trail: Trail) -> Place:
    """Return the innermost of some places in the user's code, or the innermost of all."""
    around = [place, *(one for one in reversed(trail) if one is not None)]
    return next((one for one in around if not is_library(one.code)), place)


def _is_in(inner: types.CodeType | None, outer: types.CodeType | None) -> bool:
    """Whether a function is defined in another one."""
    if inner is None or outer is None:
        return False
    codes = [one for one in outer.co_consts if isinstance(one, types.CodeType)]
    return inner in codes or any(_is_in(inner, one) for one in codes)
