"""What a caller sees of a program: its parameters, and the tree of its result.

The tree of the original's result is compared with that of the text's: containers, keys,
their order, leaves that are no arrays, and which output of the jaxpr is where. In the
place of an object of a class the text may return an object of that class, or what stands
for one, and then all that holds arrays has to correspond, in order and by name:

- a NamedTuple of the file's own with the fields that hold arrays (also for a dict whose
  keys cannot be written);
- a dict, if the object is a mapping, or keeps its state as one;
- what it holds alone, if it only wraps that;
- None or (), if it holds no arrays.

Leaves of objects that are no arrays are left out, also of the containers in them, or None
is in their place.
"""

from __future__ import annotations

import collections.abc
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from untrace.capture.captured import Captured
from untrace.capture.outline import (
    BUILTIN,
    Inner,
    Outline,
    Output,
    Static,
    is_plain_key,
    outline_of_tree,
)
from untrace.verification.compare import are_same_values
from untrace.verification.difference import Difference, shorten
from untrace.verification.identity import identity

_NOT_WORD = re.compile(r"[^A-Za-z0-9]+")


@dataclass(frozen=True, slots=True)
class Interface:
    """How a function is called, and what it returns.

    Attributes:
      parameters: Its parameters, with their kinds and defaults.
      arguments: The tree of each argument that it was traced with.
      result: The tree of its result.
    """

    parameters: tuple[inspect.Parameter, ...]
    arguments: tuple[Outline, ...]
    result: Outline


def parameters_of(function: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """The parameters of a function, without their annotations."""
    found = inspect.signature(function).parameters.values()
    return tuple([one.replace(annotation=inspect.Parameter.empty) for one in found])


def interface_difference(captured: Captured, made: Interface) -> Difference | None:
    """The first difference between the captured interface and that of the text."""
    wanted = [(p.name, p.kind) for p in captured.parameters]
    if wanted != [(p.name, p.kind) for p in made.parameters]:
        names = f"({', '.join(name for name, _ in wanted)})"
        return _difference(names, _signature(made.parameters), "parameters differ")
    if any(p.default is not p.empty for p in made.parameters):
        text = _signature(made.parameters)
        return _difference("no default", text, "a parameter has a default")
    original = captured.outline or outline_of_tree(captured.result)
    found = _Correspondence().differ(original, made.result, "result", False)
    return None if found is None else _difference(*found)


def tree_difference(expected: Outline, actual: Outline) -> Difference | None:
    """The first difference between two trees in which nothing stands for anything else."""
    found = _Correspondence(is_exact=True).differ(expected, actual, "result", False)
    return None if found is None else _difference(*found)


def _difference(expected: str, actual: str, reason: str) -> Difference:
    return Difference("", (), expected, actual, reason)


def _signature(parameters: Sequence[inspect.Parameter]) -> str:
    return shorten(str(inspect.Signature(parameters)))


_Found = tuple[str, str, str]
"""What was expected, what there is, and what is said of that."""


class _Correspondence:
    """Walks two trees in step; every method returns the first difference, or None.

    Args:
      is_exact: Whether objects correspond to those of their own class alone.
    """

    def __init__(self, is_exact: bool = False) -> None:
        self.is_exact = is_exact

    def differ(
        self, one: Outline, made: Outline, path: str, in_class: bool
    ) -> _Found | None:
        if isinstance(one, Output):
            return None if one == made else _found(one, made, path)
        if isinstance(one, Static) and in_class:
            return None if _is_empty(made) else _found(one, made, path)
        if isinstance(one, Static):
            is_same = isinstance(made, Static) and _is_same(one.value, made.value)
            return None if is_same else _found(one, made, path)
        is_plain = one.cls in BUILTIN and not _has_other_keys(one)
        if isinstance(made, Inner) and (is_plain or made.cls is one.cls):
            return self._alike(one, made, path, in_class)
        if is_plain or self.is_exact or isinstance(made, Static):
            return _found(one, made, path)
        if not _holds_arrays(one):
            return None if _is_empty(made) else _found(one, made, path)
        return self._stands_for(one, made, path)

    def _alike(
        self, one: Inner, made: Inner, path: str, in_class: bool
    ) -> _Found | None:
        """Compare two nodes of one class."""
        is_builtin = one.cls in BUILTIN
        pairs = list(zip(one.keys, one.children))
        if is_builtin and in_class and len(pairs) != len(made.keys):
            pairs = [pair for pair in pairs if not _is_left_out(pair[1])]
        keys: Any = [key for key, _ in pairs]
        if one.cls in (tuple, list):
            keys = range(len(pairs))
        if made.cls is not one.cls or not _are_same_keys([*keys], made.keys):
            return _found(one, made, path)
        if not is_builtin and not _is_same_rest(one.rest, made.rest):
            reason = f"what {path} has beside its children differs"
            return _with_rest(one), _with_rest(made), reason
        is_inside = in_class or not (is_builtin or self.is_exact)
        return self._pairs(pairs, made.children, path, is_inside)

    def _stands_for(self, one: Inner, made: Output | Inner, path: str) -> _Found | None:
        """Compare an object with what is in its place."""
        held = [p for p in zip(one.keys, one.children) if _holds_arrays(p[1])]
        if isinstance(made, Inner) and self._is_node_for(one, made, held):
            shown = [child for child in made.children if _holds_arrays(child)]
            return self._pairs(held, shown, path, True)
        if len(held) == 1:
            return self.differ(held[0][1], made, path, True)
        return _found(one, made, path)

    def _is_node_for(
        self, one: Inner, made: Inner, held: Sequence[tuple[Any, Outline]]
    ) -> bool:
        """Whether a node has a child of the right name for all that holds arrays."""
        shown = [p for p in zip(made.keys, made.children) if _holds_arrays(p[1])]
        is_stand_in = issubclass(made.cls, tuple) and hasattr(made.cls, "_fields")
        if not (is_stand_in or (made.cls is dict and _may_be_dict(one))):
            return False
        named = zip([key for key, _ in held], [key for key, _ in shown])
        is_named = all(_names_match(key, name) for key, name in named)
        return is_named and len(held) == len(shown) and not _statics(made)

    def _pairs(
        self,
        held: Sequence[tuple[Any, Outline]],
        shown: Sequence[Outline],
        path: str,
        in_class: bool,
    ) -> _Found | None:
        for (key, child), other in zip(held, shown, strict=True):
            found = self.differ(child, other, f"{path}[{key!r}]", in_class)
            if found is not None:
                return found
        return None


def _holds_arrays(node: Outline) -> bool:
    if isinstance(node, Inner):
        return any(map(_holds_arrays, node.children))
    return isinstance(node, Output)


def _statics(node: Outline) -> bool:
    if isinstance(node, Inner):
        return any(map(_statics, node.children))
    return isinstance(node, Static)


def _is_empty(node: Outline) -> bool:
    return not _holds_arrays(node) and not _statics(node)


def _is_left_out(node: Outline) -> bool:
    return _statics(node) and not _holds_arrays(node)


def _has_other_keys(node: Inner) -> bool:
    """Whether a dict has keys that a text may not be able to write."""
    return node.cls is dict and not all(map(is_plain_key, node.keys))


def _may_be_dict(node: Inner) -> bool:
    """Whether an object is a mapping, or is made of attributes with these names."""
    is_mapping = issubclass(node.cls, collections.abc.Mapping)
    return is_mapping or all(key is not None for key in node.keys)


def _names_match(key: Any, name: Any) -> bool:
    """Whether a field or key may stand for a key: its letters and digits, shortened."""
    if key is None or not is_plain_key(key) or _is_same(key, name):
        return True
    whole, short = _word(key), _word(name)
    if not whole.startswith(short[:_SHORTEST]):
        short = short.removeprefix("field")  # before what is no name
    return whole.startswith(short) and len(short) >= min(len(whole), _SHORTEST)


_SHORTEST = 24


def _word(key: Any) -> str:
    return _NOT_WORD.sub("", key if isinstance(key, str) else repr(key))


def _is_same(one: Any, other: Any) -> bool:
    return identity(one) == identity(other)


def _are_same_keys(keys: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(keys) == len(others) and all(map(_is_same_key, keys, others))


def _is_same_key(key: Any, other: Any) -> bool:
    # A text may write a plain string for one of a class of its own: both find the item.
    if isinstance(key, str) and type(other) is str:
        return str.__eq__(key, other) is True
    if type(key) is tuple and type(other) is tuple:
        return _are_same_keys(key, other)
    return _is_same_rest(key, other)


def _is_same_rest(one: Any, other: Any) -> bool:
    """Compare keys, and what two nodes of one class hold beside their children.

    Their own `==` takes 1 for True; what `jax.vjp` returns holds jaxprs.
    """
    return _is_same(one, other) or are_same_values(one, other)


def _found(one: Outline, made: Outline, path: str) -> _Found:
    return _text(one), _text(made), f"{path} differs"


def _with_rest(node: Inner) -> str:
    return shorten(f"{node.cls.__name__} with {node.rest!r}")


def _text(node: Outline) -> str:
    if isinstance(node, Output):
        return f"output {node.number}"
    if isinstance(node, Static):
        return shorten(repr(node.value), 60)
    if node.cls is type(None):
        return "None"
    keys = ", ".join([repr(key) for key in node.keys])
    return shorten(
        f"{node.cls.__name__} of {keys}" if keys else f"an empty {node.cls.__name__}"
    )
