"""Make the equations of `pallas_call` whose blocks are whole arrays.

JAX prints the grid and the shapes of blocks, and not the functions that say which block of
an operand each place of the grid has. Where a block is all of its operand there is only one,
so that nothing is left open; any other kernel is an error that names the block.
"""

from __future__ import annotations

import importlib
from typing import Any

import jax

from untrace.jaxapi import printed
from untrace.readers.jaxprs.bodies import resolved
from untrace.readers.jaxprs.making import Making
from untrace.readers.jaxprs.syntax import Call, Equation

_SAID = ("compiler_params", "cost_estimate", "metadata", "mesh", "backend")
_ADVICE = (
    "Recover the source of the function itself, or of its traced jaxpr: "
    "`untrace.source(f)(...)`."
)


def made(eqn: Equation, inputs: list[Any], builder: Making) -> tuple[Any, ...]:
    """Return the primitive, params, types of results and effects of an equation.

    Raises:
      ParseError: If the text does not hold all of it, or it is not possible.
    """
    for name in _SAID:
        if eqn.params.get(name) not in (None, (), {}, frozenset()):
            builder.fail(
                f"what `{name}` of `pallas_call` is, is not printed",
                getattr(eqn.params[name], "at", eqn.at),
                _ADVICE,
            )
    results = [builder.type(binder.type, binder.at) for binder in eqn.binders]
    avals = [*(atom.aval for atom in inputs), *results]
    grid, n_axes = _grid(eqn, [aval.shape for aval in avals], builder)
    block = resolved(eqn.params.get("jaxpr"), dict(builder.shared))
    if block is None or len(block.invars) != len(avals):
        builder.fail(
            "this kernel has operands besides its blocks (scratch memory, or scalars "
            "that come before), which the text does not tell apart",
            eqn.at,
            _ADVICE,
        )
    try:
        traced = _traced(eqn, grid, n_axes, inputs, results)
    except Exception as error:  # Pallas refuses in its own ways
        said = " ".join(str(error).split())[:200]
        builder.fail(f"this `pallas_call` is refused by JAX: {said}", eqn.at)
    kinds = [var.aval for var in traced.params["jaxpr"].invars]
    params = {**traced.params, "jaxpr": builder.block(block, kinds, ())}
    effects = printed.infer(traced.primitive, avals[: len(inputs)], params)[1]
    return traced.primitive, params, [var.aval for var in traced.outvars], effects


def _grid(
    eqn: Equation, shapes: list[tuple[Any, ...]], builder: Making
) -> tuple[tuple[int, ...], list[int]]:
    """Return the grid, and how many axes each block has.

    Raises:
      ParseError: If a block is not all of its array.
    """
    given = eqn.params.get("grid_mapping")
    if not isinstance(given, Call) or given.name != "GridMapping":
        builder.fail("the grid of this `pallas_call` is not printed", eqn.at, _ADVICE)
    grid = given.kwargs.get("grid")
    blocks = given.kwargs.get("block_mappings")
    blocks = blocks if isinstance(blocks, tuple) else (blocks,)  # one has no comma
    if not isinstance(grid, tuple) or not all(type(size) is int for size in grid):
        builder.fail("this grid of `pallas_call` is not understood", given.at, _ADVICE)
    if len(blocks) != len(shapes):
        builder.fail(
            f"`pallas_call` has {len(blocks)} blocks for {len(shapes)} operands and "
            "results",
            given.at,
            _ADVICE,
        )
    for position, (block, shape) in enumerate(zip(blocks, shapes)):
        if _block_shape(block) != shape:
            builder.fail(
                f"which part of its array each place of the grid has, in block "
                f"{position} of `pallas_call`, is not printed",
                getattr(block, "at", given.at),
                f"Index maps are functions. {_ADVICE}",
            )
    return grid, [len(shape) for shape in shapes]


def _block_shape(block: Any) -> Any:
    """Return the shape of a block that keeps all axes; None of any other."""
    if not isinstance(block, Call) or {*block.kwargs} != {"block_shape"}:
        return None
    axes = block.kwargs["block_shape"]
    axes = axes if isinstance(axes, tuple) else (axes,)
    if not all(isinstance(one, Call) and one.name == "Blocked" for one in axes):
        return None
    return tuple(one.kwargs.get("block_size") for one in axes)


def _traced(
    eqn: Equation,
    grid: tuple[int, ...],
    n_axes: list[int],
    inputs: list[Any],
    results: list[Any],
) -> Any:
    """Return the equation of a kernel that does nothing, with the same blocks."""
    pallas: Any = importlib.import_module("jax.experimental.pallas")
    avals = [*(atom.aval for atom in inputs), *results]

    def whole(aval: Any, n: int) -> Any:
        return pallas.BlockSpec(aval.shape, lambda *_: (0,) * n)

    specs = [whole(aval, n) for aval, n in zip(avals, n_axes)]
    name = eqn.params.get("name")
    called = pallas.pallas_call(
        lambda *_: None,
        [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in results],
        grid=grid,
        in_specs=specs[: len(inputs)],
        out_specs=specs[len(inputs) :],
        input_output_aliases=dict(eqn.params.get("input_output_aliases") or ()),
        interpret=eqn.params.get("interpret") is True,
        debug=eqn.params.get("debug") is True,
        name=None if name in (None, "None") else str(name),
    )
    given = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals[: len(inputs)]]
    (traced,) = [
        one
        for one in jax.make_jaxpr(called)(*given).eqns
        if one.primitive.name == "pallas_call"
    ]
    return traced
