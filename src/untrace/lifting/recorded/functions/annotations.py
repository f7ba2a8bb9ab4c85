"""Annotate the signatures of recorded functions for jaxtyping.

    def loss(params: dict, x: Float[Array, "3 4"]) -> Float[Array, ""]:

The types are those that the recorded run had. A function that was called at several
types stays without annotations, as does a parameter whose type has no short name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.capture.trees import Leaf, Node, Tree, replaced_key
from untrace.lifting.lifter import Lifter
from untrace.lifting.printing import Function
from untrace.lifting.recorded.naming.values import is_array, type_of
from untrace.lifting.recorded.terms import Name
from untrace.lifting.recorded.tree import Draft
from untrace.lifting.recorded.writer import Writer
from untrace.optional import gives, optional
from untrace.syntax.text import quote

NOTE = "Its annotations need jaxtyping (`pip install jaxtyping`)."
MAX_ITEMS = 6
_KINDS = (
    (jax.dtypes.prng_key, "Key"),
    (jnp.bool_, "Bool"),
    (jnp.floating, "Float"),
    (jnp.complexfloating, "Complex"),
    (jnp.unsignedinteger, "UInt"),
    (jnp.integer, "Int"),
)


@optional(gives(None))
def annotate(
    draft: Draft, values: Mapping[Name, Any], result: Any, writer: Writer
) -> None:
    """Annotate a function, if that is asked for.

    Args:
      draft: The function.
      values: What its parameters held.
      result: What it returned.
      writer: The writer of the function.
    """
    if writer.program.options.annotate != "jaxtyping":
        return
    draft.types = ""
    texts = {name: _annotation(value, writer) for name, value in values.items()}
    if not any("[" in text for text in texts.values()):
        return
    draft.annotations = texts
    draft.returns = _annotation(result, writer)


@optional(gives(None))
def note_annotations(functions: Sequence[Function], lifter: Lifter) -> None:
    """Note what a file with annotations needs."""
    needed = [
        f"{name}["
        for (m, _), name in lifter.imports.attributes.items()
        if m == "jaxtyping"
    ]
    lines = [line for f in functions for line in f.text_lines()] if needed else []
    if any(name in line for line in lines for name in needed):
        lifter.note(NOTE)


def _annotation(value: Any, writer: Writer) -> str:
    """Write the type of a value; "" if it has no short one."""
    tree, arrays = writer.values.tree(value)
    return _tree(tree, arrays, writer) if arrays else ""


def _tree(tree: Tree, arrays: list[Any], writer: Writer) -> str:
    if isinstance(tree, Leaf):
        return _array(arrays[tree.index], writer)
    if tree.kind == "none":
        return "None"
    if tree.kind == "number":
        return type(tree.keys[0]).__name__
    if tree.kind in ("dict", "list"):
        return tree.kind
    if tree.kind != "tuple":
        return _class(tree, writer)
    items = [_tree(child, arrays, writer) for child in tree.children]
    if not all(items) or not 0 < len(items) <= MAX_ITEMS:
        return "tuple"
    return f"tuple[{', '.join(items)}]"


def _class(tree: Node, writer: Writer) -> str:
    """Name a class that the file defines or imports anyway."""
    program = writer.program
    is_known = tree.kind != "replaced" or replaced_key(tree) in program.classes
    return program.class_name(tree) if is_known else ""


def _array(value: Any, writer: Writer) -> str:
    if not is_array(value) or jaxapi.is_ref(value):
        return ""
    aval = type_of(value)
    names = (name for kind, name in _KINDS if jnp.issubdtype(aval.dtype, kind))
    imports = writer.program.lifter.imports
    kind = imports.direct("jaxtyping", next(names, "Shaped"))
    array = imports.direct("jax", "Array")
    return f"{kind}[{array}, {quote(' '.join(map(_size, aval.shape)))}]"


def _size(size: Any) -> str:
    """Write a dimension; a symbolic one may be anything."""
    return str(size) if isinstance(size, int) else "_"
