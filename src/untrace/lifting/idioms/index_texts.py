"""Texts of static indices: what slices, dropped axes and new axes say in brackets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from untrace.ir import Equation, Literal
from untrace.lifting.idioms.regions import Region
from untrace.lifting.idioms.table import Domain


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis of the result so far: where it is cut from, or a new one (size 0)."""

    size: int
    start: int = 0
    stop: int = 0
    step: int = 1
    is_dropped: bool = False


def _static_index(region: Region) -> Iterator[str]:
    if len(region.inputs) != 1 or not hasattr(region.inputs[0].aval, "shape"):
        return
    axes = [_Axis(int(size), 0, int(size)) for size in region.inputs[0].aval.shape]
    for eqn in region.flat():
        found = _apply(axes, eqn)
        if found is None:
            return
        axes = found
    texts = [_axis_text(axis) for axis in axes]
    whole = ", ".join(texts)
    while texts and texts[-1] == ":":
        texts.pop()
    if texts:
        yield ", ".join(texts)
    n = next((i for i, text in enumerate(texts) if text != ":"), 0)
    if n > 1:
        rest = whole.split(", ")[n:]
        yield ", ".join(["...", *rest])


def _apply(axes: list[_Axis], eqn: Equation) -> list[_Axis] | None:
    """Follow one equation; None if no index does this."""
    shown = [i for i, axis in enumerate(axes) if not axis.is_dropped]
    made = list(axes)
    params = eqn.params
    if eqn.name == "slice":
        strides = params["strides"] or (1,) * len(shown)
        cuts = zip(shown, params["start_indices"], params["limit_indices"], strides)
        for i, start, stop, step in cuts:
            axis = made[i]
            if axis.step != 1 or axis.size == 0:
                return None
            first = axis.start + int(start)
            last = axis.start + int(stop)
            made[i] = replace(axis, start=first, stop=last, step=int(step))
        return made
    if eqn.name == "squeeze":
        for i in params["dimensions"]:
            made[shown[int(i)]] = replace(made[shown[int(i)]], is_dropped=True)
        return made
    if eqn.name in ("broadcast_in_dim", "reshape"):
        return _expanded(axes, eqn)
    return None


def _expanded(axes: list[_Axis], eqn: Equation) -> list[_Axis] | None:
    """Follow an equation that only adds axes of size 1."""
    old: list[Any] = [int(size) for size in eqn.operands[0].aval.shape]
    new = [int(size) for size in eqn.result_avals[0].shape]
    dims: Any = eqn.params.get("broadcast_dimensions")
    if dims is None:
        dims = _kept(old, new)
    kept = None if dims is None else [int(i) for i in dims]
    if kept is None or [new[i] for i in kept] != old:
        return None
    if any(size != 1 for i, size in enumerate(new) if i not in kept):
        return None
    made: list[_Axis] = []
    rest = list(axes)
    for i in range(len(new)):
        if i not in kept:
            made.append(_Axis(0))
            continue
        while rest[0].is_dropped:
            made.append(rest.pop(0))
        made.append(rest.pop(0))
    return [*made, *rest]


def _kept(old: list[int], new: list[int]) -> list[int] | None:
    """Tell which axes of a reshaped array are old ones, if others are of size 1."""
    kept: list[int] = []
    at = 0
    for i, size in enumerate(new):
        if at < len(old) and size == old[at]:
            kept.append(i)
            at += 1
    return kept if at == len(old) else None


def _axis_text(axis: _Axis) -> str:
    if axis.size == 0:
        return "None"
    if axis.is_dropped:
        is_last = axis.start == axis.size - 1 and axis.size > 2
        return "-1" if is_last else str(axis.start)
    start = str(axis.start) if axis.start else ""
    if axis.stop == axis.size:
        stop = ""
    else:
        stop = "-1" if axis.stop == axis.size - 1 and axis.size > 2 else str(axis.stop)
    step = f":{axis.step}" if axis.step != 1 else ""
    return f"{start}:{stop}{step}"


def _updated_index(region: Region) -> Iterator[str]:
    """List the static index that a scatter writes to."""
    scatter = next((e for e in region.flat() if e.name.startswith("scatter")), None)
    if scatter is None:
        return
    numbers = scatter.params["dimension_numbers"]
    axes = [int(axis) for axis in numbers.scatter_dims_to_operand_dims]
    starts = dict(zip(axes, _integers(region)))
    if len(starts) < len(axes) or numbers.operand_batching_dims:
        return
    dropped = {int(axis) for axis in numbers.inserted_window_dims}
    shape = scatter.operands[2].aval.shape
    windows = iter([int(shape[int(i)]) for i in numbers.update_window_dims])
    found: list[_Axis] = []
    for i, size in enumerate(scatter.operands[0].aval.shape):
        start = starts.get(i, 0)
        length = 1 if i in dropped else next(windows)
        found.append(_Axis(int(size), start, start + length, is_dropped=i in dropped))
    texts = [_axis_text(axis) for axis in found]
    while texts and texts[-1] == ":":
        texts.pop()
    yield ", ".join(texts) or "..."


def _integers(region: Region) -> list[int]:
    """List the integers that stand in a region, in order."""
    atoms = [atom for eqn in region.flat() for atom in eqn.operands]
    return [
        int(atom.value)
        for atom in atoms
        if isinstance(atom, Literal) and atom.aval.dtype.kind == "i"
    ]


UPDATED_INDEX = Domain(_updated_index, "0")
STATIC_INDEX = Domain(_static_index, "0")
