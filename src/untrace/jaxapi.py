"""The one door into JAX's unstable API.

Everything that lives in `jax._src`, `jax.extend` or `jax.interpreters`, and every
difference between the supported JAX releases, is absorbed here. Other modules import
names from this file and never ask for JAX's version.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import numpy as _np
from jax._src import ad_util as _ad_util
from jax._src import api_util as _api_util
from jax._src import config as _config
from jax._src import core as _core
from jax._src import dtypes as _dtypes
from jax._src import effects as _effects
from jax._src import linear_util as _lu
from jax._src import sharding_impls as _sharding_impls
from jax._src import source_info_util as _source_info_util
from jax._src.interpreters import partial_eval as _pe

Jaxpr = _core.Jaxpr
ClosedJaxpr = _core.ClosedJaxpr if hasattr(_core, "ClosedJaxpr") else _core.Jaxpr
JaxprLiteral = _core.Literal
JaxprVar = _core.Var
DropVar = _core.DropVar
JaxprEqn = _core.JaxprEqn
Primitive = _core.Primitive
Tracer = _core.Tracer
AbstractValue = _core.AbstractValue
ShapedArray = _core.ShapedArray

# jax 0.11 merged `ClosedJaxpr` into `Jaxpr`: a param then holds one class for both.
JAXPR_TYPES: tuple[type, ...] = (
    (_core.Jaxpr,) if ClosedJaxpr is _core.Jaxpr else (_core.Jaxpr, _core.ClosedJaxpr)
)


def is_jaxpr(value: Any) -> bool:
    """Tell whether `value` is a jaxpr, closed or open."""
    return isinstance(value, JAXPR_TYPES)


def split_jaxpr(jaxpr: Any) -> tuple[Any, list[Any]]:
    """Return the open jaxpr and the values of its constvars (`[]` if unknown)."""
    if ClosedJaxpr is Jaxpr:
        return jaxpr, list(jaxpr.consts)
    if isinstance(jaxpr, ClosedJaxpr):
        return jaxpr.jaxpr, list(jaxpr.consts)
    return jaxpr, []


def close_jaxpr(jaxpr: Any, consts: Sequence[Any] = ()) -> Any:
    """Attach `consts` to an open jaxpr."""
    return ClosedJaxpr(jaxpr, list(consts))


def trace_flat(
    function: Callable[..., Sequence[Any]], avals: Sequence[Any], name: str = "untraced"
) -> Any:
    """Trace a function of flat arguments at exactly the given avals.

    Unlike `jax.make_jaxpr` this takes any aval: weak types, refs, tokens, key arrays,
    avals typed by a mesh.
    """
    debug = _api_util.debug_info("untrace", function, tuple(avals), {})
    wrapped = _lu.wrap_init(function, debug_info=debug)
    jaxpr, _, consts = _pe.trace_to_jaxpr_dynamic(wrapped, list(avals))
    return close_jaxpr(jaxpr, consts)


@contextlib.contextmanager
def deep_recursion(limit: int = 200_000) -> Iterator[None]:
    """Raise Python's recursion limit: deep nests of sub-programs are legal."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, limit))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def is_closed(jaxpr: Any) -> bool:
    """Tell whether a jaxpr stands closed (with its consts) in its place."""
    return ClosedJaxpr is Jaxpr or isinstance(jaxpr, ClosedJaxpr)


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
    made = Jaxpr(constvars, invars, outvars, eqns, block.effects, block.debug_info)
    has_consts = bool(block.jaxpr.consts) if ClosedJaxpr is Jaxpr else block.is_closed
    return close_jaxpr(made, consts) if has_consts else made


def scan_sizes(params: dict[str, Any], n_operands: int) -> tuple[int, int]:
    """Return the number of constants and of carried values of a `scan`.

    jax 0.12 keeps them as trees whose grouping is bookkeeping of its transformations.
    """
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


def is_plain_aval(aval: Any) -> bool:
    """Tell whether `jax.ShapeDtypeStruct` describes the aval completely."""
    if type(aval) is not ShapedArray:
        return False
    plain = ShapedArray(
        aval.shape, aval.dtype, weak_type=aval.weak_type, sharding=aval.sharding
    )
    return bool(plain == aval)


def has_mesh(aval: Any) -> bool:
    """Tell whether an aval is typed by a mesh."""
    sharding = getattr(aval, "sharding", None)
    return sharding is not None and not sharding.mesh.empty


def mesh_of(aval: Any) -> Any:
    """Return the mesh that types an aval, which may be empty, or None."""
    sharding = getattr(aval, "sharding", None)
    return None if sharding is None else sharding.mesh


def same_aval(one: Any, other: Any) -> bool:
    """Tell whether two avals are equal, weak types and shardings included."""
    return one is other or one == other


def same_type(one: Any, other: Any) -> bool:
    """Tell whether two avals are equal but for weak types, as loops demand."""
    return _core.typematch(one, other)


def is_inlined(jit_params: Any) -> bool:
    """Tell whether a `jit` equation asks to be inlined, which its retrace would do."""
    inline = jit_params["inline"]
    return inline is True or (
        getattr(inline, "name", "AUTO") not in ("AUTO",) and inline is not False
    )


def is_unspecified(sharding: Any) -> bool:
    """Tell whether a sharding was left to the compiler."""
    return isinstance(sharding, _sharding_impls.UnspecifiedValue)


def array_key(array: Any) -> Any:
    """Return a key that is equal for bitwise equal constants of one type."""
    aval = _core.typeof(array)
    if _dtypes.issubdtype(aval.dtype, _dtypes.extended):
        return id(array)
    data = _np.asarray(array)
    return aval, data.tobytes() if data.size <= 1024 else id(array)


def is_traceable(value: Any) -> bool:
    """Tell whether JAX can trace a value as an array argument."""
    if isinstance(value, jax.ShapeDtypeStruct):
        return True
    try:
        _core.typeof(value)
    except TypeError:
        return False
    return True


def constvars_as_inputs(jaxpr: Any) -> Any:
    """Turn the constvars of an open jaxpr, whose values are unknown, into inputs."""
    return _pe.convert_constvars_jaxpr(jaxpr) if jaxpr.constvars else jaxpr


def as_function(jaxpr: Any) -> Callable[..., list[Any]]:
    """Return a closed jaxpr as a function of flat arguments."""
    return _core.jaxpr_as_fun(jaxpr)


def is_python_scalar(value: Any) -> bool:
    """Tell whether a value is a plain Python scalar, which traces weakly typed."""
    return type(value) in (bool, int, float, complex)


def is_concrete(value: Any) -> bool:
    """Tell whether a value is an array whose elements can be read here."""
    return not isinstance(value, (Tracer, jax.ShapeDtypeStruct)) and hasattr(
        value, "dtype"
    )


def is_key(aval: Any) -> bool:
    """Tell whether an aval is one of typed PRNG keys."""
    dtype = getattr(aval, "dtype", None)
    return dtype is not None and _dtypes.issubdtype(dtype, _dtypes.prng_key)


def key_impl_name(aval: Any) -> str:
    """Return the name of the implementation of a key aval, as in `jax.random.key`."""
    return aval.dtype._impl.name


def dtype_kind(dtype: Any) -> str:
    """Sort dtypes by what values they hold."""
    if dtype == _dtypes.float0:
        return "float0"
    for kind, parent in (
        ("bool", _np.bool_),
        ("integer", _np.integer),
        ("complex", _np.complexfloating),
    ):
        if _dtypes.issubdtype(dtype, parent):
            return kind
    return "floating"


def static_arguments(function: Any) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Return the positions and names that a jitted function treats as static."""
    known = getattr(function, "_jit_info", None)
    numbers = getattr(known, "static_argnums", None) or ()
    return tuple(numbers), tuple(getattr(known, "static_argnames", None) or ())


def aval_of(value: Any) -> Any:
    """Return the aval that tracing gives a value."""
    return _core.shaped_abstractify(value)


def short_type(aval: Any) -> str:
    """Write an aval as in a jaxpr: `f32[4,128]`."""
    return str(aval.str_short(short_dtypes=True))


def is_traced(value: Any) -> bool:
    """Tell whether a value is a `jax.stages.Traced`."""
    return isinstance(value, jax.stages.Traced)


def global_x64() -> bool:
    """Return the process-wide setting of 64-bit types."""
    return bool(_config.enable_x64.get_global())


_CONTEXT_FIELDS = [
    name
    for name in _core.JaxprEqnContext.__slots__
    if name not in ("configs", "__weakref__")
]


def ambient_context() -> Any:
    """Return the equation context that tracing would record right now."""
    return _core.current_jaxpr_eqn_context()


def context_fields(context: Any) -> dict[str, Any]:
    """List the fields of an equation context."""
    return {name: getattr(context, name) for name in _CONTEXT_FIELDS}


def ambient_settings() -> list[str]:
    """Write the statements that restore the settings a program was traced under."""
    lines: list[str] = []
    if jax.config.jax_enable_x64:
        lines.append('jax.config.update("jax_enable_x64", True)')
    return lines


def scope_names(source_info: Any) -> list[str]:
    """Return the names of the `jax.named_scope`s around an equation, outermost first.

    Scopes inside transformations (`jvp(...)`, `vmap(...)`) are left out: the equations
    that a transformation made were not traced under them.
    """
    names: list[str] = []
    for element in source_info.name_stack.stack:
        if not isinstance(element, _source_info_util.Scope):
            break
        names.append(element.name)
    return names


def line_in_file(source_info: Any, filename: str) -> int:
    """Return the innermost line of a file in an equation's traceback, or 0."""
    traceback = source_info.traceback
    if traceback is None:
        return 0
    return next((f.line_num for f in traceback.frames if f.file_name == filename), 0)


def user_frame(source_info: Any) -> str:
    """Return "file.py:line" of the user's code behind an equation, or ""."""
    frame = _source_info_util.user_frame(source_info.traceback)
    if frame is None:
        return ""
    return f"{frame.file_name.rpartition('/')[2]}:{frame.start_line}"


def jax_version() -> str:
    """Return the version of the installed JAX."""
    return jax.__version__


# ---- derivative rules --------------------------------------------------------------


def custom_jvp_rule(
    eqn_params: dict[str, Any], n_operands: int
) -> tuple[Any, list[bool]]:
    """Trace the rule of a `custom_jvp_call` with every tangent instantiated.

    Returns:
      The rule as a closed jaxpr over `(*primals, *tangents)` (consts excluded) with
      results `(*primals_out, *nonzero_tangents_out)`, and which output tangents are
      symbolic zeros.
    """
    n = n_operands - eqn_params["num_consts"]
    jaxpr, consts, out_zeros = eqn_params["jvp_jaxpr_fun"].call_wrapped(*[False] * n)
    return close_jaxpr(jaxpr, consts), list(out_zeros)


def has_logs(rules: Any) -> bool:
    """Tell whether a traced backward rule returns logs beside cotangents."""
    return rules.logs is not None and rules.logs.num_leaves > 0


MAX_RULE_DEPTH = 12
MAX_RULE_REPEATS = 2
SMALL_FUNCTION = 12
"""Equations of a function small enough to be followed beyond `MAX_RULE_REPEATS`."""


def follows_rules(names: list[str], name: str, call_jaxpr: Any) -> bool:
    """Tell whether the rules of `name`, met inside those of `names`, are traced.

    A rule that makes new functions with rules (a fixed point by a fixed point) can be
    traced without end, each time of a larger function; it is followed twice.
    """
    if len(names) >= MAX_RULE_DEPTH:
        return False
    return names.count(name) < MAX_RULE_REPEATS or _has_few_equations(call_jaxpr)


def _has_few_equations(jaxpr: Any) -> bool:
    stack, count = [jaxpr], 0
    while stack and count <= SMALL_FUNCTION:
        body, _ = split_jaxpr(stack.pop())
        count += len(body.eqns)
        for eqn in body.eqns:
            for param in eqn.params.values():
                items = param if type(param) is tuple else (param,)
                stack += [item for item in items if is_jaxpr(item)]
    return count <= SMALL_FUNCTION


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


def is_value_box(value: Any) -> bool:
    """Tell whether `value` is JAX's wrapper around a static argument of a rule."""
    return type(value).__module__ == "jax._src.util" and hasattr(value, "val")


def boxed_value(box: Any) -> Any:
    """Return what is in a value box, with dictionaries as tuples of items."""
    # Other dictionaries around rules are caches, which fill while they are traced.
    return tuple(box.val.items()) if isinstance(box.val, dict) else box.val


def rule_identity(function: Any, depth: int = 0) -> Any:
    """Return what tells one derivative rule from another: code and closed-over code.

    Every trace wraps a rule in new closures, so the objects say nothing; what they
    close over in the end, the user's functions, does.
    """
    if isinstance(function, _lu.WrappedFun):
        parts = [
            function.f,
            *(part for transform in function.transforms for part in transform),
        ]
        return tuple(rule_identity(part, depth + 1) for part in parts)
    if isinstance(function, (tuple, list)):
        return tuple(rule_identity(part, depth + 1) for part in function)
    if isinstance(function, functools.partial):
        return rule_identity((function.func, *function.args), depth + 1)
    if isinstance(function, (int, str, bool, float, complex, bytes, type(None))):
        return type(function), repr(function)
    if isinstance(function, (Tracer, jax.Array, _np.ndarray, _np.generic)):
        return id(function)
    if is_value_box(function):
        return rule_identity(boxed_value(function), depth + 1)
    code = getattr(function, "__code__", None)
    if code is None:
        called = getattr(function, "__wrapped__", None)
        if called is not None:
            return rule_identity(called, depth + 1)
        kind = type(function)
        is_of_jax = kind.__module__.partition(".")[0] in ("jax", "jaxlib", "builtins")
        return kind if is_of_jax and not callable(function) else (kind, id(function))
    if depth > 40:
        return code
    cells = [cell for cell in function.__closure__ or () if not _is_empty_cell(cell)]
    return code, tuple(rule_identity(cell.cell_contents, depth + 1) for cell in cells)


def _is_empty_cell(cell: Any) -> bool:
    try:
        cell.cell_contents
    except ValueError:
        return True
    return False


# ---- spelling ----------------------------------------------------------------------

import jax.extend.core.primitives  # noqa: E402  # listed first by `spell_homes`
import jax.extend.random  # noqa: E402  # likewise
from jax._src import ad_checkpoint as _ad_checkpoint  # noqa: E402
from jax._src import dispatch as _dispatch  # noqa: E402
from jax._src import frozen_dict as _frozen_dict  # noqa: E402
from jax._src import hijax as _hijax  # noqa: E402
from jax._src.export import shape_poly as _shape_poly  # noqa: E402
from jax._src.random import prng as _prng  # noqa: E402

WrappedFun = _lu.WrappedFun
FrozenDict = _frozen_dict.FrozenDict
JaxArray = jax.Array
Device: type[Any] = jax.Device
PyTreeDef: type[Any] = jax.tree_util.PyTreeDef
ExtendedDType = _dtypes.ExtendedDType
FLOAT0 = _dtypes.float0
KeyTy = _prng.KeyTy
PRNGImpl = _prng.PRNGImpl
PRNGS: dict[str, Any] = _prng.prngs
PRNGS_MODULE = _prng.__name__
# Called `VJPHiPrimitive` before jax 0.11.
HiPrimitive: type = getattr(_hijax, "HiPrim", None) or _hijax.VJPHiPrimitive
SymbolicDim = _shape_poly._DimExpr

# Remat policies that jax 0.10 keeps as records: the function that makes one, its field.
POLICY_RECORDS: dict[type, tuple[str, str]] = {
    getattr(_ad_checkpoint, kind): made
    for kind, made in {
        "SaveOnlyTheseNames": ("save_only_these_names", "saveable_names"),
        "SaveAnyNamesButThese": ("save_any_names_but_these", "names"),
    }.items()
    if hasattr(_ad_checkpoint, kind)
}
NATIVE_ENUMS: tuple[type, ...] = (_dispatch.ArrayCopySemantics,)

# The fields of an aval beyond shape, dtype and weak type; `layout` came with jax 0.11.
AVAL_FIELDS = tuple(
    name
    for name in ("sharding", "manual_axis_type", "memory_space", "layout")
    if name in ShapedArray.__slots__
)

try:
    from jax._src.flattree import FTPyTree as _FTPyTree  # jax >= 0.11
except ImportError:
    FLAT_PYTREES: tuple[type, ...] = ()
    FLAT_TREES: tuple[type, ...] = ()
else:
    from jax._src.flattree import FTFiltered as _FTFiltered
    from jax._src.flattree import FTTuple as _FTTuple

    FLAT_PYTREES = (_FTPyTree,)
    FLAT_TREES = (_FTTuple, _FTFiltered)


def list_devices(platform: str | None = None) -> list[Any]:
    """List the devices of a platform, or of the default one."""
    return list(jax.devices(platform))


def make_mesh(*args: Any, **kwargs: Any) -> Any:
    """Call `jax.make_mesh`."""
    return jax.make_mesh(*args, **kwargs)


def tree_structure(tree: Any) -> Any:
    """Return the `PyTreeDef` of a tree."""
    return jax.tree.structure(tree)


def is_key_array(value: Any) -> bool:
    """Tell whether `value` is an array of typed PRNG keys."""
    return isinstance(value, JaxArray) and isinstance(value.dtype, KeyTy)


def flat_tree_sizes(value: Any) -> tuple[int, ...] | None:
    """Return the number of leaves of each part of a flat tree that holds no values.

    In the params of a `scan` (jax >= 0.11) such trees count consts, carries and xs; how
    the leaves of one part are nested is bookkeeping of the transformations.
    """
    if any(leaf is not None for leaf in value.vals):
        return None
    try:
        return tuple(len(part) for part in value.unpack())
    except TypeError:  # one part only
        return None


def is_empty_manual_axis_type(value: Any) -> bool:
    """Tell whether a `ManualAxisType` says nothing."""
    return bool(value.empty)


from jax._src.lib import xla_client as _xla_client  # noqa: E402

# ---- comparing ---------------------------------------------------------------------

JaxprInputEffect = _effects.JaxprInputEffect
NamedAxisEffect = _core.NamedAxisEffect
WrappedFun = _lu.WrappedFun
Ref = getattr(_core, "Ref", ())

# What only says where something came from; never part of a computation.
ORIGIN_TYPES: tuple[type, ...] = (
    _core.DebugInfo,
    _xla_client.Traceback,
    _source_info_util.SourceInfo,
    type(_source_info_util.new_source_info().name_stack),
)
CONTEXT_FIELDS: tuple[str, ...] = tuple(
    name
    for name in _core.JaxprEqnContext.__slots__
    if name not in ("configs", "__weakref__")
)
_ZEROS = (_ad_util.Zero, _ad_util.SymbolicZero)


def var_behind(tracer: Any) -> Any:
    """Return the jaxpr variable a tracer stands for, or None if it has none."""
    var = getattr(tracer, "val", None)
    return var if isinstance(var, _core.Var) else None


def initial_state(var: Any) -> tuple[Any, Any]:
    """Return the quasi-dynamic data at both ends of a binder (jax 0.10 only)."""
    return getattr(var, "initial_qdd", None), getattr(var, "final_qdd", None)


@contextlib.contextmanager
def rule_context(eqn_context: Any, check_vma: bool = True) -> Iterator[None]:
    """Enter the context in which an equation's derivative rules are traced.

    The equation's own context plus the axis names its mesh has made manual, which a
    rule inside a `shard_map` body may use; `check_vma` is the param of that
    `shard_map`.
    """
    mesh = eqn_context.cur_abstract_mesh
    manual = set(getattr(mesh, "manual_axes", ()))
    sizes = dict(zip(mesh.axis_names, mesh.axis_sizes)) if manual else {}
    axes = [(name, size) for name, size in sizes.items() if name in manual]
    with (
        eqn_context.manager,
        _core.extend_axis_env_nd(axes),
        _config._check_vma(check_vma and bool(axes)),
    ):
        yield


class CustomVJPRules(NamedTuple):
    """The rules of a `custom_vjp_call`, traced.

    `forward` maps the operands without the leading consts to `(*residuals, *results)`,
    where a residual that is an operand is left out. `residuals` says for each residual
    which operand (consts included) it is, or None if `forward` returns it. `backward`
    maps `(*all_residuals, *cotangents)` to the cotangents that are not zeros, followed
    by the leaves of `logs` (jax 0.12), and `zeros` tells for each operand (consts
    excluded) whether its cotangent is a symbolic zero.
    """

    forward: Any
    backward: Any
    residuals: tuple[int | None, ...]
    zeros: tuple[bool, ...]
    logs: Any


def custom_vjp_rules(
    eqn_params: dict[str, Any], operand_avals: Sequence[Any]
) -> CustomVJPRules:
    """Trace both rules of a `custom_vjp_call` with every operand perturbed.

    An integer operand counts as unperturbed, as under `jax.grad`; its cotangent and
    those of integer results have dtype float0.

    Args:
      eqn_params: The params of the equation.
      operand_avals: Avals of all its operands, consts first.
    """
    n_consts = eqn_params["num_consts"]
    perturbed = [_is_perturbable(aval) for aval in operand_avals[n_consts:]]
    thunk = eqn_params["fwd_jaxpr_thunk"]
    # jax 0.10 makes a plain function of it when a dead result was removed.
    call = getattr(thunk, "call_wrapped", thunk)
    forward, consts = call(*perturbed)
    # Only now: the trees are stored while `fwd` runs.
    _, res_tree, sources = eqn_params["out_trees"]()
    n_computed = res_tree.num_leaves - sum(s is not None for s in sources)
    computed = iter([v.aval for v in forward.outvars[:n_computed]])
    residuals = [next(computed) if s is None else operand_avals[s] for s in sources]
    cotangents = [v.aval.to_ct_aval() for v in forward.outvars[n_computed:]]
    backward, zeros, logs = _trace_backward(
        eqn_params["bwd"], [*residuals, *cotangents]
    )
    return CustomVJPRules(
        close_jaxpr(forward, consts), backward, tuple(sources), zeros, logs
    )


def _is_perturbable(aval: Any) -> bool:
    tangent = aval.to_tangent_aval()
    return getattr(tangent, "dtype", None) != jax.dtypes.float0


def _trace_backward(
    bwd: Any, avals: Sequence[Any]
) -> tuple[Any, tuple[bool, ...], Any]:
    zeros: tuple[bool, ...] = ()
    logs: Any = None

    def backward(*args: Any) -> list[Any]:
        nonlocal zeros, logs
        returned = bwd.call_wrapped(*args)
        # jax 0.12 returns (cotangents, logs), jax 0.10 the cotangents.
        has_logs = isinstance(returned, tuple) and len(returned) == 2
        cotangents, logged = (
            returned if has_logs and ClosedJaxpr is Jaxpr else (returned, None)
        )
        zeros = tuple(isinstance(ct, _ZEROS) for ct in cotangents)
        leaves, logs = jax.tree.flatten(logged)
        return [ct for ct in cotangents if not isinstance(ct, _ZEROS)] + leaves

    jaxpr = trace_flat(backward, avals, "backward")
    return jaxpr, zeros, logs


# ---- mutable arrays ----------------------------------------------------------------

from jax._src.state import indexing as _indexing  # noqa: E402
from jax._src.state import types as _state_types  # noqa: E402

AbstractRef = _state_types.AbstractRef
NDIndexer = _indexing.NDIndexer
RefSlice = _indexing.Slice


def is_ref_aval(aval: Any) -> bool:
    """Tell whether an aval is that of a mutable array."""
    return isinstance(aval, AbstractRef)


def is_token(aval: Any) -> bool:
    """Tell whether an aval is that of a token, which only orders effects."""
    return isinstance(aval, _core.AbstractToken)


def is_ref(value: Any) -> bool:
    """Tell whether a value is a mutable array."""
    return isinstance(value, Ref)


def ref_content(ref: Any) -> Any:
    """Return what a mutable array holds now."""
    return ref[...]


def ref_transforms(tree: Any, leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Rebuild the chain of indexers and views of a `get`, `swap` or `addupdate`."""
    return tuple(jax.tree.unflatten(tree, leaves))


def is_number(value: Any) -> bool:
    """Tell whether a scalar is a plain integer or float, of any width NumPy has."""
    return _np.asarray(value).dtype.kind in "iuf"


def is_static_dim(value: Any) -> bool:
    """Tell whether the start or size of a slice was known when it was traced."""
    return isinstance(value, int)


# ---- callbacks ---------------------------------------------------------------------

from jax._src import debugging as _debugging  # noqa: E402


class HostCall(NamedTuple):
    """A host function and the tree of `(args, kwargs)` that it is called on.

    `static_args` are the leaves that are no arrays, by position in the tree.
    """

    function: Any
    in_tree: Any
    static_args: dict[int, Any]


def host_call(callback: Any) -> HostCall | None:
    """Unwrap what a callback primitive holds; None if its wrapper is not known."""
    if hasattr(callback, "callback_func"):
        return HostCall(callback.callback_func, callback.in_tree, {})
    code = getattr(callback, "__code__", None)
    if code is None or code.co_name != "_flat_callback":
        return None
    cells = zip(code.co_freevars, callback.__closure__ or ())
    held = {name: cell.cell_contents for name, cell in cells}
    if not {"callback", "in_tree", "static_args"} <= held.keys():
        return None
    return HostCall(held["callback"], held["in_tree"], dict(held["static_args"]))


def is_ordered_effect(effect: Any) -> bool:
    """Tell whether a debug callback keeps its place among the others."""
    return type(effect) is type(_debugging.ordered_debug_effect)


def accepts_print_format(fmt: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Tell whether `jax.debug.print` lets these arguments through its format check."""
    try:
        _debugging.formatter.format(fmt, *args, **kwargs)
    except (ValueError, KeyError, IndexError, AttributeError):
        return False
    return True


def stand_in_for(function: Any) -> str | None:
    """Return the name of the host function that a generated function stands in for."""
    if not isinstance(function, types.FunctionType):
        return None
    name = function.__dict__.get("__untrace_stand_in__")
    return name if isinstance(name, str) else None


def function_origin(function: Any) -> str:
    """Return module and qualified name of a callable, looking through partials.

    >>> function_origin(functools.partial(functools.reduce))
    '_functools.reduce'
    """
    while isinstance(function, functools.partial):
        function = function.func
    named = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(named, "__module__", None)
    return f"{module}.{named.__qualname__}" if module else named.__qualname__


class FailedCheck(NamedTuple):
    """The operands of one `checkify.check`, not functionalised.

    `number` is its key in the error's metadata, `code` the operand with that number.
    The exception has `fmt_string`, `args` and `kwargs`, as they were given.
    """

    failed: Any
    code: Any
    number: int
    exception: Any


def failed_check(err_tree: Any, leaves: Sequence[Any]) -> FailedCheck | None:
    """Read a `check` equation; None if it holds a collection of several errors."""
    error = jax.tree.unflatten(err_tree, leaves)
    if len(error._pred) != 1 or len(error._metadata) != 1:
        return None
    ((effect, failed),) = error._pred.items()
    ((number, kind),) = error._metadata.items()
    exception = jax.tree.unflatten(kind, error._payload[effect])
    if not hasattr(exception, "fmt_string"):
        return None
    return FailedCheck(failed, error._code[effect], int(number), exception)


# ---- sharding ----------------------------------------------------------------------

from jax._src import layout as _layout  # noqa: E402
from jax._src import mesh as _mesh  # noqa: E402
from jax._src import shard_map as _shard_map  # noqa: E402
from jax._src.compute_on import extend_compute_type as _extend_compute_type  # noqa: E402
from jax.experimental import compute_on as _compute_on  # noqa: E402

# jax 0.10 calls the decorator `compute_on2`, beside a context manager `compute_on`.
COMPUTE_ON = "compute_on2" if hasattr(_compute_on, "compute_on2") else "compute_on"
COMPUTE_CONTEXT = (
    ("jax.experimental.compute_on", "compute_on")
    if COMPUTE_ON == "compute_on2"
    else ("jax._src.compute_on", "extend_compute_type")
)
LAYOUT_CONTEXT = ("jax._src.layout", "use_layout_mode")  # jax >= 0.11


@contextlib.contextmanager
def manual_region(shard_map_params: Any, eqn_context: Any) -> Iterator[None]:
    """Enter the state in which the body of a `shard_map` equation was traced."""
    mesh, manual = shard_map_params["mesh"], shard_map_params["newly_manual_axes"]
    with (
        eqn_context.manager,
        _shard_map._extend_axis_env(mesh, manual),
        _mesh.use_abstract_mesh(_shard_map._as_manual_mesh(mesh, manual)),
        _config._check_vma(shard_map_params["check_vma"]),
    ):
        yield


@contextlib.contextmanager
def compute_region(compute_type: str, eqn_context: Any) -> Iterator[None]:
    """Enter the state in which the body of a `compute_on` equation was traced."""
    with eqn_context.manager, _extend_compute_type(compute_type):
        yield


def ambient_mesh() -> Any:
    """Return the concrete mesh of `jax.set_mesh` or of `with mesh:`, or None."""
    mesh = _mesh.get_concrete_mesh()
    return None if mesh is None or mesh.empty else mesh


def legacy_mesh() -> Any:
    """Return the mesh that was entered by `with mesh:`; it may be empty."""
    return _mesh.thread_resources.env.physical_mesh


def formats(shardings: Sequence[Any], layouts: Sequence[Any]) -> list[Any] | None:
    """Give each argument's sharding as `jax.jit` takes it: None where it is open.

    Returns:
      A sharding, a `Format` or None for each; None if a layout has no sharding.
    """
    found: list[Any] = []
    for sharding, layout in zip(shardings, layouts):
        is_open = is_unspecified(sharding)
        if layout is not None:
            if is_open:
                return None
            sharding = _layout.Format(layout, sharding)
        found.append(None if is_open else sharding)
    return found


def placement(value: Any, aval: Any) -> Any:
    """Return the sharding that an example of an input must have, or None.

    Args:
      value: The array that was passed, or None.
      aval: The type of the input.
    """
    if isinstance(value, jax.Array) and not isinstance(value, Tracer):
        sharding = value.sharding
        if isinstance(sharding, jax.sharding.NamedSharding):
            return sharding
        default = jax.devices()[0]
        is_single = isinstance(sharding, jax.sharding.SingleDeviceSharding)
        is_default = sharding == jax.sharding.SingleDeviceSharding(default)
        return sharding if is_single and not is_default else None
    if not is_typed_by_axes(aval):
        return None
    mesh = _concrete(aval.sharding.mesh)
    return None if mesh is None else with_mesh(aval.sharding, mesh)


def _concrete(abstract: Any) -> Any:
    """Find a mesh of this process's devices for an abstract one, or None."""
    mesh = ambient_mesh()
    if mesh is not None and mesh.abstract_mesh == abstract:
        return mesh
    if abstract.size > len(jax.devices()):
        return None
    made = jax.make_mesh(abstract.axis_sizes, abstract.axis_names, abstract.axis_types)
    return made if made.abstract_mesh == abstract else None


def n_devices(devices: Sequence[Any]) -> int:
    """Return how many devices a process must have to have these."""
    indices = [d.id for d in devices if d.platform == jax.devices()[0].platform]
    return 1 + max(indices, default=0)


def is_simulated(devices: Sequence[Any]) -> bool:
    """Tell whether these are devices of the CPU, of which there can be any number."""
    return all(device.platform == "cpu" for device in devices)


def with_mesh(sharding: Any, mesh: Any) -> Any:
    """Return the sharding with the same spec over another mesh."""
    return jax.sharding.NamedSharding(mesh, sharding.spec)


def scalar_mesh(eqn_context: Any) -> Any:
    """Return the mesh that types a scalar which an operator makes an array of."""
    mesh = eqn_context.cur_abstract_mesh
    return _mesh.empty_abstract_mesh if mesh.explicit_axes else mesh


def is_abstract_mesh(value: Any) -> bool:
    """Tell whether a value is a mesh without devices."""
    return isinstance(value, jax.sharding.AbstractMesh)


def is_typed_by_axes(aval: Any) -> bool:
    """Tell whether an aval says over which axes of a mesh it is sharded."""
    sharding = getattr(aval, "sharding", None)
    return sharding is not None and bool(sharding.mesh.explicit_axes)


def context_mesh(eqn_context: Any) -> Any:
    """Return the abstract mesh of an equation context, which may be empty."""
    return eqn_context.cur_abstract_mesh


def is_over(sharding: Any, mesh: Any) -> bool:
    """Tell whether a sharding is a plain `NamedSharding` over just this mesh."""
    if not isinstance(sharding, jax.sharding.NamedSharding) or mesh.empty:
        return False
    return sharding == jax.sharding.NamedSharding(mesh, sharding.spec)


DEFAULT_CONTEXT: dict[str, Any] = {
    **context_fields(ambient_context()),
    "compute_type": None,
    "threefry_partitionable": True,
    "xla_metadata": None,
    "cur_abstract_mesh": _mesh.empty_abstract_mesh,
    "remove_size_one_mesh_axis": False,
}
"""The equation context of a new process."""


# ---- kernels -----------------------------------------------------------------------

# Fields that only say where something came from, by class; not imported for the name.
ORIGIN_FIELDS: dict[str, frozenset[str]] = {
    "jax._src.pallas.core.BlockMapping": frozenset({"origin"}),
    # `functools.update_wrapper` copies all that a rule says of itself.
    "jax._src.custom_batching.ClosedRule": frozenset(
        {"debug", "__wrapped__", "__untrace_stand_in__", "__type_params__"}
        | {*functools.WRAPPER_ASSIGNMENTS}
    ),
}
_DEVICE = getattr(getattr(_core, "MemorySpace", None), "Device", None)


def is_on_device(aval: Any) -> bool:
    """Tell whether `jax.ShapeDtypeStruct` describes a result of a kernel completely."""
    return is_plain_aval(aval) and getattr(aval, "memory_space", _DEVICE) == _DEVICE


def is_default_memory(space: Any) -> bool:
    """Tell whether a block lies where a kernel's blocks lie by default."""
    return space is None or getattr(space, "name", "") == "DEFAULT"


def is_flat_tuple(tree: Any) -> bool:
    """Tell whether a tree is a tuple of leaves."""
    return tree == jax.tree.structure((0,) * tree.num_leaves)


def unflatten_index(tree: Any, atoms: Sequence[Any]) -> tuple[Any, ...]:
    """Put the results of an index map into its tree of indices and slices."""
    return tuple(jax.tree.unflatten(tree, atoms))


def unflatten_operands(tree: Any, operands: Sequence[Any]) -> Any:
    """Put the operands of a masked access back into its arguments."""
    return jax.tree.unflatten(tree, operands)


def divided_cost(estimate: Any, size: int) -> Any:
    """Undo what batching by `size` does to a `pl.CostEstimate`."""
    if estimate is None:
        return None
    names = ("flops", "transcendentals", "bytes_accessed")
    return type(estimate)(**{name: getattr(estimate, name) // size for name in names})


_PALLAS_MODULES = (
    ("jax.experimental", "pallas", "pl"),
    ("jax.experimental.pallas", "tpu", "pltpu"),
    ("jax.experimental.pallas", "mosaic_gpu", "plgpu"),
)


def memory_home(space: Any) -> tuple[str, str, str, str] | None:
    """Return package, module, usual alias and attribute of a memory space, or None."""
    name = getattr(space, "name", None)
    for package, module, alias in _PALLAS_MODULES:
        found = sys.modules.get(f"{package}.{module}")
        if name and found is not None and getattr(found, name, None) is space:
            return package, module, alias, name
    return None


# ---- foreign code ------------------------------------------------------------------


def plain_attribute(value: Any) -> Any:
    """Return an attribute of a foreign call as it was given."""
    kind = type(value).__name__
    if kind == "HashableArray":
        return value.val
    if kind == "FrozenDict":
        return dict(value.items())
    return value
