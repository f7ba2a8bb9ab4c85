"""Name functions: the user's as he did, those of libraries by what their code tells.

A program's own function has no leading underscore in a file of its own, but where another
one has that name; a method has its class before its name then. A library has many
functions of one name: methods of its classes, and functions made by others (`update_fn`,
`wrapper`). Each has several names, which tell more and more; the first one is taken unless
another function of the file would have it, too. Only functions that no name tells apart
are numbered.
"""

from __future__ import annotations

import os
import types
from collections.abc import Iterable, Iterator, Set
from typing import Any

from untrace.lifting.printing import Function
from untrace.lifting.recorded.tree import Draft
from untrace.objects import attribute_of
from untrace.optional import gives, optional
from untrace.recovery.docstrings import docstring_of
from untrace.recovery.record import Body, is_library
from untrace.syntax.names import identifier, is_name

Names = tuple[str, ...]
"""The names that a function may have, from short to telling."""

LOCALS = "<locals>"
ROLES = ("_fn", "_fun", "_func")
MAKERS = ("__init__", "__post_init__", "__new__")
"""Methods that are known by the class whose objects they make."""
# Words of names that say no more than that there is a function.
VAGUE = frozenset(
    {"wrapper", "wrapped", "wrap", "inner", "decorated", "decorator", "closure"}
    | {"f", "g", "fn", "fun", "func", "function"}
)
VERBS = frozenset({"build", "create", "get", "init", "make", "new", "setup"})
"""What the names of functions begin with that make others."""

LONGEST_ABBREVIATION = 4
"""Most letters of the name of a class such as `ViT`, which is one word."""


def start(
    body: Body,
    levels: dict[Names, int],
    is_called: bool = False,
    is_decorated: bool = False,
) -> Draft:
    """Begin the function that is made of a run.

    Args:
      levels: Which of their names functions have.
      is_called: Whether it is called by name, and not passed to another function.
      is_decorated: Whether it has decorators: JAX may know it by its name.
    """
    names, own = names_of(body, is_called), body.code.co_name
    if is_decorated and own != names[0] == _cleaned(own) and own.isascii():
        names = own, *names
    doc = docstring_of(body.code)
    name = names[levels.get(names, 0)]
    return Draft(name, names=names, doc=doc, settings=tuple(_settings(body)))


def _settings(body: Body) -> Iterator[str]:
    """Yield the words that a run is given, and the names of flags that are set."""
    for name, value in body.parameters.items():
        if value is True:
            yield name
        elif type(value) is str and is_name(value):
            yield value.lower()


@optional(gives(False))
def settle(
    functions: Iterable[Function], levels: dict[Names, int], hidden: Set[str]
) -> bool:
    """Give more telling names to functions that would share one.

    Args:
      functions: All functions of a file.
      levels: Which of their names they have; it is changed.
      hidden: Names that local variables of the user would have.

    Returns:
      Whether any has another name now.
    """
    known = {function.names for function in functions if function.names}
    before = dict(levels)
    for names in known:
        level = levels.get(names, 0)
        others = [n for n, name in enumerate(names) if name not in hidden and n > level]
        if names[level] in hidden and others:
            levels[names] = others[0]
    while True:
        groups: dict[str, list[Names]] = {}
        for names in known:
            groups.setdefault(names[levels.get(names, 0)], []).append(names)
        shared = [
            names for group in groups.values() if len(group) > 1 for names in group
        ]
        rising = [names for names in shared if levels.get(names, 0) < len(names) - 1]
        if not rising:
            return levels != before
        for names in rising:
            levels[names] = levels.get(names, 0) + 1


@optional(gives(("function",)))
def names_of(body: Body, is_called: bool = False) -> Names:
    """Return the names that the function of a run may have."""
    code = body.code
    if code.co_name == "<lambda>":
        return ("function",)
    name = _own_name(body)
    if not is_library(code):
        return _plain(name, body)
    if code.co_name == "__call__":
        return *_users(body), *_in_module(name, code)
    names = _names(code.co_qualname, body, is_called)
    wrapped = _wrapped(body)
    if not wrapped or not _is_vague(code.co_name):
        return names
    inner = _names(wrapped, body, is_called)
    return *inner[:2], _joined(names[0], inner[1])


def _users(body: Body) -> Names:
    """Return the name of the user's function that an object of a library wraps."""
    user = attribute_of(body.function, "__wrapped__")
    if not isinstance(user, types.FunctionType) or is_library(user.__code__):
        return ()
    return (_cleaned(user.__name__),)


def _own_name(body: Body) -> str:
    """Return the name that the program has for a function."""
    if body.code.co_name == "__call__" and body.parameters:
        owner = next(iter(body.parameters.values()))
        wrapped = getattr(attribute_of(owner, "__wrapped__"), "__name__", None)
        if isinstance(wrapped, str):  # `evaluate`, and not `bound_method`
            return _cleaned(wrapped)
        return snake_case(type(owner).__name__)
    made = _made(body.code.co_qualname)
    if made:
        return made
    known = attribute_of(body.function, "__name__")
    name = known if isinstance(known, str) and known else body.code.co_name
    return _cleaned(name) if is_library(body.code) else identifier(name, "function")


def _made(qualname: str) -> str:
    """Return what to call a method that makes objects; "" if it is another one."""
    *around, last = qualname.split(".")
    is_maker = last in MAKERS and around and around[-1] != LOCALS
    return snake_case(_cleaned(around[-1])) if is_maker else ""


def _names(qualname: str, body: Body, is_called: bool) -> Names:
    """Return what to call a function of a library, by where it is defined."""
    *around, last = qualname.split(".")
    name = _cleaned(last)
    if not around:
        return _in_module(name, body.code)
    if made := _made(qualname):
        return made, f"new_{made}"
    if around[-1] != LOCALS and last == "__call__":
        owner = snake_case(_class(around[-1], body))
        return owner, f"apply_{owner}"
    if around[-1] != LOCALS:
        return name, _joined(snake_case(_class(around[-1], body)), name)
    maker = _maker(around[:-1])
    role = next((role for role in ROLES if name.endswith(role)), "")
    stem = name.removesuffix(role)
    longer = _joined(maker, stem)
    if _is_vague(last) or (role and is_called and longer != stem):
        return maker, longer
    return name, _joined(maker, name)


def _plain(name: str, body: Body) -> Names:
    """Return the names of the user's function: its own, and what it is or is made in with it.

    What `create_linear` makes is `linear`, and so is what `Linear` makes.
    """
    *around, last = body.code.co_qualname.split(".")
    names = [name]
    if around and around[-1] != LOCALS and not last.startswith("__"):
        names.append(_joined(snake_case(_class(around[-1], body)), name))
    if last == "__call__":  # the program may have a variable of its class's name
        names.append(f"apply_{name}")
    if around and around[-1] == LOCALS:
        verb, _, made = _maker(around[:-1]).partition("_")
        factory = next(one for one in reversed(around) if one != LOCALS)
        if made and verb in VERBS:
            names += [identifier(made, "function"), _joined(made, name)]
        elif factory[0].isupper() and _maker(around[:-1]) == _cleaned(factory):
            made = snake_case(_cleaned(factory))  # `Dense`, which is no class
            names += [made, _joined(made, name)]
    return tuple(names)


def _in_module(name: str, code: types.CodeType) -> Names:
    """Return the names of what is defined in a module: others tell more than its file."""
    folder, file = os.path.split(code.co_filename)
    stem = file.partition(".")[0]
    module = os.path.basename(folder) if stem == "__init__" else stem
    return name, name, name, _joined(_cleaned(module), name)


def _maker(path: list[str]) -> str:
    """Name the function around another: the nearest whose name tells something."""
    while len(path) > 1 and (_is_vague(path[-1]) or path[-1] == LOCALS):
        path = path[:-1]
    is_special = path[-1].startswith("__") and len(path) > 1
    return snake_case(path[-2]) if is_special else _cleaned(path[-1])


def _class(name: str, body: Body) -> str:
    """Return the class of the object whose method ran, if it has one of this name."""
    held = next(iter(body.parameters.values()), None)
    kind: Any = held if isinstance(held, type) else type(held)
    is_method = any(base.__name__ == name for base in kind.__mro__)
    return kind.__name__ if is_method else name


def _wrapped(body: Body) -> str:
    """Return where the function is defined that another one wraps, if that is known."""
    known = attribute_of(body.function, "__qualname__")
    if isinstance(known, str) and known not in ("", body.code.co_qualname):
        return known
    inner = body.wrapped
    runs = [item.bodies[0].code for item in body.calls if item.is_own]
    if inner is None or inner.__code__ not in runs:
        return ""
    return inner.__code__.co_qualname


def _is_vague(name: str) -> bool:
    return set(name.strip("_").split("_")) <= VAGUE


def _joined(owner: str, name: str) -> str:
    """Put the name of an owner before a function's, unless it begins with it."""
    is_there = f"{name}_".startswith(f"{owner}_")
    return name if is_there else identifier(f"{owner}_{name}", "function")


def _cleaned(name: str) -> str:
    is_special = name.startswith("__") and name.endswith("__")  # `__mul__`
    return identifier(name.strip("_") if is_special else name.lstrip("_"), "function")


def snake_case(name: str) -> str:
    """Write a class name as a function name.

    >>> snake_case("LayerNorm"), snake_case("MLP"), snake_case("GRUCell"), snake_case("ViT")
    ('layer_norm', 'mlp', 'gru_cell', 'vit')
    >>> snake_case("DiTBlock"), snake_case("NTKParameter"), snake_case("UNet")
    ('dit_block', 'ntk_parameter', 'u_net')
    >>> snake_case("MaxPool2D"), snake_case("Grid2DModel"), snake_case("Dense2Layer")
    ('max_pool2d', 'grid2d_model', 'dense2_layer')
    """
    if [char.isupper() for char in name[:5]] == [True, False, True, True, False]:
        name = name[:3].capitalize() + name[3:]
    if len(name) <= LONGEST_ABBREVIATION and name[-1:].isupper():
        return name.lower()
    text = ""
    for position, char in enumerate(name):
        before = name[position - 1 : position]
        is_inside = before.isupper() or before.isdigit()  # `2D`
        follows = before and (not is_inside or name[position + 1 :][:1].islower())
        text += f"_{char.lower()}" if char.isupper() and follows else char.lower()
    return text.replace("__", "_").strip("_") or "function"
