"""What only kernels contain: program ids, masked accesses, asynchronous copies."""

from __future__ import annotations

from untrace import jaxapi
from untrace.ir import Equation
from untrace.lifting.blocks.state import pallas, statement, view_of
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame
from untrace.lifting.printing import Rhs


@control("program_id", "num_programs")
def program_id(eqn: Equation, frame: Frame) -> Rhs:
    """Write `pl.program_id(axis)`."""
    return Rhs(f"{pallas(frame)}.{eqn.name}({eqn.params['axis']})")


@control("multiple_of")
def multiple_of(eqn: Equation, frame: Frame) -> Rhs:
    """Write `pl.multiple_of(x, values)`."""
    values = eqn.params["values"]
    given = frame.lifter.spell(values[0] if len(values) == 1 else values)
    return Rhs(f"{pallas(frame)}.multiple_of({frame.text(eqn.operands[0])}, {given})")


@control("masked_load")
def masked_load(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `load(ref.at[index], mask=...)`."""
    params = eqn.params
    ref, transforms, mask, other = jaxapi.unflatten_operands(
        params["args_tree"], eqn.operands
    )
    view = view_of(ref, transforms, frame)
    if view is None:
        return None
    options = {"mask": mask, "other": other}
    keywords = [f"{k}={frame.text(v)}" for k, v in options.items() if v is not None]
    for key, name in (
        ("cache_modifier", "cache_modifier"),
        ("eviction_policy", "eviction_policy"),
        ("is_volatile", "volatile"),
    ):
        if params.get(key):
            keywords.append(f"{name}={frame.lifter.spell(params[key])}")
    name = frame.lifter.imports.attribute("jax.experimental.pallas", "triton", "plgpu")
    return Rhs(f"{name}.load({', '.join([view, *keywords])})")


@control("masked_swap")
def masked_swap(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `store(ref.at[index], x, mask=...)`; decline if the old value is used."""
    params = eqn.params
    ref, transforms, value, mask = jaxapi.unflatten_operands(
        params["args_tree"], eqn.operands
    )
    view = view_of(ref, transforms, frame)
    if view is None or frame.uses(eqn.results[0]):
        return None
    parts = [view, frame.text(value)]
    if mask is not None:
        parts.append(f"mask={frame.text(mask)}")
    if params.get("eviction_policy"):
        parts.append(f"eviction_policy={frame.lifter.spell(params['eviction_policy'])}")
    name = frame.lifter.imports.attribute("jax.experimental.pallas", "triton", "plgpu")
    return statement(f"{name}.store({', '.join(parts)})")


@control("dma_start", "dma_wait")
def copy(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `pltpu.make_async_copy(source, target, semaphore).start()`."""
    params = {
        k: v for k, v in eqn.params.items() if k not in ("tree", "device_id_type")
    }
    parts = jaxapi.unflatten_operands(eqn.params["tree"], eqn.operands)
    if any(params.values()) or len(parts) != 5 or parts[3:] != (None, None):
        return None
    views = [
        view_of(getattr(p, "ref", p), getattr(p, "transforms", ()), frame)
        for p in parts[:3]
    ]
    if None in views:
        return None
    tpu = frame.lifter.imports.attribute("jax.experimental.pallas", "tpu", "pltpu")
    args = ", ".join(view for view in views if view)
    return statement(f"{tpu}.make_async_copy({args}).{eqn.name.removeprefix('dma_')}()")
