"""Collect the imports of a generated module, and the objects that it makes once."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from untrace.errors import LiftingError
from untrace.syntax.names import Scope, identifier, is_dotted_name
from untrace.syntax.text import occurs, quote

ALIASES = {"jax": "jax", "jax.numpy": "jnp", "numpy": "np", "functools": "functools"}
_KNOWN = sys.stdlib_module_names | {"jax", "jaxlib", "ml_dtypes", "numpy"}


class Imports:
    """The modules, attributes and objects that a generated module needs, and their names.

    Attributes:
      definitions: Statements that make objects such as meshes, in order.
      devices: The devices of this process that the text refers to.
    """

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.dims: dict[str, str] = {}  # identifiers of symbolic dimensions
        self.modules: dict[str, str] = {}
        self.attributes: dict[tuple[str, str], str] = {}
        self.definitions: list[str] = []
        self.devices: list[Any] = []
        self._defined: list[tuple[Any, str]] = []

    def module(self, name: str) -> str:
        """Import a module; return the identifier it is bound to."""
        bound = self.modules.get(name)
        if bound is None:
            _check(name)
            bound = ALIASES.get(name) or self._scope.fresh_global(
                identifier(name.rpartition(".")[2])
            )
            self.modules[name] = bound
        return bound

    def attribute(self, module: str, qualname: str, alias: str = "") -> str:
        """Import the root of `qualname` from `module`; return the whole expression."""
        _check(qualname)
        if module == "builtins":
            return qualname
        if module in ALIASES:
            return f"{self.module(module)}.{qualname}"
        root, dot, rest = qualname.partition(".")
        return f"{self.direct(module, root, alias)}{dot}{rest}"

    def direct(self, module: str, root: str, alias: str = "") -> str:
        """Import a name from a module, whatever module that is."""
        bound = self.attributes.get((module, root))
        if bound is None:
            _check(f"{module}.{root}")
            bound = self._scope.fresh_global(alias or root)
            self.attributes[module, root] = bound
        return bound

    def keys(self, enums: Iterable[type]) -> None:
        """Import what keys of dicts are written with, by the names they have there.

        Raises:
          LiftingError: If one of the names is taken.
        """
        self.module("numpy")
        for kind in enums:
            root = kind.__qualname__.partition(".")[0]
            if self.direct(kind.__module__, root) != root:
                raise LiftingError(
                    f"two classes are called `{root}`, and members of both are keys of "
                    "dicts. Give one another name."
                )

    def define(self, hint: str, text: str, value: Any) -> str:
        """Make an object once for the whole module; return its name."""
        name = self._scope.fresh_global(hint)
        self.definitions.append(f"{name} = {text}")
        self._defined.append((value, name))
        return name

    def defined(self) -> Sequence[tuple[Any, str]]:
        """List the objects that were defined, and their names."""
        return self._defined

    def mention(self, value: Any) -> None:
        """Note that the text needs a device of this process."""
        self.devices.append(value)

    def needed_modules(self, text: str) -> list[str]:
        """Return the modules that a module's `text` needs, besides JAX and what it needs."""
        bound = [
            *self.modules.items(),
            *[(module, name) for (module, _), name in self.attributes.items()],
        ]
        needed = [module for module, name in bound if occurs(name, text)]
        return sorted({one for one in needed if one.partition(".")[0] not in _KNOWN})

    def lines(self, text: str) -> list[str]:
        """Write the import statements that a module's `text` needs, sorted as isort does.

        A rule that declined in the end may have asked for a name that is not used.
        """
        sections: dict[int, list[str]] = {}
        for name, bound in self.modules.items():
            if not occurs(bound, text):
                continue
            statement = (
                f"import {name}" if bound == name else f"import {name} as {bound}"
            )
            sections.setdefault(_section(name), []).append(statement)
        grouped: dict[str, list[str]] = {}
        for (module, root), bound in self.attributes.items():
            if not occurs(bound, text):
                continue
            item = root if bound == root else f"{root} as {bound}"
            grouped.setdefault(module, []).append(item)
        for module, names in grouped.items():
            statement = f"from {module} import {', '.join(sorted(names))}"
            sections.setdefault(_section(module), []).append(statement)
        lines: list[str] = []
        for number in sorted(sections):
            plain = sorted(s for s in sections[number] if s.startswith("import "))
            froms = sorted(s for s in sections[number] if s.startswith("from "))
            lines += [*([""] if lines else []), *plain, *froms]
        return lines


def _check(name: str) -> None:
    """Refuse what would not be a name in an import."""
    if not is_dotted_name(name):
        raise LiftingError(f"{quote(name)} is no name that can be imported")


class NotShared(Exception):
    """A text that other modules may have to write otherwise."""


class SharedImports:
    """Serve text that is the same in every module: it names nothing but `ALIASES`."""

    def __init__(self) -> None:
        self.modules: dict[str, str] = {}

    def module(self, name: str) -> str:
        """Note a module that has the same name everywhere."""
        if name not in ALIASES:
            raise NotShared
        self.modules[name] = ALIASES[name]
        return ALIASES[name]

    def attribute(self, module: str, qualname: str, alias: str = "") -> str:
        """Write an attribute of such a module."""
        return qualname if module == "builtins" else f"{self.module(module)}.{qualname}"

    def define(self, hint: str, text: str, value: Any) -> str:
        """Refuse: an object belongs to one module."""
        raise NotShared

    def defined(self) -> Sequence[tuple[Any, str]]:
        """Refuse, as `define` does."""
        raise NotShared

    def mention(self, value: Any) -> None:
        """Refuse: a device belongs to one module."""
        raise NotShared


def _section(module: str) -> int:
    return 0 if module.partition(".")[0] in sys.stdlib_module_names else 1
