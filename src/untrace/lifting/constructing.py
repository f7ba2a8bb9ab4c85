"""Write the expressions that build pytrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from untrace.capture.dict_keys import quoted
from untrace.capture.trees import Leaf, Node, Tree, replaced_key, shown_settings
from untrace.lifting.alike_parts import short_dict, short_row
from untrace.lifting.lifter import Lifter
from untrace.syntax.importable import public_home


@dataclass(frozen=True, slots=True)
class Shortening:
    """How large trees are written shorter.

    Attributes:
      known: The texts of subtrees that are made of others, by their `id`.
      shows_stems: Numbered keys may be put together of their stem and number.
    """

    known: Mapping[int, str] = field(default_factory=dict)
    shows_stems: bool = True


def construct(
    tree: Tree,
    texts: Sequence[str],
    lifter: Lifter,
    classes: Mapping[Any, Any],
    top: bool = False,
    shortening: Shortening | None = None,
) -> str:
    """Write the expression that builds a tree.

    Args:
      texts: The expressions of its leaves.
      lifter: Spells settings and imports.
      classes: The classes that the file defines, by what they stand for.
      top: The expression is a whole statement: a tuple needs no parentheses.
      shortening: Write parts that are alike once, evaluated anew each time.
    """
    if isinstance(tree, Leaf):
        return texts[tree.index]
    if shortening is not None and id(tree) in shortening.known:
        return shortening.known[id(tree)]
    parts = [
        construct(child, texts, lifter, classes, shortening=shortening)
        for child in tree.children
    ]
    if tree.kind == "none":
        return "None"
    if tree.kind == "constant":
        return lifter.spell(tree.keys[0])
    if shortening is not None and tree.kind in ("tuple", "list"):
        short = short_row(tree.kind, parts)
        if short:
            return short
    if tree.kind == "tuple":
        inner = ", ".join(parts)
        if len(parts) == 1:
            return f"({inner},)"
        return inner if top and parts else f"({inner})"
    if tree.kind == "list":
        return f"[{', '.join(parts)}]"
    items = _items(tree, parts, shortening)
    if tree.kind == "dict":
        return items
    if tree.kind == "items":
        given = [lifter.spell(value) for _, value in tree.settings]
        return f"{_class_text(tree.cls, lifter)}({', '.join([*given, items])})"
    given = [f"{k}={p}" for k, p in zip(tree.keys, parts)]
    if tree.kind == "fields":
        given += [f"{k}={lifter.spell(v)}" for k, v in tree.settings]
    fields = ", ".join(given)
    if tree.kind == "fields":
        return f"{_class_text(tree.cls, lifter)}({fields})"
    if tree.kind == "sparse":
        given = [f"{k}={lifter.spell(v)}" for k, v in shown_settings(tree)]
        arrays = f"({', '.join(parts)})"
        return f"{_class_text(tree.cls, lifter)}({', '.join([arrays, *given])})"
    return f"{classes[replaced_key(tree)][0]}({fields})"


def _items(tree: Node, parts: Sequence[str], shortening: Shortening | None) -> str:
    """Write a dict; that of a class of a library may depend on the order of its keys."""
    if shortening is not None and tree.kind == "dict":
        short = short_dict(tree.keys, parts, shortening.shows_stems)
        if short:
            return short
    items = ", ".join(f"{quoted(k)}: {p}" for k, p in zip(tree.keys, parts))
    return f"{{{items}}}"


def _class_text(cls: Any, lifter: Lifter) -> str:
    return lifter.imports.attribute(*public_home(cls))
