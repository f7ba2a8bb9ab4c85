"""Annotate the signatures of recorded functions: for jaxtyping, or as the user did.

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
from untrace.lifting.recorded.functions.short_types import signature_types
from untrace.lifting.recorded.functions.user_annotations import (
    FileNames,
    annotations_of,
    dimension_names,
    user_annotation,
)
from untrace.lifting.recorded.naming.values import is_array, type_of
from untrace.lifting.recorded.terms import Name
from untrace.lifting.recorded.tree import Draft
from untrace.lifting.recorded.writer import Writer
from untrace.lifting.sizes import Size
from untrace.optional import gives, optional
from untrace.recovery.record import Body
from untrace.recovery.user_comments import remarks_of_return
from untrace.syntax.text import quote

Sizes = Mapping[int, Sequence[Any]]
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


def annotate(
    draft: Draft,
    values: Mapping[Name, Any],
    result: Any,
    writer: Writer,
    run: Body,
    shown: Sequence[Any],
) -> None:
    """Say the types of a function's parameters and result, as it is asked for.

    Args:
      values: What its parameters held.
      result: What it returned.
      writer: The writer of the function.
      run: The run that it is written from.
      shown: What the parameters held that are sure to stay.
    """
    options = writer.program.options
    if options.annotate == "jaxtyping":
        _annotate(draft, values, result, writer, run)
    elif options.types:
        draft.types = signature_types(shown, result)
    elif options.shows_comments:
        draft.remarks = remarks_of_return(run.code)
        _annotate_as_user(draft, values, result, writer, run)


@optional(gives(None))
def _annotate(
    draft: Draft,
    values: Mapping[Name, Any],
    result: Any,
    writer: Writer,
    run: Body,
) -> None:
    """Annotate a function for jaxtyping.

    Sizes have the names that the user annotated, else those of `symbolic=True`, else those
    of the variables that take them here, `b, t, d = x.shape`.
    """
    known = annotations_of(run)
    sizes = writer.sizes_taken | writer.program.named_sizes

    def annotation(value: Any, name: str) -> str:
        given = known.get(name)
        is_named = not writer.program.options.anonymous and given is not None
        if is_named and is_array(value) and not jaxapi.is_ref(value):
            names = dimension_names(given, len(type_of(value).shape))
            if names:
                return _array(value, writer, names)
        return _annotation(value, writer, sizes)

    texts = {name: annotation(value, name.hint) for name, value in values.items()}
    if not any("[" in text for text in texts.values()):
        return
    draft.annotations = texts
    draft.returns = annotation(result, "return")


@optional(gives(None))
def _annotate_as_user(
    draft: Draft, values: Mapping[Name, Any], result: Any, writer: Writer, run: Body
) -> None:
    """Annotate a function as the user did."""
    known = annotations_of(run)
    if not known:
        return
    program = writer.program
    file_names = FileNames(
        lambda home: program.home_term(home).render(),
        program.lifter.imports.direct,
        lambda value: _class_of(value, writer),
    )
    draft.annotations = {
        name: user_annotation(known[name.hint], value, file_names)
        for name, value in values.items()
        if name.hint in known
    }
    if "return" in known:
        draft.returns = user_annotation(known["return"], result, file_names)


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


def _annotation(value: Any, writer: Writer, sizes: Sizes) -> str:
    """Write the type of a value; "" if it has no short one."""
    tree, arrays = writer.values.tree(value)
    return _tree(tree, arrays, writer, sizes) if arrays else ""


def _tree(tree: Tree, arrays: list[Any], writer: Writer, sizes: Sizes) -> str:
    if isinstance(tree, Leaf):
        array = arrays[tree.index]
        shape = sizes.get(id(array), ())
        return _array(array, writer, " ".join(map(_size, shape)))
    if tree.kind == "none":
        return "None"
    if tree.kind == "number":
        return type(tree.keys[0]).__name__
    if tree.kind in ("dict", "list"):
        return tree.kind
    if tree.kind != "tuple":
        return _class(tree, writer)
    items = [_tree(child, arrays, writer, sizes) for child in tree.children]
    if not all(items) or not 0 < len(items) <= MAX_ITEMS:
        return "tuple"
    return f"tuple[{', '.join(items)}]"


def _class_of(value: Any, writer: Writer) -> str:
    tree, arrays = writer.values.tree(value)
    return _class(tree, writer) if isinstance(tree, Node) and arrays else ""


def _class(tree: Node, writer: Writer) -> str:
    """Name a class that the file defines or imports anyway."""
    program = writer.program
    is_known = tree.kind != "replaced" or replaced_key(tree) in program.classes
    return program.class_name(tree) if is_known else ""


def _array(value: Any, writer: Writer, sizes: str = "") -> str:
    if not is_array(value) or jaxapi.is_ref(value):
        return ""
    aval = type_of(value)
    names = (name for kind, name in _KINDS if jnp.issubdtype(aval.dtype, kind))
    imports = writer.program.lifter.imports
    kind = imports.direct("jaxtyping", next(names, "Shaped"))
    array = imports.direct("jax", "Array")
    return f"{kind}[{array}, {quote(sizes or ' '.join(map(_size, aval.shape)))}]"


def _size(size: Any) -> str:
    """Write a dimension; by its name, if it has one; what is computed may be anything."""
    if isinstance(size, Size):
        name = size.expression.text()
        return name.lower() if name.isidentifier() else "_"
    name = str(size)
    return name if isinstance(size, int) or name.isidentifier() else "_"
