"""Tracing functions at given avals, and the settings that tracing depends on.

The same calls serve all supported JAX releases.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Generator, Sequence
from typing import Any

import jax
import jaxlib.version
from jax._src import api_util as _api_util
from jax._src import config as _config
from jax._src import core as _core
from jax._src import linear_util as _lu
from jax._src.interpreters import partial_eval as _pe

from untrace.jaxapi.jaxprs import close_jaxpr, split_jaxpr
from untrace.jaxapi.sharding import is_unspecified


def trace_flat(
    function: Callable[..., Sequence[Any]],
    avals: Sequence[Any],
    name: str = "untraced",
    arg_names: Sequence[str] | None = None,
    debug_info: Any = None,
) -> Any:
    """Trace a function of flat arguments at exactly the given avals.

    Unlike `jax.make_jaxpr` this takes any aval: weak types, refs, tokens, key arrays,
    avals typed by a mesh. The jaxpr calls itself and its inputs by the names given, or
    says what `debug_info` does.
    """
    debug = debug_info
    if debug is None:
        debug = _api_util.debug_info("untrace", function, tuple(avals), {})
        names = None if arg_names is None else tuple(arg_names)
        # Where our own function stands is nobody's business: errors of JAX would say it.
        debug = debug._replace(func_src_info=name, arg_names=names)
    wrapped = _lu.wrap_init(function, debug_info=debug)
    jaxpr, _, consts = _pe.trace_to_jaxpr_dynamic(wrapped, list(avals))
    return close_jaxpr(jaxpr, consts)


def trace_named(
    function: Callable[..., Sequence[Any]],
    avals: Sequence[Any],
    name: str,
    argument_paths: Sequence[str],
    result_paths: Sequence[str],
) -> Any:
    """Trace a function of flat arguments whose inputs and outputs have known paths."""
    paths = tuple(argument_paths), tuple(result_paths)
    debug = _core.DebugInfo("untrace", name, *paths)
    shaped = [_core.ShapedArray(aval.shape, aval.dtype) for aval in avals]
    body, consts = split_jaxpr(trace_flat(function, shaped, name, debug_info=debug))
    return close_jaxpr(body.replace(debug_info=debug), consts)


def unclamped_switch(
    index: Any, branches: Sequence[Callable[..., Any]], operands: Sequence[Any]
) -> Any:
    """Bind what `jax.lax.switch` makes, without clamping the index."""

    def switched(index: Any, *args: Any) -> Any:
        return jax.lax.switch(index, branches, *args)

    avals = [_core.ShapedArray((), index.dtype), *map(_core.typeof, operands)]
    body, consts = split_jaxpr(trace_flat(switched, avals))
    (eqn,) = (eqn for eqn in body.eqns if eqn.primitive is jax.lax.cond_p)
    known = dict(zip(body.invars, [index, *operands]))
    known.update(zip(body.constvars, consts))
    given = [v.val if hasattr(v, "val") else known[v] for v in eqn.invars[1:]]
    made = dict(zip(eqn.outvars, jax.lax.cond_p.bind(index, *given, **eqn.params)))
    return [
        v.val if hasattr(v, "val") else made[v] if v in made else known[v]
        for v in body.outvars
    ]


def trace_computation(computation: Callable[..., Any], jaxpr: Any) -> Any:
    """Trace the computation of a `reduce` at the types of the jaxpr beside it.

    Over several operands it takes two tuples, or after a transformation all values.
    """
    avals = [var.aval for var in split_jaxpr(jaxpr)[0].invars]
    n = len(avals) // 2

    def grouped(*args: Any) -> list[Any]:
        return jax.tree.leaves(computation(args[:n], args[n:]))

    def flat(*args: Any) -> list[Any]:
        return jax.tree.leaves(computation(*args))

    if n == 1:
        return trace_flat(flat, avals, "computation")
    try:
        return trace_flat(grouped, avals, "computation")
    except TypeError:
        return trace_flat(flat, avals, "computation")


def is_traced(value: Any) -> bool:
    """Whether a value is a `jax.stages.Traced`."""
    return isinstance(value, jax.stages.Traced)


def told_to_jit(traced: Any) -> list[str]:
    """What `jax.jit` was told of a traced function and its jaxpr does not hold."""
    params = getattr(traced, "_params", None) or {}
    shardings = [*params.get("in_shardings", ()), *params.get("out_shardings", ())]
    layouts = [*params.get("in_layouts", ()), *params.get("out_layouts", ())]
    told = {
        "donated arguments": any(params.get("donated_invars", ())),
        "shardings": not all(map(is_unspecified, shardings)),
        "layouts": any(layout is not None for layout in layouts),
        "compiler options": bool(params.get("compiler_options_kvs")),
        "keep_unused": bool(params.get("keep_unused")),
    }
    return [what for what, is_told in told.items() if is_told]


def _is_jitted(function: Any) -> bool:
    return type(function).__name__ == "PjitFunction"


def static_arguments(function: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the positions and names that a jitted function treats as static."""
    # Wrappers such as that of `jax.vmap` take over all attributes of what they wrap.
    jitted = getattr(function, "__func__", function)
    known = getattr(function, "_jit_info", None) if _is_jitted(jitted) else None
    numbers = getattr(known, "static_argnums", None) or ()
    if isinstance(function, types.MethodType):  # the first one is `self`
        numbers = [n - 1 if n > 0 else n for n in numbers if n != 0]
    return tuple(numbers), tuple(getattr(known, "static_argnames", None) or ())


def is_wide() -> bool:
    """Whether this thread computes in 64 bits."""
    return bool(_config.enable_x64.value)


@contextlib.contextmanager
def wide_enough(jaxpr: Any) -> Generator[None, None, None]:
    """Compute in 64 bits if a jaxpr does and this thread does not."""
    body, _ = split_jaxpr(jaxpr)
    atoms = [*body.invars, *body.outvars, *(v for e in body.eqns for v in e.outvars)]
    wide = any(str(getattr(a.aval, "dtype", "")) in _WIDE for a in atoms)
    with jax.enable_x64(wide or is_wide()):
        yield


_WIDE = ("float64", "int64", "uint64", "complex128")


def global_x64() -> bool:
    """Return the process-wide setting of 64-bit types."""
    return bool(_config.enable_x64.get_global())


def jax_version() -> str:
    """Return the version of the installed JAX."""
    return jax.__version__


def jaxlib_version() -> str:
    """Return the version of the installed jaxlib."""
    return jaxlib.version.__version__
