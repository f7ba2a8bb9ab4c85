"""Execute a generated module and trace its function at the original avals.

The module runs in a fresh namespace. Only text that this package generated, or a file the
user names, is executed. Such a file may change global settings, so what is done with it is
wrapped in `restored_settings`.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import linecache
import sys
import threading
import types
import weakref
from collections.abc import Generator, Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.captured import Captured, Parameter
from untrace.capture.trees import build
from untrace.syntax.compiling import compile_lines, split_lines
from untrace.verification.stack_room import with_room

_numbers = itertools.count(1)
_files = threading.RLock()


def execute(
    text: str, filename: str | None = None, path: str | None = None
) -> types.ModuleType:
    """Run a module's text and return the module.

    Args:
      text: Python source.
      filename: Shown in tracebacks.
      path: Value of the module's `__file__`, next to which it looks for its sidecar.
    """
    number = next(_numbers)
    filename = filename or f"<untrace {number}>"
    module = types.ModuleType(f"_untrace_{number}")
    module.__file__ = path or filename
    lines = split_lines(text)
    linecache.cache[filename] = (len(text), None, lines, filename)
    keeper = module.__dict__["__loader__"] = _Keeper()  # lives as long as the functions
    weakref.finalize(keeper, linecache.cache.pop, filename, None)
    with deep_stack(text):
        # NamedTuple definitions look their module up by name.
        sys.modules[module.__name__] = module
        try:
            exec(compile_lines(lines, filename), module.__dict__)
        finally:
            del sys.modules[module.__name__]
    return module


class _Keeper:
    """What is gone when nothing of a module is left."""


def retrace(
    module: types.ModuleType, name: str, captured: Captured, classes: dict[Any, str]
) -> Any:
    """Trace the function of a generated module at the avals of the captured program."""
    function = getattr(module, name)
    replaced = {key: getattr(module, cls) for key, cls in classes.items()}
    avals = jaxapi.split_jaxpr(captured.jaxpr)[0].in_avals

    def flat(*values: Any) -> Sequence[Any]:
        # By position where that is possible: a jitted function sorts keywords by name.
        args = [
            build(p.tree, values, replaced)
            for p in captured.parameters
            if not _is_keyword(p)
        ]
        kwargs = {
            p.name: build(p.tree, values, replaced)
            for p in captured.parameters
            if _is_keyword(p)
        }
        return jax.tree.leaves(with_room(function, *args, **kwargs))

    with jaxapi.own_error_codes():
        return jaxapi.trace_flat(flat, avals, name)


def _is_keyword(parameter: Parameter) -> bool:
    return parameter.kind is inspect.Parameter.KEYWORD_ONLY


@contextlib.contextmanager
def restored_settings() -> Generator[None, None, None]:
    """Restore the global settings that a file of the user may change: one at a time."""
    with _files:
        before = jaxapi.global_x64()
        try:
            yield
        finally:
            if jaxapi.global_x64() != before:
                jax.config.update("jax_enable_x64", before)


@contextlib.contextmanager
def deep_stack(text: str) -> Generator[None, None, None]:
    """Allow deep recursion for modules of many functions."""
    if text.count("\ndef ") < 20:
        yield
        return
    with jaxapi.deep_recursion():
        yield
