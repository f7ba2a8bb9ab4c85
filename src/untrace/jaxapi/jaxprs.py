"""Jaxprs and their parts: their classes, taking them apart, making them.

jax 0.11 merged `ClosedJaxpr` into `Jaxpr`; jax 0.10 alone keeps quasi-dynamic data at
the ends of binders; jax 0.12 keeps the sizes of a `scan` as trees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from jax._src import core as _core
from jax._src import effects as _effects
from jax._src.interpreters import partial_eval as _pe

Jaxpr = _core.Jaxpr
ClosedJaxpr: type[Any] = getattr(_core, "ClosedJaxpr", Jaxpr)
JaxprLiteral = _core.Literal
DropVar = _core.DropVar
Primitive = _core.Primitive
Tracer = _core.Tracer
JaxprInputEffect = _effects.JaxprInputEffect
NamedAxisEffect = _core.NamedAxisEffect
# jax 0.11 merged `ClosedJaxpr` into `Jaxpr`: a param then holds one class for both.
JAXPR_TYPES: tuple[type, ...] = (
    (Jaxpr,) if ClosedJaxpr is Jaxpr else (Jaxpr, ClosedJaxpr)
)


def is_jaxpr(value: Any) -> bool:
    """Whether `value` is a jaxpr, closed or open."""
    return isinstance(value, JAXPR_TYPES)


def is_closed(jaxpr: Any) -> bool:
    """Whether a jaxpr stands closed (with its consts) in its place."""
    return ClosedJaxpr is Jaxpr or isinstance(jaxpr, ClosedJaxpr)


def split_jaxpr(jaxpr: Any) -> tuple[Any, list[Any]]:
    """Return the open jaxpr and the values of its constvars (`[]` if unknown)."""
    if ClosedJaxpr is Jaxpr:
        return jaxpr, list(jaxpr.consts)
    if isinstance(jaxpr, ClosedJaxpr):
        return jaxpr.jaxpr, list(jaxpr.consts)
    return jaxpr, []


def sub_jaxprs_of(eqns: Iterable[Any]) -> Iterator[Any]:
    """Yield the jaxprs in the params of equations."""
    for eqn in eqns:
        for param in eqn.params.values():
            items = param if isinstance(param, tuple) else (param,)
            yield from (item for item in items if is_jaxpr(item))


def equations_inside(eqn: Any) -> Iterator[Any]:
    """Yield the equations of the jaxprs in the params of one, and of those inside, once each."""
    waiting, seen = list(sub_jaxprs_of([eqn])), set[int]()
    for jaxpr in waiting:  # which grows
        body, _ = split_jaxpr(jaxpr)
        if id(body) not in seen:
            seen.add(id(body))
            yield from body.eqns
            waiting += sub_jaxprs_of(body.eqns)


def close_jaxpr(jaxpr: Any, consts: Sequence[Any] = ()) -> Any:
    """Attach `consts` to an open jaxpr."""
    return ClosedJaxpr(jaxpr, list(consts))


def new_var(aval: Any) -> Any:
    """Make a new jaxpr variable."""
    return _core.Var(aval)


def new_eqn(invars: list[Any], outvars: list[Any], eqn: Any, params: Any) -> Any:
    """Make a jaxpr equation like `eqn` (an `ir.Equation`) over other variables."""
    return _core.JaxprEqn(
        invars,
        outvars,
        eqn.primitive,
        params,
        eqn.effects,
        eqn.source_info,
        eqn.context,
    )


def new_jaxpr(
    constvars: list[Any],
    consts: list[Any],
    invars: list[Any],
    outvars: list[Any],
    eqns: list[Any],
    block: Any,
) -> Any:
    """Make a jaxpr like `block` (an `ir.Block`) over other variables."""
    # A block that was read from no jaxpr names nothing, which JAX wants to be said.
    debug = block.debug_info or _core.DebugInfo("untrace", "", None, None)
    made = Jaxpr(constvars, invars, outvars, eqns, block.effects, debug)
    has_consts = bool(block.jaxpr.consts) if ClosedJaxpr is Jaxpr else block.is_closed
    return close_jaxpr(made, consts) if has_consts else made


def constvars_as_inputs(jaxpr: Any) -> Any:
    """Turn the constvars of an open jaxpr, whose values are unknown, into inputs."""
    return _pe.convert_constvars_jaxpr(jaxpr) if jaxpr.constvars else jaxpr


def as_function(jaxpr: Any) -> Callable[..., list[Any]]:
    """Return a closed jaxpr as a function of flat arguments."""
    return _core.jaxpr_as_fun(jaxpr)


def var_behind(tracer: Any) -> Any:
    """Return the jaxpr variable a tracer stands for, or None if it has none."""
    var = getattr(tracer, "val", None)
    return var if isinstance(var, _core.Var) else None


def literal_behind(tracer: Any) -> Any:
    """Return the scalar constant that a tracer stands for, or None if it is none."""
    literal = getattr(tracer, "val", None)
    return literal.val if isinstance(literal, _core.Literal) else None


def initial_state(var: Any) -> tuple[Any, Any]:
    """Return the quasi-dynamic data at both ends of a binder (jax 0.10 only)."""
    return getattr(var, "initial_qdd", None), getattr(var, "final_qdd", None)


def scan_sizes(params: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of constants and of carried values of a `scan`.

    jax 0.12 keeps them as trees whose grouping is bookkeeping of its transformations.
    """
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


def inlining(jit_params: Any) -> Any:
    """Return what a `jit` equation asks of inlining, as `jax.jit` takes it.

    None is for what a retrace would inline at once, so that no equation is left.
    """
    inline = jit_params["inline"]
    if not isinstance(inline, bool):  # jax 0.12
        names: dict[str, Any] = {"AUTO": False, "JAX_EARLY": None, "JAX_LATE": True}
        return names.get(inline.name, inline)
    return None if inline else False
