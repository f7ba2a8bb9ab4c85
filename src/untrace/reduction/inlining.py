"""Functions of the user's modules, written into the file that calls them.

A host callback is imported from where it is defined, which nobody else has. Where its source
needs nothing of that module but packages that are installed, it stands in the file instead.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
import types
from collections.abc import Callable
from typing import Any

from untrace.parsing import parse


def with_own_functions(
    text: str, is_own: Callable[[str], bool]
) -> tuple[str, list[str]]:
    """Replace imports of functions by their sources, if all of a statement can be.

    Args:
      text: A module.
      is_own: Whether a module, named by the first part of its name, is one of the user's.

    Returns:
      The module, and the imports that it needs besides.
    """
    needed: list[str] = []
    for node in reversed(parse(text).body):
        if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
            continue
        if not is_own(node.module.partition(".")[0]):
            continue
        tree = parse(text)
        made = _sources(node.module, node.names, _bound(tree), is_own)
        if made is None:
            continue
        imports, sources = made
        needed += imports
        lines = text.split("\n")
        after = _last_import(tree)
        lines[after:after] = ["", "", *sources]
        del lines[node.lineno - 1 : node.end_lineno]
        text = "\n".join(lines)
    return text, needed


def _last_import(tree: ast.Module) -> int:
    """Return the number of lines up to the last import at the top."""
    imports = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
    return imports[-1].end_lineno or 0


def _sources(
    module: str,
    names: list[ast.alias],
    bound: dict[str, str],
    is_own: Callable[[str], bool],
) -> tuple[list[str], list[str]] | None:
    """Return imports and sources of functions; None if one needs more than packages."""
    imports: list[str] = []
    sources: list[str] = []
    for alias in names:
        found = getattr(importlib.import_module(module), alias.name, None)
        source = None if alias.asname else _source(found, alias.name)
        needed = None if source is None else _needed(found, source)
        if source is None or needed is None:
            return None
        for name, path in needed.items():
            if is_own(path.partition(".")[0]) or bound.get(name, path) != path:
                return None
            imports.append(f"import {path}" + ("" if name == path else f" as {name}"))
        sources += [*source.split("\n"), "", ""]
    return imports, sources


def _source(function: Any, name: str) -> str | None:
    """Return the source of a plain function that is defined under its own name."""
    if not isinstance(function, types.FunctionType) or function.__closure__:
        return None
    if function.__name__ != name or hasattr(function, "__wrapped__"):
        return None
    try:
        source = textwrap.dedent(inspect.getsource(function)).rstrip()
        definition = parse(source).body[0]
    except (OSError, TypeError, SyntaxError):
        return None
    is_plain = isinstance(definition, ast.FunctionDef)
    return source if is_plain and not definition.decorator_list else None


def _needed(function: Any, source: str) -> dict[str, str] | None:
    """Return the modules that a function names, by the names; None if it names more."""
    found: dict[str, str] = {}
    for name in _global_names(function.__code__) | _names_of_signature(source):
        if name not in function.__globals__:
            continue
        value = function.__globals__[name]
        if not isinstance(value, types.ModuleType):
            return None
        found[name] = value.__name__
    return found


def _global_names(code: types.CodeType) -> set[str]:
    """List the names that code takes from its module, and those of attributes."""
    inner = (c for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*map(_global_names, inner))


def _names_of_signature(source: str) -> set[str]:
    """List the names in defaults and annotations, which the module evaluates."""
    definition = parse(source).body[0]
    if not isinstance(definition, ast.FunctionDef):
        return set()
    parts = [definition.args, *([definition.returns] if definition.returns else [])]
    nodes = (node for part in parts for node in ast.walk(part))
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def _bound(tree: ast.Module) -> dict[str, str]:
    """Return what the names at the top of a module stand for: modules, or "" for others."""
    found: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                found[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = ""
        elif isinstance(node, ast.Assign):
            names = (n for t in node.targets for n in ast.walk(t))
            found.update({n.id: "" for n in names if isinstance(n, ast.Name)})
    return found
