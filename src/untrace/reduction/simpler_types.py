"""The same program in other dtypes: inputs, params and literals are cast.

Everything that has one dtype gets another; complex numbers follow the floats they
consist of. Bits are never read as a number of another width: where a program does so,
it does it in the old dtype and casts the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Literal, Value, all_blocks
from untrace.jaxapi import evaluation
from untrace.reduction.edits import Edits, Rewriting
from untrace.reduction.program import Program

DTypes = Mapping[Any, Any]

_COMPLEX = {"float32": "complex64", "float64": "complex128"}
_WIDE = {"float64": "float32", "int64": "int32", "uint64": "uint32"}
_NARROW_FLOATS = ("bfloat16", "float16")
_NARROW_INTEGERS = {
    "int16": "int32",
    "int8": "int32",
    "int4": "int32",
    "uint16": "uint32",
    "uint8": "uint32",
    "uint4": "uint32",
    "uint32": "int32",
}


def dtype_changes(program: Program) -> Iterator[dict[Any, Any]]:
    """Propose ordinary dtypes for those of a program.

    Yields:
      Mappings for `retyped`: wide numbers and narrow floats all at once, then each.
    """
    single = dict(_singles(_dtypes(program.block)))
    plain = {
        old: new for old, new in single.items() if str(old) not in _NARROW_INTEGERS
    }
    if len(plain) > 1:
        yield plain
    for old, new in single.items():
        yield {old: new}


def _singles(dtypes: set[Any]) -> Iterator[tuple[Any, Any]]:
    found = {str(dtype): dtype for dtype in dtypes}
    small = [name for name in sorted(found) if name.startswith("float8")]
    changes = {
        **_WIDE,
        **dict.fromkeys([*_NARROW_FLOATS, *small], "float32"),
        **_NARROW_INTEGERS,
    }
    if "float64" not in found and "complex128" in found:
        changes["complex128"] = "complex64"
    for old, new in changes.items():
        if old in found:
            yield found[old], np.dtype(new)


def _dtypes(block: Block) -> set[Any]:
    atoms: list[Atom] = []
    for found in all_blocks(block):
        atoms += found.inputs
        for eqn in found.equations:
            atoms += eqn.operands
            atoms += [result for result in eqn.results if result is not None]
    return {dtype for atom in atoms if (dtype := _dtype(atom)) is not None}


def _dtype(atom: Atom) -> Any:
    return getattr(atom.aval, "dtype", None)


def retyped(program: Program, mapping: Mapping[Any, Any]) -> Edits | None:
    """Give a whole program other dtypes.

    Args:
      mapping: New dtypes by old ones.

    Returns:
      The edits, or None if the program has none of the old dtypes.
    """
    dtypes = _closed(mapping)
    if not _dtypes(program.block) & set(dtypes):
        return None
    inputs = {
        value: partial(_cast, dtypes=dtypes)
        for value in program.block.inputs
        if _dtype(value) in dtypes
    }
    params: dict[Equation, Mapping[str, Any]] = {}
    replaced: dict[Value, Atom] = {}
    rewritten: dict[Equation, Rewriting] = {}
    literals: dict[Literal, Any] = {}
    constants: dict[Value, Any] = {}
    for block in all_blocks(program.block):
        literals |= _literals(block, dtypes)
        constants |= {
            value: _cast(held, dtypes)
            for value, held in block.constants
            if held is not None and _dtype(value) in dtypes
        }
        for eqn in block.equations:
            if _is_idle(eqn, dtypes):
                replaced |= {r: eqn.operands[0] for r in eqn.results if r is not None}
            elif _reads_bits(eqn, dtypes):
                rewritten[eqn] = _reading_bits(eqn, dtypes)
            elif changed := _params(eqn, dtypes):
                params[eqn] = changed
    return Edits(
        inputs=inputs,
        params=params,
        replaced=replaced,
        rewritten=rewritten,
        literals=literals,
        constants=constants,
    )


def _closed(mapping: Mapping[Any, Any]) -> dict[Any, Any]:
    """Let complex dtypes follow those of their parts."""
    dtypes = {np.dtype(old): np.dtype(new) for old, new in mapping.items()}
    for old, new in mapping.items():
        pair = _COMPLEX.get(str(np.dtype(old))), _COMPLEX.get(str(np.dtype(new)))
        if None not in pair:
            dtypes.setdefault(np.dtype(pair[0]), np.dtype(pair[1]))
    return dtypes


def _cast(value: Any, dtypes: DTypes) -> Any:
    array = np.asarray(value)
    with np.errstate(over="ignore", invalid="ignore"):  # it may not fit
        return array.astype(dtypes.get(array.dtype, array.dtype))


def _literals(block: Block, dtypes: DTypes) -> dict[Literal, Any]:
    atoms = [*block.outputs, *(a for eqn in block.equations for a in eqn.operands)]
    return {
        atom: np.asarray(atom.value).astype(dtypes[_dtype(atom)])[()]
        for atom in atoms
        if isinstance(atom, Literal) and _dtype(atom) in dtypes
    }


def _params(eqn: Equation, dtypes: DTypes) -> dict[str, Any]:
    """Return the params that name a dtype, or compute with scalars of one."""
    made: dict[str, Any] = {}
    for name, param in eqn.params.items():
        if isinstance(param, np.dtype) and param in dtypes:
            made[name] = dtypes[param]
        elif name in SCALAR_PROGRAMS.get(eqn.name, ()) and isinstance(param, Block):
            made[name] = _scalar_program(param, dtypes)
    return made


def _is_idle(eqn: Equation, dtypes: DTypes) -> bool:
    """Whether a cast would be to the dtype its operand has by now."""
    if eqn.name != "convert_element_type" or eqn.params["sharding"] is not None:
        return False
    before, after = _dtype(eqn.operands[0]), eqn.params["new_dtype"]
    is_changed = before in dtypes or after in dtypes
    return is_changed and dtypes.get(before, before) == dtypes.get(after, after)


def _reads_bits(eqn: Equation, dtypes: DTypes) -> bool:
    """Whether bits would be read as a number of another width."""
    if eqn.name != "bitcast_convert_type":
        return False
    before, after = _dtype(eqn.operands[0]), eqn.params["new_dtype"]
    return before in dtypes or after in dtypes


def _reading_bits(eqn: Equation, dtypes: DTypes) -> Rewriting:
    """Read bits in the old dtypes, and cast what goes in and what comes out."""
    before, after = _dtype(eqn.operands[0]), eqn.params["new_dtype"]

    def function(operands: list[Any]) -> list[Any]:
        bits = lax.convert_element_type(operands[0], before)
        found = lax.bitcast_convert_type(bits, after)
        return [lax.convert_element_type(found, dtypes.get(after, after))]

    return function


def _scalar_program(block: Block, dtypes: DTypes) -> Any:
    """Trace what a reduction or a scatter does to two scalars in the new dtypes."""
    literals = _literals(block, dtypes)

    def flat(*arguments: Any) -> list[Any]:
        env: dict[Value, Any] = dict(zip(block.inputs, arguments))

        def read(atom: Atom) -> Any:
            if isinstance(atom, Literal):
                return literals.get(atom, atom.value)
            return env[atom]

        for eqn in block.equations:
            params = {**eqn.params, **_params(eqn, dtypes)}
            found = evaluation.bind(eqn, params, [read(a) for a in eqn.operands])
            for result, value in zip(eqn.results, found):
                if result is not None:
                    env[result] = value
        return [read(atom) for atom in block.outputs]

    avals = [
        jax.ShapeDtypeStruct((), dtypes.get(_dtype(v), _dtype(v))) for v in block.inputs
    ]
    traced = jax.make_jaxpr(flat)(*avals)
    return traced if block.is_closed else jaxapi.split_jaxpr(traced)[0]


_SCATTERS = (
    "scatter",
    *(f"scatter-{kind}" for kind in ["add", "max", "min", "mul", "sub"]),
)
SCALAR_PROGRAMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(_SCATTERS, ("update_jaxpr",)),
    "reduce": ("jaxpr",),
    "reduce_window": ("jaxpr",),
}
