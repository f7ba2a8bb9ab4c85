"""Write one function of a recording: which names it sees, which statements it has."""

from __future__ import annotations

import inspect
import types
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.lifting.recorded.expressions import is_plain, value_term
from untrace.lifting.recorded.function import Draft, Names, Parameter, Statement
from untrace.lifting.recorded.hints import result_hint
from untrace.lifting.recorded.library import skip_move
from untrace.lifting.recorded.terms import (
    Name,
    Ref,
    Term,
)
from untrace.lifting.recorded.unwrapping import followed, way
from untrace.lifting.recorded.values import Found, Values, has_array, is_array
from untrace.recovery import bytecode
from untrace.recovery.record import Call, Target
from untrace.syntax.names import identifier
from untrace.syntax.text import quoted_line

if TYPE_CHECKING:
    from untrace.lifting.recorded.program import Program

N_LATEST = 4  # arrays whose shapes may be meant


class Writer:
    """Writes the statements of one function.

    Args:
      program: What the functions of the module share.
      draft: The function being written.
      parent: The function around a nested one, whose names it sees.
      caller: The function that calls this one: what is needed from there becomes a
        parameter.
      is_library: Whether the function is a library's, not the user's.
    """

    def __init__(
        self,
        program: Program,
        draft: Draft,
        parent: Writer | None = None,
        caller: Writer | None = None,
        is_library: bool = False,
    ) -> None:
        self.program = program
        self.draft = draft
        self.parent = parent
        self.caller = caller
        self.is_library = is_library
        self.values = Values(program.options.keep_types)
        self.is_closure = False
        self.lifted: list[tuple[Name, Found]] = []
        self.owned: set[int] = set()
        self.n_dissolving = 0
        self._unpacked: dict[int, tuple[Target, ...]] = {}
        self._origins: dict[int, Found] = {}
        self.latest: deque[Any] = deque(maxlen=N_LATEST)

    # ---- names ---------------------------------------------------------------------

    def find(self, key: Any) -> Found | None:
        """Return the name that holds what has a key, from here outwards."""
        found = self.values.find(key)
        if found is not None:
            return found
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
                return name, ""
        return None

    def locate(self, key: Any) -> Found | None:
        """Return the name that holds what has a key in the function that made it."""
        found = self.values.find(key)
        if found is not None:
            return self._origins.get(id(found[0]), found)
        around = self.parent or self.caller
        return around.locate(key) if around is not None else None

    def _lifted(self, origin: Found) -> Name:
        """Make a value from outside a parameter; `grouped` decides which part of it."""
        for name, known in self.lifted:
            if known[0] is origin[0] and known[1] == origin[1]:
                return name
        name = Name(origin[0].hint, True)
        self.lifted.append((name, origin))
        self._origins[id(name)] = origin
        return name

    def reach(self, origin: Found, is_tree: bool = False) -> Term:
        """Refer to a part of what a name holds that another function defined."""
        if id(origin[0]) in self.owned:
            return self.ref(origin)
        if self.parent is not None:
            self.is_closure = True
            term = self.parent.reach(origin, is_tree)
            for ref in term.refs():
                ref.name.captured = True
            return term
        name = self._lifted(origin)
        name.is_tree = name.is_tree or is_tree
        return self.ref((name, ""))

    def ref(self, found: Found) -> Term:
        """Refer to a name, counting the use."""
        found[0].uses += 1
        return Term([Ref(found[0], found[1])])

    def value(self, value: Any, role: str = "") -> Term:
        """Write any value as an expression; `role` may name a number."""
        return value_term(value, self, role)

    # ---- statements ----------------------------------------------------------------

    def body(self, calls: Sequence[Call]) -> None:
        """Write recorded calls, in order."""
        rest = list(calls)
        while rest:
            taken = self._rows_of_parameter(rest)
            if taken:
                del rest[:taken]
                continue
            item = rest.pop(0)
            n_calls, rows = _rows(item, rest)
            if n_calls:
                del rest[:n_calls]
                self.unpack(item, rows)
            else:
                self.statement(item)

    def unpack_parameters(
        self, values: Mapping[str, Any], code: types.CodeType
    ) -> None:
        """Unpack the parameters that the user's function unpacks, with its names."""
        for hint, target in bytecode.unpacked(code).items():
            value = values.get(hint)
            if not isinstance(target, tuple) or value is None:
                continue
            if is_array(value):
                self._unpacked[id(value)] = target
            elif type(value) in (tuple, list) and len(value) == len(target):
                self._unpack_parameter(value, target)

    def _unpack_parameter(self, value: Any, target: tuple[Target, ...]) -> None:
        key = self.values.key(value)
        found = self.values.find(key) if key is not None else None
        if found is None or found[1] or id(found[0]) not in self.owned:
            return
        whole = self.ref(found)
        self.values.forget(found[0])
        names = tuple([self._part(v, t) for v, t in zip(value, target)])
        self.values.define(value, found[0])
        self.draft.statements.append(Statement(names, whole))

    def _part(self, value: Any, target: Target) -> Names:
        """Name a part of a parameter that is unpacked."""
        if (
            isinstance(target, tuple)
            and type(value) in (tuple, list)
            and len(target) == len(value)
        ):
            return tuple([self._part(v, t) for v, t in zip(value, target)])
        hint = target if isinstance(target, str) else "value"
        name = Name(identifier(hint), hint != "_")
        self.define(value, name)
        return name

    def _rows_of_parameter(self, rest: Sequence[Call]) -> int:
        """Write `a, b = x` for a parameter; return how many calls took its rows."""
        if not self._unpacked or not rest or not rest[0].args:
            return 0
        array = rest[0].args[0]
        target = self._unpacked.get(id(array))
        if target is None:
            return 0
        whole = replace(rest[0], target=target, result=array)
        n_calls, rows = _rows(whole, rest)
        if n_calls:
            names = tuple([self._part(r, t) for r, t in zip(rows, target)])
            self.draft.statements.append(Statement(names, self.value(array)))
        return n_calls

    def unpack(self, item: Call, rows: Sequence[Any]) -> None:
        """Write `a, b = array`, which takes the rows of an array."""
        whole = replace(item, result=tuple(rows))
        self.program.write_as_made(whole, self)

    def main_body(self, calls: Sequence[Call]) -> None:
        """Write the calls of the main function, which is what the user's own one does."""
        if len(calls) == 1 and calls[0].is_own:
            calls = calls[0].bodies[0].calls
        self.body(calls)

    @property
    def in_library(self) -> bool:
        """Whether what is written now is a library's code, not the user's."""
        return self.is_library or self.n_dissolving > 0

    def statement(self, item: Call) -> None:
        """Write one recorded call."""
        is_opened = item.is_own and self.program.is_dissolved(item)
        if (
            not is_opened
            and not self.is_new(item.result)
            and not self.program.has_effects(item)
        ):
            return
        if skip_move(item, self):
            return
        self.program.write(item, self)

    def is_new(self, result: Any) -> bool:
        """Tell whether a result holds anything that has no name yet."""
        arrays = self.values.tree(result)[1]
        if not arrays:
            made = isinstance(result, jaxapi.FUNCTION_RESULTS)
            return made and self.values.find(id(result)) is None
        return any(self._is_unknown(array) for array in arrays)

    def _is_unknown(self, array: Any) -> bool:
        return self.find(id(array)) is None and (
            isinstance(array, jaxapi.Tracer) or not isinstance(array, np.ndarray)
        )

    def assign(self, item: Call, term: Term, shown: Call | None = None) -> Statement:
        """Assign the result of a call to the names that the caller gave it.

        `shown` is the call as it is written, if that is not how it was made.
        """
        written = shown or item
        names = self.targets(written.result, written.target, item)
        statement = Statement(names, term, self.program.has_effects(item))
        comments = self.program.options.comments
        if comments in ("types", "both"):
            types = _types(item.result)
            statement.comment = f"# {types}" if types else ""
        if comments in ("origin", "both") and item.place is not None:
            statement.origin = quoted_line(item.place.filename, item.place.line)
        self.draft.statements.append(statement)
        self.program.written.append((item, term))
        return statement

    def targets(self, result: Any, target: Target, item: Call) -> Names:
        """Make the names of a result and let them stand for its arrays."""
        if (
            isinstance(target, tuple)
            and type(result) in (tuple, list)
            and len(target) == len(result)
        ):
            return tuple([self.targets(r, t, item) for r, t in zip(result, target)])
        given = isinstance(target, str) and target != "_"
        hint = str(target) if given else result_hint(item)
        name = self._local(hint, given)
        self.define(result, name)
        return name

    def _local(self, hint: str, is_given: bool) -> Name:
        """Make the name of a local variable; tell whose it is."""
        is_weak = self.n_dissolving > 0
        return Name(hint, is_given, is_weak=is_weak, is_foreign=self.in_library)

    def _give(self, name: Name, hint: str) -> None:
        """Give a name the hint of a local variable that held its value, too."""
        name.hint, name.is_given = hint, True
        name.is_weak = self.n_dissolving > 0
        name.is_foreign = self.in_library

    def define(self, value: Any, name: Name) -> None:
        """Let a name of this function stand for a value."""
        self.owned.add(id(name))
        self.values.define(value, name)
        if is_array(value):
            self.latest.append(value)

    def name_locals(self, values: Mapping[str, Any]) -> None:
        """Name results after the local variables that held them in the end."""
        for hint, value in values.items():
            key = self.values.key(value)
            found = self.values.find(key) if key is not None else None
            if found is None or found[1] or hint == "_":
                continue
            name = found[0]
            if not name.text and id(name) in self.owned and can_rename(name):
                self._give(name, identifier(hint))

    def rename(self, result: Any, target: Target) -> None:
        """Give the names of the caller to what a dissolved function returned."""
        if isinstance(target, tuple) and type(result) in (tuple, list):
            self._split(result, target)
            for part, name in zip(result, target):
                self.rename(part, name)
            return
        if not isinstance(target, str) or target == "_":
            return
        key = self.values.key(result)
        found = self.values.find(key) if key is not None else None
        if found is None or found[1]:
            return
        name = found[0]
        if not name.text and not name.is_parameter and id(name) in self.owned:
            self._give(name, target)

    def _split(self, result: Any, target: tuple[Target, ...]) -> None:
        """Unpack a result that a dissolved function had returned as a whole."""
        key = self.values.key(result)
        found = self.values.find(key) if key is not None else None
        if found is None or found[1] or found[0].uses or len(target) != len(result):
            return
        for statement in reversed(self.draft.statements):
            if statement.targets is found[0]:
                self.values.forget(found[0])
                statement.targets = tuple(
                    [self._target(r, t) for r, t in zip(result, target)]
                )
                return

    def _target(self, result: Any, target: Target) -> Name:
        hint = target if isinstance(target, str) else "value"
        name = self._local(identifier(hint), hint != "_")
        self.define(result, name)
        return name

    def nest(self, draft: Draft) -> Term:
        """Define a function inside this one; return its name."""
        name = Name(draft.name, True)
        self.draft.statements.append(Statement(name, nested=draft))
        return self.ref((name, ""))

    # ---- parameters ----------------------------------------------------------------

    def parameters(
        self, values: Mapping[str, Any], code: types.CodeType, dropped: frozenset[str]
    ) -> None:
        """Make the parameters of a function that was passed to a transformation."""
        n = code.co_argcount
        keywords = code.co_varnames[n : n + code.co_kwonlyargcount]
        flags = code.co_flags
        names = list(values)
        for position, name in enumerate(names):
            if name in dropped:
                continue
            stars = ""
            if flags & inspect.CO_VARARGS and position == n + len(keywords):
                stars = "*"
            elif flags & inspect.CO_VARKEYWORDS and position == len(names) - 1:
                stars = "**"
            if stars and not has_array(values[name]):
                continue
            made = Name(name, True, is_parameter=True)
            self.define(values[name], made)
            self.draft.parameters.append(Parameter(made, stars, name in keywords))

    def own_parameters(self, values: Mapping[str, Any]) -> list[tuple[Name, Any]]:
        """Make a parameter of every argument that holds an array, or is a float."""
        made: list[tuple[Name, Any]] = []
        for hint, value in values.items():
            if self.is_library:
                value = followed(value, way(value, self._is_known_outside))
            if type(value) is float:
                name = Name(identifier(hint), True, is_parameter=True)
                self.owned.add(id(name))
                self.values.add(id(value), name)
                made.append((name, value))
            elif has_array(value) and self._can_pass(value):
                if hint in ("self", "cls"):
                    hint = "params"
                name = Name(identifier(hint), True, is_parameter=True)
                self.define(value, name)
                made.append((name, value))
        return made

    def _is_known_outside(self, value: Any) -> bool:
        """Tell whether the caller has a name for a container."""
        key = self.values.key(value)
        return self.caller is None or self.caller.find(key) is not None

    def _can_pass(self, value: Any) -> bool:
        """Tell whether a caller can write a value.

        An object that has no name there would have to be built first; its arrays come as
        parameters of their own instead.
        """
        if is_array(value):
            return True
        key = self.values.key(value)
        if self.caller is not None and key is not None and self.caller.find(key):
            return True
        return _is_constructible(value)


def _is_constructible(value: Any) -> bool:
    if type(value) in (tuple, list):
        return all(map(_is_constructible, value))
    if type(value) is dict:
        return all(map(_is_constructible, value.values()))
    return is_array(value) or is_plain(value)


def _rows(item: Call, rest: Sequence[Call]) -> tuple[int, Sequence[Any]]:
    """Return the rows of an array that is unpacked at once, and how many calls took them."""
    if not isinstance(item.target, tuple) or not is_array(item.result) or not rest:
        return 0, ()
    n = len(item.target)
    if _takes(rest[0], "unstack", item.result) and len(rest[0].result) == n:
        return 1, rest[0].result
    rows = rest[:n]
    if len(rows) == n and all(
        _takes(row, "index_in_dim", item.result) and row.args[1] == i
        for i, row in enumerate(rows)
    ):
        return n, [row.result for row in rows]
    return 0, ()


def _takes(item: Call, name: str, array: Any) -> bool:
    """Tell whether a call is of a function of some name on an array."""
    called = getattr(item.function, "__name__", "")
    return called == name and bool(item.args) and item.args[0] is array


def can_rename(name: Name) -> bool:
    """Tell whether a better name may be given."""
    return not name.is_parameter and (name.is_weak or not name.is_given)


MAX_TYPES = 4


def signature_types(values: Sequence[Any], result: Any) -> str:
    """Write the types of parameters and result, if they are few."""
    texts = [_types(value) for value in values]
    returned = _types(result)
    if not texts or not all(texts) or not returned:
        return ""
    return f"{', '.join(texts)} -> {returned}"


def _types(value: Any) -> str:
    """Write the type of an array, or of a short tuple of arrays."""
    if is_array(value):
        return jaxapi.short_type(jax.typeof(value))
    if type(value) is tuple and 0 < len(value) <= MAX_TYPES:
        texts = [_types(item) for item in value]
        return f"({', '.join(texts)})" if all(texts) else ""
    return ""
