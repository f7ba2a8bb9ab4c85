"""What a recording holds: calls with their actual arguments, in order.

A `Call` keeps its arguments and result alive, so that `id` identifies every tracer for
as long as the recording lives. Containers are copied when they are recorded: the
program may change its own later.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from untrace import jaxapi
from untrace.folder import OWN_FOLDER
from untrace.optional import Subject


@dataclass(frozen=True, slots=True)
class Rest:
    """The variable of a target that takes a list of what the others do not: `*name`."""

    name: str


Target = str | Rest | tuple["Target", ...] | None
"""The names that an assignment binds, nested as its left-hand side is: `a, *rest`, too."""


def is_starred(target: Target) -> bool:
    """Whether a part of a target takes a list of all that the other parts do not."""
    return isinstance(target, Rest)


def variable_of(target: Target) -> str:
    """The variable that a part of a target is; "" if it is none, or several."""
    if isinstance(target, Rest):
        return target.name
    return target if isinstance(target, str) else ""


def regrouped(values: Sequence[Any], target: tuple[Target, ...]) -> Sequence[Any]:
    """Return what each part of a target takes of some values, if there are enough of them."""
    first = next((i for i, part in enumerate(target) if is_starred(part)), None)
    n_rest = len(values) - len(target) + 1
    if first is None or n_rest < 0:
        return values
    last = first + n_rest
    return [*values[:first], list(values[first:last]), *values[last:]]


@dataclass(frozen=True, slots=True)
class End:
    """A variable that a loop counts to: of the function, or of its module."""

    variable: str
    is_local: bool


Turn = tuple[tuple[str | End, Any], ...]
"""The variables of loops, those of the innermost one first, with what they hold.

What the loops count to stands behind their variables.
"""

RETURNED = "return"


Bounds = tuple[int | None, int | None]
"""The bounds of a part of a shape."""

WHOLE: Bounds = (None, None)


@dataclass(frozen=True, eq=False, slots=True)
class Formula:
    """A number, and how it was computed.

    Attributes:
      value: The number; the object itself, if a variable held it.
      symbol: The operator, or the function of `math` or NumPy (`np.sqrt`); "=" for a
        variable, whose operand is what it was assigned; "shape" for a size of an array,
        "size" and "ndim" for what else it tells; "" for a number of which no more is known.
      operands: What it was computed from.
      name: The variable, or the attribute; for a constant of the module, `GAMMA`, its name.
      is_constant: It stands in the source: no parameter is it, even if that is alike.
      array: The array, for a size of one.
      axis: Which of its sizes that is.
      names: The variables that take sizes of the array at once, if it is one of them.
      part: The bounds of what they take, `b, t = x.shape[:-1]`.
      is_given: It is an integer that a parameter held.
      in_loop: It is a variable that a loop gives a value in each turn.
      is_outer: It is a variable of a function around.
      is_attribute: It is an attribute of an object, `self.dt`.
      is_read_again: It is a variable that is read in several places.
      is_length: It is a size that is written `len(x)`.
      is_reassigned: It is a variable that is assigned in several places.
    """

    value: float
    symbol: str = ""
    operands: tuple[Formula, ...] = ()
    name: str = ""
    is_constant: bool = False
    array: Any = field(default=None, repr=False)
    axis: int = 0
    names: tuple[str, ...] = ()
    part: Bounds = WHOLE
    is_given: bool = False
    in_loop: bool = False
    is_outer: bool = False
    is_attribute: bool = False
    is_read_again: bool = False
    is_length: bool = False
    is_reassigned: bool = False

    def is_telling(self) -> bool:
        """Whether it says more than a number: a float that is computed, an integer of names."""
        if isinstance(self.value, float) and self.symbol:
            return True
        return self._has_variable() or self._is_modules()

    def arrays(self) -> Iterator[Any]:
        """Yield the arrays whose sizes it is computed from."""
        if self.array is not None:
            yield self.array
        for operand in self.operands:
            yield from operand.arrays()

    def _has_variable(self) -> bool:
        """Whether the size of an array or a parameter is among what it was computed from."""
        is_one = self.array is not None or self.is_given
        return is_one or any(o._has_variable() for o in self.operands)

    def _is_modules(self) -> bool:
        """Whether it is an integer of constants alone, at least one of them the module's."""
        parts = list(self.parts())
        is_whole = all(type(one.value) is int and one.is_constant for one in parts)
        return is_whole and any(one.is_of_module() for one in parts)

    def is_of_module(self) -> bool:
        """Whether it is a constant of the module."""
        return self.is_constant and bool(self.name) and not self.symbol

    def parts(self) -> Iterator[Formula]:
        """Yield the numbers that it is computed from in the end."""
        if not self.operands:
            yield self
        for operand in self.operands:
            yield from operand.parts()


@dataclass(frozen=True, slots=True)
class ShapePart:
    """A part of the shape of an array, `*x.shape[start:stop]`, at a position in another."""

    array: Any
    start: int | None
    stop: int | None
    position: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes that it is."""
        return tuple(self.array.shape[self.start : self.stop])


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call was written: file, line, instruction and function.

    `loop` are the variables of the loop or comprehension that it stands in; None if it
    stands in none. `depth` says how many stand around it. `code` is that of the function.
    """

    filename: str
    line: int
    offset: int
    function: str
    loop: tuple[str, ...] | None
    depth: int
    code: types.CodeType = field(compare=False, repr=False)

    @property
    def shown(self) -> str:
        """The file, without its folder, and the line."""
        return f"{os.path.basename(self.filename)}:{self.line}"

    @property
    def is_users(self) -> bool:
        """Whether it is in the user's code, and in no library's."""
        is_own = self.filename.startswith(OWN_FOLDER)
        return not (is_own or is_library(self.code))


@dataclass(frozen=True, slots=True)
class Spelling:
    """How the user wrote a call: so many positional arguments, these keywords."""

    n_positional: int
    keywords: tuple[str, ...]


class ArrayItem(NamedTuple):
    """A number of NumPy that a call is given, which is an item of a constant array.

    Attributes:
      value: The number; the object itself.
      place: Where it stands in it.
    """

    value: Any
    array: Any
    place: tuple[int, ...]


class SharedPart(NamedTuple):
    """A part of what a variable holds, which other parts hold, too.

    Attributes:
      path: The keys, indices and attributes that lead to the part.
      value: The part.
    """

    variable: str
    path: tuple[Any, ...]
    value: Any


@dataclass(eq=False, slots=True)  # one that is frozen takes three times as long to make
class Bind:
    """A primitive that was bound, which becomes an equation.

    Attributes:
      trace: The trace that it was bound at.
      primitive: What was bound,
      args: its operands,
      params: and its params.
      first: How many had been bound when it began: it bound the others since itself.
      results: What it returned.
    """

    trace: Any
    primitive: Any
    args: Sequence[Any]
    params: Mapping[str, Any]
    first: int
    results: tuple[Any, ...] = ()


@dataclass(eq=False, slots=True)
class Span:
    """What was bound while a call ran: a part of all that was bound.

    Attributes:
      trace: The trace that the call was made at.
      log: All that was bound in the recording.
      first: Where the call began.
      last: Where it had ended.
      axes: The named axes that were in scope.
    """

    trace: Any
    log: list[Bind]
    first: int
    last: int
    axes: Any

    def binds(self) -> list[Bind]:
        """List what was bound at the trace of the call, and not by another of these."""
        found: list[Bind] = []
        position = self.last - 1
        while position >= self.first:
            bind = self.log[position]
            position -= 1
            if bind.trace is self.trace:
                found.append(bind)
                position = bind.first - 1
        return found[::-1]


@dataclass(eq=False, slots=True)
class Body(Subject):
    """One run of a function: parameters, calls and result.

    Attributes:
      function: The function object, where it is known.
      code: Its code object.
      parameters: What its parameters held when it began.
      calls: The recorded calls that it made itself, in order.
      result: What it returned.
      locals: The arrays that its local variables held in the end.
      integers: The integers that they held.
      is_finished: Whether it has returned.
      error: What went wrong while recording.
      opened: The only call, if this stands for a run of what a transformation made.
      wrapped: The only function that a library's function has in its closure.
      setting: JAX's settings when it began.
      defaults: The numbers that parameters of a function of the user hold by default.
      shared: The `id` of arrays that are several of its arguments or several parts of
        them, or several of the results that it unpacks.
      free: What the variables held that it closes over, if it was called by Python.
      batches: How primitives of libraries were batched, if recording began here.
      defined: The user's function of its module that has its code, if Python called it.
      space: The variables of its module, if Python called it.
      traced: What JAX traced for arrays that it was given, by the `id` of these, where it
        made one of the other (`recovery.unflattening`).
    """

    function: Any
    code: types.CodeType
    parameters: Mapping[str, Any]
    calls: list[Call] = field(default_factory=list)
    result: Any = None
    locals: dict[str, Any] = field(default_factory=dict)
    integers: dict[str, int] = field(default_factory=dict)
    is_finished: bool = False
    error: Exception | None = None
    opened: Call | None = None
    wrapped: types.FunctionType | None = None
    setting: jaxapi.Setting = ()
    defaults: Mapping[str, float] = field(default_factory=dict)
    shared: frozenset[int] = frozenset()
    free: Mapping[str, Any] = field(default_factory=dict)
    batches: jaxapi.Batches = field(default_factory=dict)
    defined: Any = None
    space: dict[str, Any] = field(default_factory=dict, repr=False)
    traced: Mapping[int, Any] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """The name of the function."""
        return self.code.co_qualname

    @property
    def n_calls(self) -> int:
        """How many calls there are in it, and in all runs inside."""
        return len([*calls_inside(self)])


def calls_inside(body: Body) -> Iterator[Call]:
    """Yield the calls in a run, and in all runs inside it."""
    for item in body.calls:
        yield item
        for run in item.bodies:
            yield from calls_inside(run)


def runs_inside(body: Body) -> Iterator[Body]:
    """Yield the runs in the calls of a run, and all runs inside of these."""
    for item in body.calls:
        for run in item.bodies:
            yield run
            yield from runs_inside(run)


def calls_around(
    body: Body, of_python: bool = False, around: tuple[Call, ...] = ()
) -> Iterator[tuple[Call, tuple[Call, ...]]]:
    """Yield the calls in a run, inner ones first, with those that they are made in.

    Args:
      of_python: Only calls of Python functions are listed around others.
      around: Those around the run, the outermost first.
    """
    for item in body.calls:
        inside = (*around, item) if item.is_own or not of_python else around
        for run in item.bodies:
            yield from calls_around(run, of_python, inside)
        yield item, around


@dataclass(eq=False, slots=True)
class Call(Subject):
    """A call of the public API, or of a function of the user or of a framework.

    Attributes:
      function: What was called; None for a function of the user, whose run is the only
        element of `bodies`.
      args: Positional arguments.
      kwargs: Keyword arguments.
      result: What it returned.
      target: The names that the caller bound the result to.
      spelling: How the arguments were written, where that is known.
      place: Where the call was written.
      bodies: The runs of functions that were passed to it.
      returns: Tells that the caller returned the result at once.
      span: What was bound meanwhile.
      is_partial: Not all runs are among `bodies`: none of the others called JAX.
      is_apart: It was made at another trace than the function around it began at.
      is_eager: What was known was computed at once, while the program was traced.
      numbers: The names that the caller's source has for numbers among the arguments
        (`recovery.numbers`).
      held: The numbers among them that variables of the calling expression hold; None
        if that is not known.
      module_names: Those of the names of numbers that are the module's.
      constants: The parameters that take constants of the source, where a number among
        the arguments is there twice.
      arrays: The names that it has for constant arrays among them, and for those that are
        several arguments of the caller, by identity.
      containers: The containers among them that local variables of the user hold.
      parts: The parts of variables among them that other parts are, too.
      formulas: How the caller's source computes floats among them.
      shaped: The arrays whose `.shape` or `.dtype`, by this name, is among them, or limits
        of whose type (`finfo`) are, if the caller is the user's.
      shape_parts: The parts of shapes of arrays that shapes among them are made of.
      items: The numbers of NumPy among them that are items of constant arrays.
      factors: The names of the module's integers that sizes with names are computed from.
      setting: JAX's settings when it was made.
      turn: What the variables of the loops held that it was made in.
      traced: What JAX made for arrays in its result, by the `id` of these, where a class
        computed them of others (`recovery.unflattening`).
      is_remade: A class has computed parts of its result, and it is not known of what.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: Place | None
    spelling: Spelling | None = None
    target: Target = None
    returns: bool = False
    bodies: list[Body] = field(default_factory=list)
    result: Any = None
    span: Span | None = None
    is_partial: bool = False
    is_apart: bool = False
    is_eager: bool = False
    numbers: tuple[tuple[Any, str], ...] = ()
    held: frozenset[Any] | None = None
    module_names: frozenset[str] = frozenset()
    constants: frozenset[str] = frozenset()
    arrays: tuple[tuple[int, str], ...] = ()
    containers: tuple[tuple[str, Any], ...] = ()
    parts: tuple[SharedPart, ...] = ()
    formulas: tuple[Formula, ...] = ()
    shaped: tuple[tuple[str, Any], ...] = ()
    shape_parts: tuple[ShapePart, ...] = ()
    items: tuple[ArrayItem, ...] = ()
    factors: Mapping[int, str] = field(default_factory=dict)
    setting: jaxapi.Setting = ()
    turn: Turn = ()
    traced: Mapping[int, Any] = field(default_factory=dict)
    is_remade: bool = False
    said: str = ""  # once somebody has asked

    @property
    def subject(self) -> str:
        """What was called, and where."""
        if not self.said:
            self.said = self._said()
        return self.said

    def _said(self) -> str:
        made, place = self.function, self.place
        name = getattr(made, "__name__", "") or getattr(made, "name", "")
        if not (isinstance(name, str) and name):
            name = self.bodies[0].subject if self.bodies else type(made).__name__
        return name if place is None else f"{name}, {place.shown}"

    @property
    def is_own(self) -> bool:
        """Whether this is a call of a function of the user or a framework."""
        return self.function is None


def is_library(code: types.CodeType) -> bool:
    """Whether code belongs to an installed library, and not to the user."""
    file = code.co_filename
    return (
        _is_installed(file) and id(code) not in _OF_PROGRAMS and file not in _own.get()
    )


@contextlib.contextmanager
def own_files(files: Iterable[str]) -> Generator[None]:
    """Let all that some files define be the user's, wherever they are installed."""
    token = _own.set(frozenset(files))
    try:
        yield
    finally:
        _own.reset(token)


_own: ContextVar[frozenset[str]] = ContextVar("own_files", default=frozenset())


def count_as_users(code: types.CodeType) -> None:
    """Let a function of a library be one of the program, which keeps its name and variables."""
    _OF_PROGRAMS[id(code)] = code


def is_kept(code: types.CodeType) -> bool:
    """Whether code is a library's that counts as the user's."""
    return id(code) in _OF_PROGRAMS


_OF_PROGRAMS: dict[int, types.CodeType] = {}


@functools.lru_cache(maxsize=4096)
def _is_installed(filename: str) -> bool:
    return _INSTALLED in filename or filename.startswith(tuple(_LIBRARIES))


def count_as_library(folder: str) -> None:
    """Let code in a folder be a library's, wherever it is installed."""
    _LIBRARIES.append(folder)
    _is_installed.cache_clear()


_LIBRARIES: list[str] = []


def is_library_class(cls: type) -> bool:
    """Whether a class, or the methods of one, is an installed library's."""
    return _is_of_library(cls, _own.get(), len(_LIBRARIES), len(_OF_PROGRAMS))


@functools.lru_cache(maxsize=1024)
def _is_of_library(cls: type, *known: object) -> bool:
    """Look at the methods of a class, again whenever more is `known` of what is whose."""
    module = sys.modules.get(cls.__module__)
    methods = [m for m in vars(cls).values() if isinstance(m, types.FunctionType)]
    return _INSTALLED in (getattr(module, "__file__", None) or "") or any(
        is_library(method.__code__) for method in methods
    )


_INSTALLED = "site-packages"
