"""Example inputs of a generated module: `example_args()`.

Small arrays that the user passed are written exactly. Larger or abstract ones are drawn
from a fixed seed with the same shape and dtype; integers stay in the range of the
values that were passed, so that labels and indices remain valid. Where the program is
asked to have exactly its inputs (a reproducer), large ones go to the sidecar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.capture import Captured, Tree
from untrace.ir import Block
from untrace.lifting.dimensions import EXAMPLE_SIZE, mentions
from untrace.lifting.lifter import Lifter
from untrace.lifting.sizes import Size
from untrace.lifting.spelling import spell_aval_struct, spell_dtype
from untrace.lifting.spelling.arrays import spell_scalar
from untrace.lifting.spelling.jax_arrays import spell_typed_array, with_weak_type

EXAMPLE_LIMIT = 16


def example_lines(
    captured: Captured,
    block: Block,
    lifter: Lifter,
    construct: Callable[[Tree, list[str]], str],
) -> list[str]:
    """Write the body of `example_args`, which returns positional and keyword arguments."""
    texts: list[str] = []
    shapes = captured.dimensions.shapes if captured.dimensions else ()
    for position, (value, variable) in enumerate(zip(captured.values, block.inputs)):
        shape = shapes[position] if shapes else ()
        if any(isinstance(size, Size) for size in shape):
            text = _drawn(value, variable.aval, lifter, shape)
            text = with_weak_type(text, variable.aval, lifter.imports)
        else:
            text = _leaf(value, variable.aval, lifter, captured.is_exact)
        texts.append(_placed(text, value, variable.aval, lifter))
    names = [parameter.name for parameter in captured.parameters]
    lines = [
        f"{name} = {EXAMPLE_SIZE}"
        for name in lifter.imports.dims.values()
        if mentions(texts, name)
    ]
    if any("rng." in text for text in texts):
        lifter.imports.module("numpy")
        lines.append("rng = np.random.default_rng(0)")
    pairs = zip(names, captured.parameters)
    # An argument that is called like the generator takes its name when all are drawn.
    for name, parameter in sorted(pairs, key=lambda pair: pair[0] == "rng"):
        lines.append(f"{name} = {construct(parameter.tree, texts)}")
    pairs = ", ".join(f"{name}={name}" for name in names)
    return [*lines, f"return dict({pairs})"]


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
    if value is not None and jaxapi.is_python_scalar(value):
        return lifter.spell(value)
    if value is not None and jaxapi.is_concrete(value) and is_exact:
        return _exact(value, lifter)
    if (
        value is not None
        and jaxapi.is_concrete(value)
        and np.size(value) <= EXAMPLE_LIMIT
    ):
        text = spell_typed_array(value, imports, inline_limit=EXAMPLE_LIMIT)
        if text is not None:
            return text
    if getattr(aval, "weak_type", False) and aval.shape == ():
        return spell_scalar(np.ones((), aval.dtype), aval, imports)
    return with_weak_type(_drawn(value, aval, lifter), aval, imports)


def _exact(value: Any, lifter: Lifter) -> str:
    limit = lifter.constants.inline_limit
    text = spell_typed_array(value, lifter.imports, inline_limit=limit)
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
        text = f'jax.random.key(0, impl="{impl}")'
        if aval.shape:
            text = f"jax.random.split({text}, {count}).reshape({aval.shape!r})"
        return text
    shape = lifter.spell(named or tuple(aval.shape))
    dtype = spell_dtype(aval.dtype, imports)
    imports.module("numpy")
    kind = jaxapi.dtype_kind(aval.dtype)
    if kind == "bool":
        return f"rng.integers(0, 2, {shape}).astype(bool)"
    if kind == "float0":
        return f"np.zeros({shape}, {dtype})"
    if kind == "integer":
        low, high = _range(value)
        return f"rng.integers({low}, {high}, {shape}, endpoint=True).astype({dtype})"
    if kind == "complex":
        parts = lifter.spell((*(named or aval.shape), 2))  # real and imaginary
        return f"np.array(rng.normal(size={parts}).view(complex)[..., 0], {dtype})"
    return f"rng.normal(size={shape}).astype({dtype})"


def _range(value: Any) -> tuple[int, int]:
    if value is None or not jaxapi.is_concrete(value) or not np.size(value):
        return 0, 1
    data = np.asarray(value)
    return int(data.min()), int(data.max())
