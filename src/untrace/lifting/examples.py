"""Example inputs of a generated module: `example_args()`.

Small arrays that the user passed are written exactly, as are those of a pattern (zeros,
ranges). Larger or abstract ones are drawn from a fixed seed with the same shape and
dtype, like those that were passed (`example_arrays.py`): labels and indices remain
valid, variances positive, bounds below others (`example_bounds.py`). What is alike in
large trees is written once (`alike_inputs.py`). Where the program is asked to have
exactly its inputs (a reproducer), large ones go to the sidecar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.capture import Captured, Tree
from untrace.ir import Block
from untrace.lifting.alike_inputs import AlikeInputs, Input, zeros_of_others
from untrace.lifting.constants import INLINE_LIMIT
from untrace.lifting.constructing import Shortening
from untrace.lifting.dimensions import EXAMPLE_SIZE, mentions
from untrace.lifting.example_arrays import draw
from untrace.lifting.example_bounds import keep_orders
from untrace.lifting.lifter import Lifter
from untrace.lifting.sizes import Size
from untrace.lifting.spelling import spell_aval_struct
from untrace.lifting.spelling.arrays import spell_scalar
from untrace.lifting.spelling.base import Imports
from untrace.lifting.spelling.jax_arrays import spell_typed_array, with_weak_type
from untrace.lifting.weights import weight_lines, weight_positions
from untrace.optional import gives, optional
from untrace.syntax.text import quote

EXAMPLE_LIMIT = 16
"""Most elements to write out."""

N_ALWAYS = 9
"""Most elements to write out however many digits they have: matrices of 3 by 3."""

LONG = 120
"""Most characters of a longer one, which takes a line per row when it is formatted."""

LONG_ROW = 78
"""Most characters of a longer row, which takes a line per number when it is formatted."""


def example_lines(
    captured: Captured,
    block: Block,
    lifter: Lifter,
    construct: Callable[[Tree, Sequence[str], Shortening], str],
) -> list[str]:
    """Write the body of `example_args`, which returns positional and keyword arguments."""
    inputs: list[Input] = []
    shapes = captured.dimensions.shapes if captured.dimensions else ()
    stored = weight_positions(captured)
    for position, (value, variable) in enumerate(zip(captured.values, block.inputs)):
        shape = shapes[position] if shapes else ()
        if any(isinstance(size, Size) for size in shape):
            text = _drawn(value, variable.aval, lifter, shape)
            text = with_weak_type(text, variable.aval, lifter.imports)
        else:
            text = _leaf(value, variable.aval, lifter, captured.is_exact)
        text = _placed(text, value, variable.aval, lifter)
        if position in stored:
            text = "None"  # which is loaded
        inputs.append(Input(value, variable.aval, text))
    trees = {parameter.name: parameter.tree for parameter in captured.parameters}
    lifter.weight_lines = weight_lines(captured, lifter)
    others, made, first = {}, {}, {}
    if not captured.is_exact and not shapes:
        others, made = drawn_alike(trees, inputs, lifter)
    for name in captured.weights:
        others.pop(name, None)
    if not captured.is_exact and not shapes and not others:
        free = {k: tree for k, tree in trees.items() if k not in captured.weights}
        first = keep_orders(free, inputs, block, lifter)
    texts = [one.text for one in inputs]
    names = list(trees)
    lines = [
        f"{name} = {EXAMPLE_SIZE}"
        for name in lifter.imports.dims.values()
        if mentions(texts, name)
    ]
    if any("rng." in text for text in texts):
        lifter.imports.module("numpy")
        lines.append("rng = np.random.default_rng(0)")
    shortening = Shortening({}, shows_stems=not lifter.options.anonymous)
    for name, tree in others.items():
        lines.append(f"{name} = {construct(tree, texts, shortening)}")
    for name, index in first.items():
        lines.append(f"{name} = {texts[index]}")
        texts[index] = name
    shortening = replace(shortening, known=made)
    # An argument that is called like the generator takes its name when all are drawn.
    for name in sorted(names, key=lambda name: name == "rng"):
        if name in captured.weights:
            lines.append(f"{name} = load_weights()[{quote(name)}]")
        elif name not in others and name not in first:
            lines.append(f"{name} = {construct(trees[name], texts, shortening)}")
    pairs = ", ".join(f"{name}={name}" for name in names)
    return [*lines, f"return dict({pairs})"]


@optional(lambda trees, inputs, lifter: ({}, {}))
def drawn_alike(
    trees: dict[str, Tree], inputs: list[Input], lifter: Lifter
) -> tuple[dict[str, Tree], dict[int, str]]:
    """Draw the leaves of alike subtrees alike.

    Returns:
      The trees that others are made of, and what is written for these, by their `id`.
    """
    alike = AlikeInputs(inputs)
    for tree in trees.values():
        alike.join(tree)
    for group in alike.groups():
        text = _drawn_for([inputs[index] for index in group], lifter)
        for index in group:
            inputs[index].text = text
    others, made = zeros_of_others(trees, alike, lifter.scope)
    if made:
        lifter.imports.module("jax")
        lifter.imports.module("numpy")
    return others, made


def _drawn_for(inputs: Sequence[Input], lifter: Lifter) -> str:
    """Write an expression that gives an array like each of several ones."""
    aval = inputs[0].aval
    if jaxapi.is_key(aval):
        return _drawn(None, aval, lifter)
    rows = np.stack([np.asarray(one.value) for one in inputs])
    text = draw(rows.reshape(len(rows), -1), tuple(aval.shape), aval, lifter)
    return with_weak_type(text, aval, lifter.imports)


def _placed(text: str, value: Any, aval: Any, lifter: Lifter) -> str:
    """Put an example where the value was, as far as types and devices show it."""
    sharding = jaxapi.placement(value, aval)
    if sharding is None:
        is_abstract = value is None and jaxapi.is_typed_by_axes(aval)
        return spell_aval_struct(aval, lifter.imports) if is_abstract else text
    return (
        f"{lifter.imports.module('jax')}.device_put({text}, {lifter.spell(sharding)})"
    )


def _leaf(value: Any, aval: Any, lifter: Lifter, is_exact: bool) -> str:
    imports = lifter.imports
    if jaxapi.is_token(aval):
        imports.module("jax")
        return "jax.lax.create_token()"
    if jaxapi.is_ref_aval(aval):
        imports.module("jax")
        held = None if value is None else jaxapi.ref_content(value)
        return f"jax.new_ref({_leaf(held, aval.inner_aval, lifter, is_exact)})"
    is_hidden = lifter.options.anonymous and not is_exact
    if value is not None and jaxapi.is_python_scalar(value):
        # A number of the user's is one of the same type.
        return lifter.spell(type(value)(1) if is_hidden else value)
    if value is not None and jaxapi.is_concrete(value) and is_exact:
        return _exact(value, lifter)
    if value is not None and jaxapi.is_concrete(value) and not is_hidden:
        text = written_out(value, imports)
        if text is not None:
            return text
    if getattr(aval, "weak_type", False) and aval.shape == ():
        return spell_scalar(np.ones((), aval.dtype), aval, imports)
    return with_weak_type(_drawn(value, aval, lifter), aval, imports)


@optional(gives(None))
def written_out(value: Any, imports: Imports) -> str | None:
    """Write an array exactly if it has a pattern or few elements."""
    limit = EXAMPLE_LIMIT
    if jaxapi.is_key_array(value) and np.size(value) > limit:
        return None  # keys are split from one
    text = spell_typed_array(value, imports, inline_limit=limit)
    limit = LONG_ROW if np.ndim(value) == 1 else LONG
    is_long = text is not None and np.size(value) > N_ALWAYS and len(text) > limit
    return None if is_long else text


def _exact(value: Any, lifter: Lifter) -> str:
    text = spell_typed_array(value, lifter.imports, inline_limit=INLINE_LIMIT)
    return text or lifter.constants.name(value)


def _drawn(value: Any, aval: Any, lifter: Lifter, named: tuple[Any, ...] = ()) -> str:
    """Write an expression that draws an array of the right type.

    `named` is its shape, if sizes in it have names.
    """
    imports = lifter.imports
    if jaxapi.is_key(aval):
        imports.module("jax")
        impl = jaxapi.key_impl_name(aval)
        count = int(np.prod(aval.shape))
        is_default = impl == jaxapi.default_key_impl()
        option = "" if is_default else f", impl={quote(impl)}"
        text = f"jax.random.key(0{option})"
        if aval.shape:
            text = f"jax.random.split({text}, {count})"
        if len(aval.shape) > 1:
            text += f".reshape({lifter.spell(tuple(aval.shape))})"
        return text
    held = (
        np.asarray(value) if value is not None and jaxapi.is_concrete(value) else None
    )
    return draw(held, named or tuple(aval.shape), aval, lifter)
