"""Write `load_weights`: the arguments of a program that lie in its sidecar, by path.

They are stored under the names that a state dict has, with the argument before them:
`params.layers.0.weight`.
"""

from __future__ import annotations

from untrace.capture import Captured
from untrace.capture.trees import accessors
from untrace.lifting.lifter import Lifter
from untrace.lifting.spelling.arrays import storage_view
from untrace.syntax.text import quote

_HEAD = '''\
def load_weights():
    """Return what is stored beside this file: {names}."""
    weights = {{}}
    for path, array in {stored}:
'''
_BODY = """\
        *parents, name = path.split(".")
        node = weights
        for parent in parents:
            node = node.setdefault(parent, {{}})
        node[name] = {jnp}.asarray(array)
    return weights
"""


def weight_lines(captured: Captured, lifter: Lifter) -> list[str]:
    """The function that loads the weights of a program, which are stored; if it has any."""
    changed: dict[str, list[str]] = {}
    has_others = bool(lifter.constants.stored)
    found = {path: captured.values[i] for path, i in _paths(captured).items()}
    for path, value in found.items():
        stored, template = storage_view(value, lifter.imports)
        lifter.constants.stored[path] = stored
        changed.setdefault(template, []).append(path)
    if not found:
        return []
    others = 'if "." in path' if has_others else ""
    stored = "CONSTANTS.items()"
    if others:
        stored = (
            f"[item for item in CONSTANTS.items() {others.replace('path', 'item[0]')}]"
        )
    text = _HEAD.format(names=", ".join(captured.weights), stored=stored)
    for template, paths in changed.items():
        text += _changed(template, paths, is_only=len(changed) == 1)
    text += _BODY.format(jnp=lifter.imports.module("jax.numpy"))
    return text.rstrip("\n").split("\n")


def weight_positions(captured: Captured) -> set[int]:
    """Return which inputs of a program are stored."""
    return set(_paths(captured).values())


def _paths(captured: Captured) -> dict[str, int]:
    """Return the stored inputs, by what they are stored under."""
    found: dict[str, int] = {}
    for parameter in captured.parameters:
        if parameter.name in captured.weights:
            for index, _, words in accessors(parameter.tree, parameter.name):
                found[".".join([parameter.name, *words])] = index
    return found


def _changed(template: str, paths: list[str], is_only: bool) -> str:
    """Write how arrays of a dtype come back that the file stores as another one."""
    made = template.format(array="array")
    if made == "array":
        return ""
    if is_only:
        return f"        array = {made}\n"
    names = ", ".join(map(quote, paths))
    return f"        if path in {{{names}}}:\n            array = {made}\n"
