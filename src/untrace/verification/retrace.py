"""Execute a generated module and trace its function at the original avals.

The module runs in a fresh namespace. Only text that this package generated, or a file the
user names, is executed. Such a file may change global settings, so what is done with it is
wrapped in `restored_settings`.
"""

from __future__ import annotations

import contextlib
import itertools
import linecache
import sys
import threading
import types
import weakref
from collections.abc import Callable, Generator, Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.captured import Captured
from untrace.capture.inputs import are_dynamic
from untrace.capture.outline import outline
from untrace.capture.trees import build
from untrace.syntax.compiling import compile_lines, split_lines
from untrace.verification.interface import Interface, parameters_of
from untrace.verification.stack_room import with_room

_numbers = itertools.count(1)
_files = threading.RLock()
OWN_MODULE = "_untrace_"
"""How the names of executed modules begin; a number follows."""


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
    module = types.ModuleType(f"{OWN_MODULE}{number}")
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
) -> tuple[Any, Interface]:
    """Trace the function of a generated module at the avals of the captured program.

    Returns:
      The closed jaxpr, and what a caller sees of the function.
    """
    replaced = {key: getattr(module, cls) for key, cls in classes.items()}
    avals = jaxapi.split_jaxpr(captured.jaxpr)[0].in_avals
    parameters = captured.parameters

    def arguments(values: Sequence[Any]) -> list[Any]:
        return [build(p.tree, values, replaced) for p in parameters]

    keywords = [p.name for p in parameters if p.kind is p.kind.KEYWORD_ONLY]
    return traced_interface(getattr(module, name), name, arguments, keywords, avals)


def traced_interface(
    function: Callable[..., Any],
    name: str,
    arguments: Callable[[Sequence[Any]], list[Any]],
    keywords: Sequence[str],
    avals: Sequence[Any],
) -> tuple[Any, Interface]:
    """Trace a function at given avals, and look at what it takes and returns.

    Args:
      function: What to trace.
      name: Its name in the jaxpr.
      arguments: Makes the arguments of values for their leaves.
      keywords: The names of the last ones, which are passed by keyword: all others are
        by position, since a jitted function sorts keywords by name.
      avals: The types of the leaves.
    """
    shapes: list[Any] = []

    def flat(*values: Any) -> Sequence[Any]:
        given = arguments(values)
        shapes[:] = [outline(argument, itertools.repeat(True)) for argument in given]
        n = len(given) - len(keywords)
        result = with_room(function, *given[:n], **dict(zip(keywords, given[n:])))
        kept = are_dynamic([result], ())
        shapes.append(outline(result, iter(kept)))
        return [leaf for leaf, k in zip(jax.tree.leaves(result), kept) if k]

    with jaxapi.own_error_codes():
        jaxpr = jaxapi.trace_flat(flat, avals, name)
    return jaxpr, Interface(parameters_of(function), tuple(shapes[:-1]), shapes[-1])


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
