"""Name what a function returns: after the fields and keys that it is returned in.

What it computes in a display, `Contact(normal=n / norm, depth=depth)`, has the name of the
field then, where it has to stand apart and no variable held it. A container that is
returned more than once is the variable that held it: `out = ...`, `return out, out`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from untrace.capture.trees import Leaf, Node, Tree
from untrace.lifting.recorded.naming.values import (
    is_array,
    is_made_of_arrays,
    tree_key,
)
from untrace.lifting.recorded.numbers.numbers import VAGUE, is_telling
from untrace.lifting.recorded.terms import Name
from untrace.lifting.recorded.tree import Statement
from untrace.lifting.recorded.writer import Writer
from untrace.optional import gives, optional
from untrace.syntax.names import identifier


def name_results(result: Any, held: Mapping[str, Any], writer: Writer) -> None:
    """Name what is returned, before it is written.

    Args:
      result: What the function returns.
      held: What its local variables held in the end.
      writer: Has written its calls.
    """
    dicts = [value for value in held.values() if type(value) is dict]
    for value in (result, *dicts):
        _name_parts(value, writer)
    _assign_repeated(result, held, writer)


@optional(gives(None))
def _name_parts(value: Any, writer: Writer) -> None:
    """Name arrays after the fields and keys that they are in, if nothing has named them."""
    if is_array(value):
        return
    tree, arrays = writer.values.tree(value)
    for hint, index in _labelled(tree):
        found = writer.values.find(id(arrays[index]))
        if found is None or found[1]:
            continue
        name = found[0]
        is_own = id(name) in writer.owned and not name.is_parameter
        if is_own and not (name.is_given or name.text):
            name.hint = hint  # it is folded into the display as before, where it can be


def _labelled(tree: Tree) -> Iterator[tuple[str, int]]:
    """Yield the fields and keys of arrays, and their positions among all of them."""
    if not isinstance(tree, Node):
        return
    for key, child in zip(tree.keys, tree.children):
        if not isinstance(child, Leaf):
            yield from _labelled(child)
        elif type(key) is str and _says_something(key):
            yield key, child.index


def _says_something(key: str) -> bool:
    return identifier(key) == key and is_telling(key) and key not in VAGUE


@optional(gives(None))
def _assign_repeated(result: Any, held: Mapping[str, Any], writer: Writer) -> None:
    """Write a container that is returned more than once to the variable that held it."""
    if is_array(result) or writer.in_library:
        return
    tree, arrays = writer.values.tree(result)
    counts = Counter(_keys(tree, arrays))
    for hint, value in held.items():
        if is_array(value) or not is_made_of_arrays(value):
            continue
        key = writer.values.key(value)
        if counts[key] > 1 and writer.values.find(key) is None:
            name = Name(identifier(hint), is_given=True)
            statement = Statement(name, writer.value(value))
            writer.draft.statements.append(statement)
            writer.define(value, name)


def _keys(tree: Tree, arrays: Sequence[Any]) -> Iterator[Any]:
    """Yield what identifies the containers in a tree that hold several arrays."""
    if isinstance(tree, Node):
        if len(tree.children) > 1:
            yield tree_key(tree, arrays)
        for child in tree.children:
            yield from _keys(child, arrays)
