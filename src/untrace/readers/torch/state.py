"""What a module holds: its parameters, and every other tensor, by their paths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from untrace.readers.torch.library import torch

Path = tuple[str, ...]
Module: Any = torch.nn.Module

_TABLES = ("_parameters", "_buffers", "_modules")


def parameters(module: Any) -> dict[Path, Any]:
    """The parameters; one that several modules share has the first of its paths."""
    found = ((path, value) for path, value in tensors(module) if _is_parameter(value))
    return _once(found, set())


def buffers(module: Any) -> dict[Path, Any]:
    """All other tensors, also those that are plain attributes."""
    seen = {id(value) for value in parameters(module).values()}
    found = (pair for pair in tensors(module) if not _is_parameter(pair[1]))
    return _once(found, seen)


def tensors(module: Any) -> Iterator[tuple[Path, Any]]:
    """All tensors that a module holds; one at several paths comes several times."""
    return _walk(module, ())


def nested(flat: dict[Path, Any]) -> dict[str, Any]:
    """A dict of dicts by the parts of paths."""
    made: dict[str, Any] = {}
    for path, value in flat.items():
        inner = made
        for name in path[:-1]:
            inner = inner.setdefault(name, {})
        inner[path[-1]] = value
    return made


def at(tree: Any, path: Path) -> Any:
    """What a nested dict holds at a path."""
    for name in path:
        tree = tree[name]
    return tree


def _is_parameter(value: Any) -> bool:
    return isinstance(value, torch.nn.Parameter)


def _once(found: Iterator[tuple[Path, Any]], seen: set[int]) -> dict[Path, Any]:
    kept: dict[Path, Any] = {}
    for path, value in found:
        if id(value) not in seen:
            seen.add(id(value))
            kept[path] = value
    return kept


def _walk(module: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    own = vars(module)
    for table in ("_parameters", "_buffers"):
        yield from (((*path, k), v) for k, v in own[table].items() if v is not None)
    for name, value in own.items():
        if name not in _TABLES:
            yield from _tensors(value, (*path, name))
    for name, child in own["_modules"].items():
        if child is not None:
            yield from _walk(child, (*path, name))


def _tensors(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, torch.Tensor):
        yield path, value
    elif type(value) in (list, tuple):
        for i, part in enumerate(value):
            yield from _tensors(part, (*path, str(i)))
    elif type(value) is dict:
        for key, part in value.items():
            yield from _tensors(part, (*path, str(key)))
