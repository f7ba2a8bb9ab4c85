"""The machinery under `spelling`: imports, the error, the dispatcher and its memo.

A *writer* turns a value of one class into a Python expression, through the `Speller`
that carries the caller's imports. Writers are registered per class with `@writes`;
`values`, `records` and `jax_objects` hold them. The dispatcher looks at
`type(value)` only, so that the common params (ints, strings, tuples of ints) cost no
more than a dictionary look-up and a `repr`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from untrace import jaxapi
from untrace.errors import LiftingError
from untrace.syntax.names import is_name
from untrace.syntax.text import quote


class Imports(Protocol):
    """Where generated text gets its imported names from; given by the caller."""

    def module(self, name: str) -> str:
        """Import the module `name`; return the identifier that is bound to it."""
        ...

    def attribute(self, module: str, qualname: str, alias: str = "") -> str:
        """Import the root of `qualname` from `module`; return the expression for it."""
        ...

    def define(self, hint: str, text: str, value: Any) -> str:
        """Make an object once for the whole module; return the expression for it."""
        ...

    def defined(self) -> Sequence[tuple[Any, str]]:
        """List the objects that were defined, and the expressions for them."""
        ...

    def mention(self, value: Any) -> None:
        """Note that the text needs a device of this process."""
        ...


class Unspellable(LiftingError):
    """A value that no Python expression can rebuild in a fresh process."""

    def __init__(self, value: object, reason: str) -> None:
        kind: type[Any] = type(value)
        super().__init__(
            f"cannot write a `{kind.__module__}.{kind.__qualname__}` as Python: "
            f"{reason}"
        )
        self.value = value
        self.reason = reason


class PlainImports:
    """Collect import statements; the plainest implementation of `Imports`."""

    ALIASES: Mapping[str, str] = {"numpy": "np", "jax.numpy": "jnp"}

    def __init__(self) -> None:
        self.lines: set[str] = set()

    def module(self, name: str) -> str:
        """Import the module `name`; return the identifier that is bound to it."""
        alias = self.ALIASES.get(name)
        if alias is None and "." not in name:
            self.lines.add(f"import {name}")
            return name
        alias = alias or name.replace(".", "_")
        self.lines.add(f"import {name} as {alias}")
        return alias

    def attribute(self, module: str, qualname: str, alias: str = "") -> str:
        """Import the root of `qualname` from `module`; return the expression for it."""
        root, dot, rest = qualname.partition(".")
        alias = alias or f"{module.replace('.', '_')}_{root}"
        self.lines.add(f"from {module} import {root} as {alias}")
        return alias + dot + rest

    def define(self, hint: str, text: str, value: Any) -> str:
        """Return the text itself: there is no module to hold definitions."""
        return text

    def defined(self) -> Sequence[tuple[Any, str]]:
        """List no objects."""
        return ()

    def mention(self, value: Any) -> None:
        """Take no notice."""

    def text(self) -> str:
        """Return the import statements, sorted, one per line."""
        return "\n".join(sorted(self.lines))


Writer = Callable[["Speller", Any], str]
"""Writes one value as an expression that needs no parentheses inside a call."""

WRITERS: dict[type, Writer] = {}
"""Writers that serve a class and its subclasses."""

EXACT_WRITERS: dict[type, Writer] = {}
"""Writers that serve one class only; subclasses are something else."""

FALLBACKS: list[Callable[[type], Writer | None]] = []
"""Choosers asked in order for classes that have no registered writer."""

MEMOISED: set[type] = set()
"""Classes whose equal values may share one text; all are hashable."""

SELF_SPELLED: dict[type, Callable[[Any], str]] = {
    str: quote,
    **{kind: repr for kind in (int, bool, bytes, type(None), type(...))},
}
"""Classes whose `repr` evaluates to the value, in any namespace."""


def writes(
    *kinds: type, exact: bool = False, memo: bool = False
) -> Callable[[Writer], Writer]:
    """Register a writer for `kinds`.

    Args:
      kinds: The classes it serves.
      exact: Do not serve subclasses.
      memo: Equal values have the same text; the values must be hashable.
    """

    def register(writer: Writer) -> Writer:
        for kind in kinds:
            (EXACT_WRITERS if exact else WRITERS)[kind] = writer
        if memo:
            MEMOISED.update(kinds)
        return writer

    return register


class Speller:
    """Writes values as Python expressions with one set of imports.

    Args:
      imports: Receives what the expressions need.
      dims: Identifiers of symbolic dimensions by their name in JAX, if there are any.
    """

    def __init__(self, imports: Imports, dims: Mapping[str, str] | None = None) -> None:
        self.imports = imports
        self.dims = dims
        self._memo: dict[tuple[type, Any], str] = {}
        self._writers: dict[type, tuple[Writer, bool]] = {}

    def spell(self, value: Any) -> str:
        """Write `value` as an expression that evaluates to an equal object.

        Raises:
          Unspellable: If there is no such expression.
        """
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        plain = SELF_SPELLED.get(kind)
        if plain is not None:
            return plain(value)
        found = self._writers.get(kind)
        if found is None:
            found = self._writers[kind] = (
                _find_writer(kind, value),
                _is_memoised(kind),
            )
        writer, is_memoised = found
        if not is_memoised:
            return writer(self, value)
        try:
            return self._memo[kind, value]
        except KeyError:
            text = self._memo[kind, value] = writer(self, value)
            return text
        except TypeError:  # unhashable
            return writer(self, value)

    def name(self, module: str, qualname: str) -> str:
        """Return the expression for an attribute of a module, imported as need be.

        What hangs on `jax`, `jax.numpy` or `numpy` is written through the module.
        """
        if module in MODULES_BY_ALIAS:
            return f"{self.imports.module(module)}.{qualname}"
        if module in JAX_NAMESPACES:
            return f"{self.imports.module('jax')}{module[3:]}.{qualname}"
        package, _, name = module.rpartition(".")
        if module in _USUAL_NAMES or package == "jax.scipy.stats":
            usual = _USUAL_NAMES.get(module, "")
            return f"{self.imports.attribute(package, name, usual)}.{qualname}"
        return self.imports.attribute(module, qualname)

    def call(self, function: str, args: Iterable[Any] = (), /, **kwargs: Any) -> str:
        """Write a call of `function` (already text) on spelled arguments.

        Raises:
          Unspellable: If an argument, or the name of one, cannot be written.
        """
        parts = [self.spell(arg) for arg in args]
        parts += [self.keyword(key, value) for key, value in kwargs.items()]
        return f"{function}({', '.join(parts)})"

    def keyword(self, name: str, value: Any) -> str:
        """Write a keyword argument.

        Raises:
          Unspellable: If it has no name, or no value, that can be written.
        """
        if not is_name(name):
            raise Unspellable(value, f"{quote(name)} is no name of an argument")
        return f"{name}={self.spell(value)}"


MODULES_BY_ALIAS = frozenset({"jax", "jax.numpy", "numpy"})
"""Modules that generated files import under a short name."""

_USUAL_NAMES = {
    "jax.experimental.pallas": "pl",
    "jax.experimental.pallas.mosaic_gpu": "plgpu",
    "jax.experimental.pallas.tpu": "pltpu",
}

# Bound by `import jax` alone, in every supported JAX; a test imports each afresh.
JAX_NAMESPACES = frozenset(
    "jax." + name
    for name in [
        "custom_batching",
        "custom_derivatives",
        "core",
        "debug",
        "dtypes",
        "errors",
        "export",
        "ffi",
        "image",
        "lax",
        "lax.linalg",
        "nn",
        "nn.initializers",
        "ops",
        "profiler",
        "random",
        "ref",
        "scipy",
        "scipy.linalg",
        "scipy.special",
        "scipy.stats",
        "sharding",
        "stages",
        "tree",
        "tree_util",
        "typing",
    ]
)
"""Public modules reachable as attributes after a plain `import jax`."""


def _find_writer(kind: type, value: Any) -> Writer:
    exact = EXACT_WRITERS.get(kind)
    if exact is not None:
        return exact
    if issubclass(kind, enum.Enum):  # before `int` and `str`, which it may extend
        return WRITERS[enum.Enum]
    for base in kind.__mro__:
        if base in WRITERS:
            return WRITERS[base]
    for choose in FALLBACKS:
        writer = choose(kind)
        if writer is not None:
            return writer
    raise Unspellable(value, "nothing is known about this class")


def _is_memoised(kind: type) -> bool:
    """Whether equal values of `kind` share a text: those of JAX do.

    But for typed primitives, which are equal for operands of any types.
    """
    if kind.__module__.partition(".")[0] in ("jax", "jaxlib"):
        return not issubclass(kind, (dict, list, jaxapi.HiPrimitive))
    return any(base in MEMOISED for base in kind.__mro__)
