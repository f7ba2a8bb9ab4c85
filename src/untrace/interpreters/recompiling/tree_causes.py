"""In what the trees of the arguments of two calls differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from untrace.interpreters.recompiling.call_facts import Facts, shown
from untrace.interpreters.recompiling.cause import Cause
from untrace.printable import printable


def structures(before: Facts, after: Facts) -> Iterator[Cause]:
    """Yield what is given otherwise: arguments, containers, keys, static fields."""
    for name in [*after.trees, *after.statics]:
        was_given = name in before.trees or name in before.statics
        if not was_given:
            yield Cause(
                "structure",
                name,
                f"`{name}` is given now, and was not",
                "pass the same arguments each time, also those that have defaults",
            )
        elif (name in before.keywords) != (name in after.keywords):
            ways = ("by keyword", "by position")
            if name not in before.keywords:
                ways = (ways[1], ways[0])
            yield Cause(
                "keyword",
                name,
                f"`{name}` was passed {ways[0]}, is passed {ways[1]}",
                "pass it in the same way each time",
            )
    for name in [*before.trees, *before.statics]:
        if name not in after.trees and name not in after.statics:
            yield Cause(
                "structure",
                name,
                f"`{name}` was given, and is not now",
                "pass the same arguments each time, also those that have defaults",
            )
    for name, tree in after.trees.items():
        old = before.trees.get(name)
        if old is None or old == tree:
            continue
        path, what = _tree_difference(old, tree, name)
        yield Cause(
            "structure",
            path,
            f"`{path}` {what}",
            "give it the same containers, keys and static fields each time",
        )


def _tree_difference(old: Any, tree: Any, path: str) -> tuple[str, str]:
    """Find the first place where two trees differ, and say in what."""
    data, known = tree.node_data(), old.node_data()
    if data is None or known is None or data[0] is not known[0]:
        return path, f"was {_node_text(old)}, is {_node_text(tree)}"
    children, others = tree.children(), old.children()
    if data[1] != known[1]:
        return path, _keys_difference(data, known)
    if len(children) != len(others):
        return path, f"had {len(others)} items, has {len(children)}"
    steps = _steps(data, len(children))
    for step, child, other in zip(steps, children, others):
        if child != other:
            return _tree_difference(other, child, path + step)
    return path, "differs in what its class keeps beside its arrays"


def _keys_difference(data: Any, known: Any) -> str:
    kind, keys = data
    if kind is not dict:
        name = printable(kind.__name__)
        texts = [shown(aux) for aux in (known[1], keys)]
        if texts[0] == texts[1]:
            return f"holds static fields of `{name}` that are not equal to those before"
        return f"held the static fields {texts[0]} (`{name}`), holds {texts[1]}"
    new = [repr(key) for key in keys if key not in known[1]]
    gone = [repr(key) for key in known[1] if key not in keys]
    said = [f"has the new key {', '.join(new)}"] if new else []
    said += [f"has lost the key {', '.join(gone)}"] if gone else []
    return printable(" and ".join(said) or "has its keys in another order")


def _steps(data: Any, n: int) -> list[str]:
    kind, aux = data
    if kind is dict:
        return [printable(f"[{key!r}]") for key in aux]
    fields = getattr(kind, "_fields", None)
    if fields is not None and len(fields) == n:
        return [printable(f".{field}") for field in fields]
    return [f"[{k}]" for k in range(n)]


def _node_text(tree: Any) -> str:
    data = tree.node_data()
    if data is None:
        return "an array"
    if data[0] is type(None):
        return "None"
    n = len(tree.children())
    return printable(f"a {data[0].__name__} of {n}")
