# Scopes of symbolic dimensions keep their constraints private.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false
"""Computations that `jax.export` has lowered, and the calls of them in jaxprs."""

from __future__ import annotations

import hashlib
from typing import Any

import jax.export
from jax._src import core as _core
from jax._src.interpreters import mlir as _mlir
from jax._src.lib.mlir import ir as _ir

from untrace.jaxapi.jaxprs import split_jaxpr
from untrace.jaxapi.params import SymbolicDim

Exported: type[Any] = jax.export.Exported
SymbolicScope: type[Any] = jax.export.SymbolicScope


def exported_digest(exported: Any) -> str:
    """Digest the module of an `Exported` but for where its operations came from."""
    with _mlir.make_ir_context():
        module = _ir.Module.parse(exported.mlir_module())
        text = str(module.operation.get_asm(enable_debug_info=False))
    return hashlib.sha256(text.encode()).hexdigest()


def linear_in(size: Any, name: str) -> tuple[Any, Any] | None:
    """Return `c` and `r` where a symbolic size is `c * name + r`; None if there are none."""
    variables = {
        one: jax.export.symbolic_shape(one, scope=size.scope)[0]
        for one in size.get_vars()
    }
    try:
        rest, both = (size._evaluate({**variables, name: one}) for one in (0, 1))
    except ZeroDivisionError:
        return None
    factor = both - rest
    if factor * variables[name] + rest != size:
        return None
    return _plain(factor), _plain(rest)


def _plain(size: Any) -> Any:
    return size if isinstance(size, SymbolicDim) else int(size)


def exported_dimensions(exported: Any) -> tuple[Any, list[str], list[str]] | None:
    """Return the scope of an `Exported`'s symbolic dimensions, their names, constraints.

    None if its types have no symbolic dimensions.
    """
    sizes = [size for aval in exported.in_avals for size in aval.shape]
    symbolic = [size for size in sizes if isinstance(size, SymbolicDim)]
    if not symbolic:
        return None
    scope = symbolic[0].scope
    names = sorted({name for size in symbolic for name in size._get_vars()})
    return scope, names, scope_constraints(scope)


def scope_constraints(scope: Any) -> list[str]:
    """Return the constraints on the symbolic dimensions of a scope, as they were given."""
    return [constraint.debug_str for constraint in scope._explicit_constraints]


def exported_call(call_jaxpr: Any, bwd: Any) -> Any:
    """Return what a `custom_vjp_call` calls, if that is an `Exported` with JAX's rules."""
    body, _ = split_jaxpr(call_jaxpr)
    if [eqn.primitive.name for eqn in body.eqns] != ["call_exported"]:
        return None
    (eqn,) = body.eqns
    is_whole = [*eqn.invars] == [*body.invars] and [*eqn.outvars] == [*body.outvars]
    debug = getattr(bwd, "debug_info", None)
    is_jax_rule = debug is not None and debug.func_name == "f_flat_vjp_bwd"
    return eqn.params["exported"] if is_whole and is_jax_rule else None


def is_symbolic(size: Any) -> bool:
    """Whether a size is a symbolic dimension."""
    return isinstance(size, SymbolicDim)


def dimension_as_value(size: Any) -> Any:
    """Return a symbolic dimension as an array."""
    return _core.dimension_as_value(size)


InconclusiveError: type[Exception] = _core.InconclusiveDimensionOperation
"""Raised by comparisons of sizes that some sizes answer in one way and some in another."""
largest_size = _core.max_dim
smallest_size = _core.min_dim
