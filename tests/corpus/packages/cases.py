"""The registry of cases: which package, what it shows, and how its program is called."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.corpus import packages


@dataclass(frozen=True)
class Call:
    """A function and what a user calls it with."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Call:
    """Return a call of a function."""
    return Call(function, args, kwargs)


@dataclass(frozen=True)
class Case:
    """One program.

    Attributes:
      name: `package/what_it_does`, unique.
      package: The distribution on PyPI that wrote the program.
      shows: A sentence on what it shows.
      tags: Field and transformations: "ode", "gradient", "batched", "scan", "state", ...
      make: Imports the package and returns the call; fixed seeds, no files, no network.
      x64: Whether it is traced and run with 64-bit types.
      needs: Further distributions that must be there.
    """

    name: str
    package: str
    shows: str
    tags: tuple[str, ...]
    make: Callable[[], Call]
    x64: bool = False
    needs: tuple[str, ...] = ()


CASES: dict[str, Case] = {}


def case(
    package: str,
    *tags: str,
    shows: str,
    x64: bool = False,
    needs: tuple[str, ...] = (),
) -> Callable[[Callable[[], Call]], Callable[[], Call]]:
    """Register the decorated function, which makes a call, as a case of a package."""

    def register(make: Callable[[], Call]) -> Callable[[], Call]:
        name = f"{package}/{make.__name__}"
        if name in CASES:
            raise ValueError(f"two cases are called {name}")
        CASES[name] = Case(name, package, shows, tags, make, x64, needs)
        return make

    return register


def load_all() -> dict[str, Case]:
    """Import the files of all fields; return the cases by name."""
    for module in pkgutil.iter_modules(packages.__path__):
        if module.name.startswith("field_"):
            importlib.import_module(f"{packages.__name__}.{module.name}")
    return CASES
