"""Find the module and attribute under which a live object can be imported.

Public names come first. JAX's public namespaces are indexed once by identity; other
objects are asked for `__module__` and `__qualname__`; what has neither (primitives,
singletons) is looked for in every imported module. An answer is given only if the
attribute found there *is* the object.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.jaxapi import written
from untrace.lifting.spelling.base import JAX_NAMESPACES
from untrace.syntax.importable import named
from untrace.syntax.names import is_dotted_name

Home = tuple[str, str]
"""A module's name and a dotted path of attributes in it."""

PREFERRED = [
    "jax",
    "jax.lax",
    "jax.nn",
    "jax.random",
    "jax.nn.initializers",
    "jax.numpy",
    "jax.scipy.special",
]

_VALUES = (int, float, complex, str, bytes, tuple, list, dict, set, types.ModuleType)

_KNOWN: dict[int, tuple[Any, Home | None, int]] = {}
"""By id: the object (kept, so that its id stays its own), its home, modules seen."""


def find_home(value: Any) -> Home | None:
    """Return where `value` can be imported from, or None."""
    known = _KNOWN.get(id(value))
    n_modules = len(sys.modules)
    if known is None or (known[1] is None and known[2] != n_modules):
        home = (
            find_public_home(value)
            or _find_declared_home(value)
            or _find_by_scan(value)
        )
        known = _KNOWN[id(value)] = value, home, n_modules
    return known[1]


def find_public_home(value: Any) -> Home | None:
    """Return the public name of `value` in JAX or NumPy, or None."""
    found = _public_names(len(sys.modules)).get(id(value))
    return found[1] if found is not None and found[0] is value else None


def public_name(function: Any) -> tuple[str, str] | None:
    """Return the public home of a function, in `jax.numpy` if it has one there."""
    home = find_public_home(function)
    if home is not None and getattr(jnp, home[1], None) is function:
        return "jax.numpy", home[1]
    return home


def public_objects() -> Iterator[tuple[Any, Home]]:
    """Yield the public objects of JAX and NumPy with their homes."""
    return iter(_public_names(len(sys.modules)).values())


def find_primitive_home(primitive: Any) -> Home | None:
    """Return where a JAX primitive can be imported from, or None."""
    if primitive not in _PRIMITIVE_HOMES:
        _index_primitives()
    if primitive not in _PRIMITIVE_HOMES:
        _look_into_objects(primitive)
    return _PRIMITIVE_HOMES.get(primitive)


_PRIMITIVE_HOMES: dict[Any, Home] = {}


def _index_primitives() -> None:
    best: dict[Any, tuple[Any, ...]] = {}
    for module, name, value in _attributes():
        if not _is(value, jaxapi.Primitive):
            continue
        is_plain = name == value.name.replace("-", "_") + "_p"
        rank = (_module_rank(module), name.startswith("_"), not is_plain, module, name)
        if value not in best or rank < best[value]:
            best[value] = rank
    _PRIMITIVE_HOMES.update({value: rank[-2:] for value, rank in best.items()})


def _is(value: Any, kind: type) -> bool:
    """Whether a value is of a class, without asking it: modules hold anything."""
    return issubclass(type(value), kind)


def _look_into_objects(primitive: Any) -> None:
    """Find the object or class of a module that has a primitive as an attribute."""
    homes = [
        (module, f"{name}.{attribute}")
        for module, name, holder in _attributes()
        if not _is(holder, types.ModuleType)
        for attribute, value in _own_attributes(holder)
        if value is primitive and is_dotted_name(attribute)
    ]
    if homes:
        _PRIMITIVE_HOMES[primitive] = min(homes, key=_home_rank)


def _own_attributes(value: Any) -> list[tuple[str, Any]]:
    """List what an object or a class itself holds, without running its code."""
    read = type.__getattribute__ if _is(value, type) else object.__getattribute__
    try:
        return list(read(value, "__dict__").items())
    except (AttributeError, TypeError, RuntimeError):  # it has none, or it changes
        return []


def _module_rank(module: str) -> int:
    """Order modules: public JAX first, private JAX, public others, private others."""
    if module == written.PRIMITIVES:
        return 0
    is_private = any(part.startswith("_") for part in module.split("."))
    is_other = module.partition(".")[0] != "jax"
    return 1 + is_private + 2 * is_other


@functools.lru_cache(maxsize=1)
def _public_names(n_modules: int) -> dict[int, tuple[Any, Home]]:
    """Index the objects in JAX's public modules and NumPy by identity."""
    names: dict[int, tuple[Any, Home]] = {}
    for space, held in list(vars(jax).items()):
        if isinstance(held, types.SimpleNamespace):
            for name, value in list(vars(held).items()):
                names.setdefault(id(value), (value, ("jax", f"{space}.{name}")))
    for module in _public_modules():
        held = list(vars(sys.modules[module]).items())
        for name, value in sorted(held, key=_is_alias):
            if not (
                name.startswith("_") or isinstance(value, _VALUES) or _is_python(value)
            ) and jaxapi.is_own_name(module, name):
                names.setdefault(id(value), (value, (module, name)))
    return names


def _is_alias(item: tuple[str, Any]) -> bool:
    """Whether a name is not a scalar type's own, such as `csingle` of `complex64`."""
    name, value = item
    return isinstance(value, type(jnp.float32)) and value.__name__ != name


def _is_python(value: Any) -> bool:
    """Whether a class or function is one of Python's, which a module imports."""
    module = getattr(value, "__module__", None)
    return (
        isinstance(value, (type, types.FunctionType))
        and isinstance(module, str)
        and module.partition(".")[0] in sys.stdlib_module_names
    )


def public_modules() -> set[str]:
    """Name the public modules of JAX that have been imported; some are here."""
    for module in _FIRST:
        importlib.import_module(module)
    return {m for m in sys.modules.copy() if m.startswith("jax.") and "._" not in m}


_FIRST = [*PREFERRED, *sorted(JAX_NAMESPACES - set(PREFERRED))]


def _public_modules() -> list[str]:
    """List JAX's public modules, most familiar first, then NumPy."""
    others = sorted(public_modules() - set(_FIRST), key=lambda m: (m.count("."), m))
    return [*_FIRST, "numpy", *filter(_is_importable, others)]


def _find_declared_home(value: Any) -> Home | None:
    module = getattr(value, "__module__", None)
    qualname = getattr(value, "__qualname__", None)
    if isinstance(value, np.ufunc):
        module, qualname = "numpy", value.__name__
    if isinstance(value, types.MethodDescriptorType):
        module = value.__objclass__.__module__
    if not isinstance(module, str) or not isinstance(qualname, str):
        return None
    if module.partition(".")[0] == "jaxlib" or not _is_importable(module):
        return None
    return (module, qualname) if named(module, qualname) is value else None


def _find_by_scan(value: Any) -> Home | None:
    """Look for `value` in all modules; for a function, in its own module only."""
    is_function = isinstance(value, types.FunctionType)
    modules = [value.__module__] if is_function else _modules_with(value)
    homes = [
        (module, name)
        for each in modules
        for module, name, found in _attributes_of(each)
        if found is value
    ]
    return min(homes, key=_home_rank, default=None)


def _modules_with(value: Any) -> list[str]:
    """Name the modules that have `value` as an attribute.

    Most of what is looked for is nowhere: objects that tracing makes anew each time. So
    names are read only where it is found, and nothing is remembered, since modules change.
    """
    wanted = id(value)
    # Other threads import meanwhile, and modules may be anything.
    modules: list[tuple[str, object]] = [*sys.modules.copy().items()]
    return [
        name
        for name, module in modules
        if isinstance(module, types.ModuleType)
        and wanted in map(id, list(vars(module).values()))
    ]


def _home_rank(home: Home) -> tuple[int, bool, Home]:
    return _module_rank(home[0]), home[1].startswith("_"), home


def _attributes() -> Iterator[tuple[str, str, Any]]:
    for module in sys.modules.copy():
        yield from _attributes_of(module)


def _attributes_of(module: str) -> Iterator[tuple[str, str, Any]]:
    if not _is_importable(module):
        return
    for name, value in list(vars(sys.modules[module]).items()):
        if is_dotted_name(name):
            yield module, name, value


def _is_importable(module: str) -> bool:
    """Whether a fresh process could import this (imported) module by its name."""
    if module.partition(".")[0] in ("__main__", "__mp_main__", "untrace"):
        return False
    found = sys.modules.get(module)
    return (
        isinstance(found, types.ModuleType)
        and getattr(found, "__spec__", None) is not None
        and is_dotted_name(module)
    )
