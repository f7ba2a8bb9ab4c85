"""What a code object is to the recorder: a public function, a recorded one, or nothing.

That is decided once for each. Most functions of libraries only hand objects around: what
they were given is looked at once JAX is called in them, if that shows the same then.
"""

from __future__ import annotations

import dis
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from untrace import jaxapi
from untrace.recovery.classifying import is_recorded
from untrace.recovery.defaults import defined_as, nested_defaults, number_defaults
from untrace.recovery.record import is_library

BIND = object()
"""The kind of the methods that bind primitives."""

MIN_IDLE_RUNS = 2
MIN_QUIET_RUNS = 32
"""After so many runs that led to nothing a library's function is not watched any more."""
_NEVER = -1_000_000_000  # runs until then: more than there will be
_MAX_IGNORED = 65536
_IGNORED: dict[int, types.CodeType] = {}
"""Code that is never recorded, by its `id`; most of it is JAX's, and runs every time."""
Reader = Callable[[types.FrameType], Any]
Readers = Callable[[], Mapping[int, Reader]]
"""Returns how to read a call from a frame, by the `id` of the frame's code."""


@dataclass(eq=False, slots=True)
class Own:
    """A function of the user or of a framework.

    Attributes:
      parameters: The names of its parameters.
      is_library: Whether it is an installed library's.
      can_wait: Whether what it was given can be seen as well when JAX is called in it.
      waits: Whether that is done. It is, too, if JAX was called in none of some runs.
      n_idle: How many runs those were.
      n_idle_maps: In how many calls it was mapped over trees and did not call JAX.
      n_quiet: How many runs led to nothing since one was kept.
      n_misses: How often it turned out to count after it was not watched any more.
      defaults: The floats that it has as defaults, if it is the user's.
      defined: The function, if it is the user's and was called by Python.
    """

    code: types.CodeType
    parameters: tuple[str, ...]
    is_library: bool
    can_wait: bool
    waits: bool
    n_idle: int = 0
    n_idle_maps: int = 0
    n_quiet: int = 0
    n_misses: int = 0
    defaults: Mapping[str, float] | None = None
    defined: Any = None

    def was_idle(self) -> None:
        """Take note of a run that did not call JAX."""
        self.n_idle += 1
        if self.n_idle == MIN_IDLE_RUNS:
            self.waits = True

    def was_busy(self) -> None:
        """Take note of a run that calls JAX."""
        self.n_idle, self.waits = 0, self.can_wait
        self.led_to_something()

    def was_quiet(self) -> bool:
        """Take note of a run that led to nothing; tell whether such were enough now."""
        self.n_quiet += 1
        if self.n_quiet < MIN_QUIET_RUNS:
            return False
        self.n_quiet = 0
        return self.waits

    def was_wrong(self) -> None:
        """Take note that it was not watched but counts: four times as many runs from now on."""
        self.n_misses += 1
        self.n_quiet = MIN_QUIET_RUNS - (MIN_QUIET_RUNS << 2 * self.n_misses)

    def led_to_something(self) -> None:
        """Take note of a run that is kept."""
        self.n_quiet = min(self.n_quiet, 0)

    def was_mapped(self, *, is_idle: bool) -> None:
        """Take note of a call that mapped it over trees."""
        self.n_idle_maps = self.n_idle_maps + 1 if is_idle else _NEVER

    @property
    def is_idle_map(self) -> bool:
        """Whether its runs are left out where it is mapped over trees."""
        return self.is_library and self.n_idle_maps >= MIN_IDLE_RUNS

    def number_defaults(self, frame: types.FrameType) -> Mapping[str, float]:
        """Return the numbers that the user's function has as defaults."""
        if self.defaults is None:
            self.defined = None if self.is_library else defined_as(frame)
            is_unknown = self.defined is None and not self.is_library
            self.defaults = (
                nested_defaults(frame) if is_unknown else number_defaults(self.defined)
            )
        return self.defaults


class Kinds:
    """What the code objects are that have run.

    Args:
      readers: Returns how to read a call from a frame, by the `id` of its code. (The
        hash of a code object is computed anew every time, from all of its parts.)

    Attributes:
      known: The kind of a code object by its `id`: `BIND`, an `Own`, the reader of a public
        function, or None if it is not recorded.
      binds: Those that bind primitives.
    """

    def __init__(self, readers: Readers) -> None:
        self._alive = list(jaxapi.bind_codes())
        self._quiet: dict[int, Own] = {}
        self._readers, self._n_modules = readers, len(sys.modules)
        self.known: dict[int, Any] = dict.fromkeys(_IGNORED)
        self.known.update(readers())
        self.binds = {id(code): BIND for code in self._alive}
        self.known.update(self.binds)

    def learn(self, code: types.CodeType) -> Any:
        """Decide what a code object is that runs for the first time."""
        found = _own(code) if is_recorded(code) else None
        if found is None and len(_IGNORED) < _MAX_IGNORED:
            _IGNORED[id(code)] = code
        else:
            self._alive.append(code)
        self.known[id(code)] = found
        if found is None and self._n_modules != len(sys.modules):
            self._read_again()
        return self.known[id(code)]

    def stop_watching(self, own: Own) -> None:
        """Do not watch a function any more that leads to nothing."""
        key = id(own.code)
        self._quiet[key], self.known[key] = own, None

    def watch_again(self, key: int) -> Own | None:
        """Watch a function again that turns out to count, and go on doing so."""
        own = self._quiet.pop(key, None)
        if own is not None:
            self.known[key] = own
            own.was_wrong()
        return own

    def own(self, key: int) -> Own | None:
        """Return the function of the user or a framework that has a code object."""
        kind = self.known.get(key) or self._quiet.get(key)
        return kind if type(kind) is Own else None

    def _read_again(self) -> None:
        """Look for public functions that the program has imported since it began."""
        if not _is_importing():
            self._n_modules = len(sys.modules)
            self.known.update(self._readers())


def parameter_names(code: types.CodeType) -> tuple[str, ...]:
    """Return the names of a function's parameters, the starred ones last."""
    n = code.co_argcount + code.co_kwonlyargcount
    n += bool(code.co_flags & inspect.CO_VARARGS)
    n += bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:n]


def _is_importing() -> bool:
    """Whether a module of JAX is being imported: it has not all of its names yet."""
    specs = [getattr(m, "__spec__", None) for m in sys.modules.copy().values()]
    return any(
        spec.name.startswith("jax.") and getattr(spec, "_initializing", False)
        for spec in specs
        if spec is not None
    )


def _own(code: types.CodeType) -> Own:
    names = parameter_names(code)
    is_installed = is_library(code)
    can_wait = is_installed and not _changes(code, names)
    return Own(code, names, is_installed, can_wait, waits=can_wait)


def _changes(code: types.CodeType, parameters: tuple[str, ...]) -> bool:
    """Whether a function assigns to parameters or in containers, or enters a context.

    What a run began with cannot be told later then.
    """
    if not _MUTATORS.isdisjoint(code.co_names):
        return True
    if not set(parameters).isdisjoint(code.co_cellvars):
        return True  # an inner function might assign to them
    n, raw = len(parameters), code.co_code
    return any(
        opcode in _CHANGING or any(i < n for i in _stored(opcode, argument))
        for opcode, argument in zip(raw[::2], raw[1::2])
        if opcode in _READ
    )


def _stored(opcode: int, argument: int) -> tuple[int, ...]:
    """Return the numbers of the local variables that an instruction assigns to.

    Of those over 255 the last eight bits are seen, which errs to the safe side.
    """
    name = dis.opname[opcode]
    if name == "STORE_FAST_STORE_FAST":
        return argument >> 4, argument & 15
    if name == "STORE_FAST_LOAD_FAST":
        return (argument >> 4,)
    return (argument,) if opcode in _STORING else ()


def _opcodes(*names: str) -> frozenset[int]:
    return frozenset(dis.opmap[name] for name in names if name in dis.opmap)


_CHANGING = _opcodes(
    "BEFORE_WITH",
    "BEFORE_ASYNC_WITH",
    "LOAD_SPECIAL",
    "STORE_SUBSCR",
    "DELETE_SUBSCR",
)
_STORING = _opcodes(
    "STORE_FAST", "DELETE_FAST", "STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST"
)
_READ = _CHANGING | _STORING
_MUTATORS = frozenset(
    {
        "append",
        "clear",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "reverse",
        "setdefault",
        "sort",
        "update",
    }
)
