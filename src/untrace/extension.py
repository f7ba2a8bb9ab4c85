"""Rules of other packages: `untrace.register` and the entry-point group.

A package that defines primitives can say how they print:

    untrace.register("scale", "scale({0}, by={factor})", imports={"scale": "mylib"})

or, so that nobody needs to import it first, list a function that makes such calls under
the entry-point group `untrace.rules` in its `pyproject.toml`.
"""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Callable, Mapping
from typing import Any

from untrace.errors import UntraceError
from untrace.ir import Equation
from untrace.lifting.controls import CONTROLS, Control

# What is built in is there first.
from untrace.lifting.lift import PRINTERS as PRINTERS
from untrace.lifting.rules.table import rule

GROUP = "untrace.rules"
_loaded: list[str] = []
_lock = threading.RLock()


def register(
    primitive: Any,
    how: str | Control,
    *,
    when: Callable[[Equation], bool] | None = None,
    imports: Mapping[str, str] | None = None,
    **fixed: Any,
) -> None:
    """Say how the equations of a primitive print. Later registrations are tried first.

    Whatever a rule prints is traced and compared like everything else, so a wrong rule
    cannot give a wrong program: the equation then falls back to `primitive.bind`.

    Args:
      primitive: A JAX primitive or its name.
      how: A template such as `"scale({0}, by={factor})"`, where `{0}` is an operand and
        `{factor}` a param as Python text; or, for primitives with sub-programs, a
        function of an equation and a frame that returns an `Rhs` or None.
      when: Precondition of the template, on the equation.
      imports: Modules of the names in the template.
      **fixed: Params that must have exactly this value for the template to apply. A
        param that is neither shown nor fixed makes it decline.

    >>> register("scale", "scale({0}, by={factor})", imports={"scale": "mylib"})
    """
    name = primitive if isinstance(primitive, str) else primitive.name
    if isinstance(how, str):
        rule(name, how, when=when, imports=imports, first=True, **fixed)
    else:
        CONTROLS[name] = how


def load_entry_points() -> None:
    """Call the functions that installed packages list under `untrace.rules`, once.

    Raises:
      UntraceError: If one of them fails; the message names the package.
    """
    with _lock:
        if _loaded:
            return
        _loaded.append(GROUP)
        for entry in importlib.metadata.entry_points(group=GROUP):
            try:
                entry.load()()
            except Exception as error:  # foreign code may raise anything
                raise UntraceError(
                    f"the entry point {entry.name} = {entry.value} of group {GROUP} failed: "
                    f"{type(error).__name__}: {error}. Fix or uninstall the package that "
                    "provides it."
                ) from error
