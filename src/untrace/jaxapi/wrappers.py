"""Which transformation made a function, and what it was made of.

The wrappers that transformations return are opened through their closures, since
`__wrapped__` would skip the transformation.
"""

# These are JAX's private hooks; `tests/recovery` checks each on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
from jax._src import ad_checkpoint as _ad_checkpoint
from jax._src import api as _api
from jax._src import checkify as _checkify
from jax._src import config as _config
from jax._src import custom_derivatives as _custom_derivatives
from jax._src import shard_map as _shard_map
from jax._src import source_info_util as _source_info_util
from jax._src import traceback_util as _traceback_util
from jax._src.numpy import ufunc_api as _ufunc_api
from jax._src.numpy import vectorize as _vectorize

from untrace.jaxapi.kernel_calls import KERNEL_HOME, kernel_options, pallas_module
from untrace.jaxapi.matrices import sparse_module
from untrace.objects import closed_over


@dataclass(frozen=True, eq=False, slots=True)
class Transformed:
    """A function that a transformation made: `jax.vmap(f, in_axes=1)`.

    Attributes:
      maker: Module and name of the transformation.
      function: What was transformed.
      options: Keyword arguments that are not the default.
      static: Positions and names of arguments that are no arrays.
    """

    maker: tuple[str, str]
    function: Any
    options: Mapping[str, Any]
    static: tuple[tuple[int, ...], tuple[str, ...]] = ((), ())


FUNCTION_RESULTS: tuple[type, ...] = (_api.VJP, jax.tree_util.Partial)
"""What `jax.vjp` and `jax.linearize` return as functions."""


def held_by_function(value: Any) -> tuple[str, ...] | None:
    """Return the attributes in which such a function holds its children; else None."""
    if type(value) is jax.tree_util.Partial:
        return "args", "keywords"
    if type(value) is _api.VJP:
        return tuple([name for name in _VJP_PARTS if hasattr(value, name)])
    return None


_VJP_PARTS = ("args_res", "opaque_residuals", "structured_residuals")
"""In order; the last is new in jax 0.12."""


SCOPE_FILES = frozenset(
    {contextlib.__file__, _source_info_util.__file__, _config.__file__}
)
"""Files whose wrappers only enter a context, such as `jax.named_scope` or a setting."""

UFUNC = _ufunc_api.ufunc
CUSTOM_JVP = _custom_derivatives.custom_jvp
CUSTOM_VJP = _custom_derivatives.custom_vjp


def open_boundary(function: Any) -> Any:
    """Remove the wrappers that only filter tracebacks."""
    while type(function) is types.FunctionType and function.__code__ is _BOUNDARY:
        function = closed_over(function)["fun"]
    return function


def transformed(function: Any) -> Transformed | None:
    """Tell which transformation made a function, or return None."""
    if isinstance(function, JITTED):
        info = function._jit_info  # pyright: ignore[reportAttributeAccessIssue]
        return read_jit(function.__wrapped__, info)
    if isinstance(function, UFUNC):
        return _read_ufunc(function)
    function = open_boundary(function)
    if type(function) is not types.FunctionType:
        return None
    maker = makers().get(id(function.__code__))
    return maker[1].read(closed_over(function)) if maker is not None else None


def _read_ufunc(function: Any) -> Transformed | None:
    """Return what the user gave to `jax.numpy.frompyfunc`; JAX's own are functions."""
    held = vars(function)["_ufunc__static_props"]
    made = held["func"]
    if str(getattr(made, "__module__", "")).startswith("jax."):
        return None
    options = {"nin": function.nin, "nout": function.nout}
    if function.identity is not None:
        options["identity"] = function.identity
    return Transformed(("jax.numpy", "frompyfunc"), made, options)


def wrapper_code(function: Any) -> types.CodeType | None:
    """Return the code whose frames show the calls of what a transformation made.

    All functions that were made in the same way share it.
    """
    if isinstance(function, (CUSTOM_JVP, CUSTOM_VJP)):
        return open_boundary(type(function).__call__).__code__
    plain = open_boundary(function)
    return plain.__code__ if type(plain) is types.FunctionType else None


@dataclass(frozen=True, slots=True)
class Maker:
    """How the closure of a transformation's wrapper holds what it was made of."""

    home: tuple[str, str]
    signature: inspect.Signature
    through: str = ""

    def read(self, cells: Mapping[str, Any]) -> Transformed:
        """Read a transformed function from the variables of its wrapper."""
        if self.through:  # `grad` wraps what `value_and_grad` returns, for example
            cells = closed_over(open_boundary(cells[self.through]))
        function = next(cells[n] for n in ("fun", "f", "pyfunc", "func") if n in cells)
        options = {
            name: cells[name]
            for name, parameter in self.signature.parameters.items()
            if name in cells
            and (parameter.default is not parameter.empty or name == "out_specs")
            and not is_default(cells[name], parameter.default)
        }
        options.pop("fun", None)
        options.pop("f", None)
        names = getattr(cells.get("mesh"), "axis_names", None)
        if names is not None and options.get("axis_names") == frozenset(names):
            del options["axis_names"]
        static = options.pop("static_argnums", ())
        static = (static,) if isinstance(static, int) else tuple(static)
        return Transformed(self.home, function, options, (static, ()))


class _PmapMaker(Maker):
    """How `jax.pmap` holds what it was made of: most of it as it is used later."""

    __slots__ = ()

    def read(self, cells: Mapping[str, Any]) -> Transformed:
        """Read a mapped function from the variables of its wrapper."""
        held = closed_over(cells["infer_params"])
        options = {
            name: held[name]
            for name in ("axis_name", "in_axes", "devices", "backend", "axis_size")
            if not is_default(held[name], self.signature.parameters[name].default)
        }
        if options.get("axis_name") == _UNNAMED_AXIS:
            del options["axis_name"]
        out_axes = jax.tree.unflatten(held["out_axes_tree"], held["out_axes_flat"])
        if out_axes != 0:
            options["out_axes"] = out_axes
        if held["donate_tuple"]:
            options["donate_argnums"] = held["donate_tuple"]
        static = tuple(held["static_broadcasted_tuple"])
        return Transformed(self.home, held["wrapped_fun"].f, options, (static, ()))


_UNNAMED_AXIS = "_internal_pmap_axis_name"


def is_default(value: Any, default: Any) -> bool:
    """Whether a value is what a parameter has by default."""
    if type(value) is object:  # a sentinel such as "no axis name"
        return True
    return value is default or (type(value) is type(default) and value == default)


def makers() -> dict[int, tuple[types.CodeType, Maker]]:
    """Return what makes the functions that run a code object, by its `id`.

    The hash of a code object is computed anew every time, from all of its parts.
    """
    if not _MAKERS:
        # At once: other threads look here, too.
        _MAKERS.update({id(code): (code, made) for code, made in _usual_makers()})
    sparse = sparse_module()
    if sparse is not None and not _SPARSE_MAKERS:
        several = _sparse_makers(sparse)
        _SPARSE_MAKERS.update({id(code): (code, made) for code, made in several})
        _MAKERS.update(_SPARSE_MAKERS)
    return _MAKERS


def _usual_makers() -> Iterator[tuple[types.CodeType, Maker]]:
    for home, maker, wrapper, through in [
        (("jax", "value_and_grad"), jax.value_and_grad, "value_and_grad_f", ""),
        (("jax", "grad"), jax.grad, "grad_f", "value_and_grad_f"),
        (("jax", "grad"), jax.grad, "grad_f_aux", "value_and_grad_f"),
        (("jax", "vmap"), jax.vmap, "vmap_f", ""),
        (("jax", "jacfwd"), jax.jacfwd, "jacfun", ""),
        (("jax", "jacrev"), jax.jacrev, "jacfun", ""),
        (("jax", "make_jaxpr"), jax.make_jaxpr, "make_jaxpr_f", ""),
        (("jax", "checkpoint"), _ad_checkpoint.checkpoint, "fun_remat", ""),
        (("jax.numpy", "vectorize"), _vectorize.vectorize, "wrapped", ""),
        (_CHECKIFY, _checkify.checkify, "checked_fun", ""),
    ]:
        plain = open_boundary(maker)
        signature = inspect.signature(plain)
        yield inner_code(plain, wrapper), Maker(home, signature, through)
    shard_map = Maker(("jax", "shard_map"), inspect.signature(jax.shard_map))
    yield inner_code(_shard_map._shard_map, "wrapped"), shard_map
    pmap = _PmapMaker(("jax", "pmap"), inspect.signature(jax.pmap))
    yield inner_code(jax.pmap, "wrapped"), pmap


def _sparse_makers(sparse: Any) -> Iterator[tuple[types.CodeType, Maker]]:
    for name in ("grad", "value_and_grad", "jacfwd", "jacrev"):
        maker = getattr(sparse, name)
        home = sparse.__name__, name
        code = inner_code(maker, f"{name}_fun")
        yield code, Maker(home, inspect.signature(maker))
    home = sparse.__name__, "sparsify"
    made = Maker(home, inspect.signature(sparse.sparsify), "f_raw")
    yield sparse.sparsify(jax.numpy.sin).__code__, made


_CHECKIFY = ("jax.experimental.checkify", "checkify")
_MAKERS: dict[int, tuple[types.CodeType, Maker]] = {}
_SPARSE_MAKERS: dict[int, tuple[types.CodeType, Maker]] = {}


def elementwise_rules(function: Any) -> list[Any]:
    """Return the functions that were given to `defjvps`, if they were."""
    rule = getattr(function, "jvp", None)
    code = getattr(rule, "__code__", None)
    if code is not inner_code(CUSTOM_JVP.defjvps, "jvp"):
        return []
    return list(closed_over(rule)["jvps"])


def gradient_function(function: Any) -> Any:
    """Return what `jax.custom_gradient` was given; None if that made no function.

    Of its options, which came with jax 0.12, `remat` and `with_accums` make functions of
    another kind.
    """
    if not isinstance(function, CUSTOM_VJP):
        return None
    if getattr(function.fwd, "__code__", None) is not _GRADIENT_FORWARD:
        return None
    return closed_over(function.fwd).get("fun")


def gradient_has_logs(function: Any) -> bool:
    """Whether the rule of a `jax.custom_gradient` returns logs, too."""
    return bool(closed_over(function.fwd).get("with_logs"))


def read_jit(function: Any, info: Any) -> Transformed:
    """Return what `jax.jit` made of a function, from what it keeps about that.

    What `pl.pallas_call` returns is such a function, of JAX's own.
    """
    kernel = _read_kernel_call(function)
    if kernel is not None:
        return kernel
    options: dict[str, Any] = {}
    if info.donate_argnums or info.donate_argnames:
        name = "donate_argnums" if info.donate_argnums else "donate_argnames"
        options[name] = getattr(info, name)
    if info.keep_unused:
        options["keep_unused"] = True
    if info.inline != _plain_jit_info().inline:
        options["inline"] = info.inline
    for name in ("in_shardings", "out_shardings"):
        leaves = getattr(info, f"{name}_leaves")
        tree = getattr(info, f"{name}_treedef")
        value = jax.tree.unflatten(tree, leaves)
        if any(not _is_unspecified(leaf) for leaf in leaves):
            options[name] = value
    if info.compiler_options_kvs:
        options["compiler_options"] = dict(info.compiler_options_kvs)
    static = tuple(info.static_argnums or ()), tuple(info.static_argnames or ())
    return Transformed(("jax", "jit"), function, options, static)


def _read_kernel_call(function: Any) -> Transformed | None:
    module = pallas_module()
    code = getattr(function, "__code__", None)
    if module is None or code is not _kernel_wrapper(module):
        return None
    cells = closed_over(function)
    options = kernel_options(cells)
    if options is None:
        return None
    return Transformed(KERNEL_HOME, cells["kernel"], options)


@functools.cache
def _kernel_wrapper(module: Any) -> types.CodeType:
    return inner_code(module._pallas_call, "wrapped")


@functools.cache
def _plain_jit_info() -> Any:
    return jax.jit(lambda: None)._jit_info  # pyright: ignore


def jax_inlines(made: Transformed) -> bool:
    """Whether JAX itself inlines what a function is traced to.

    JAX 0.12 says when with an enumeration; XLA may also be asked to do it.
    """
    inline = made.options.get("inline")
    return inline is True or getattr(inline, "name", "").startswith("JAX_")


def _is_unspecified(sharding: Any) -> bool:
    return type(sharding).__name__ == "UnspecifiedValue"


def is_wrapper(code: types.CodeType) -> bool:
    """Whether a frame only passes a call on."""
    return code is _BOUNDARY


def inner_code(function: Any, name: str) -> types.CodeType:
    """Find the code of a function that is defined inside another."""
    function = open_boundary(inspect.unwrap(function))
    return _find_code(function.__code__, name)


def _find_code(code: types.CodeType, name: str) -> types.CodeType:
    stack = [code]
    while stack:
        current = stack.pop()
        for const in current.co_consts:
            if isinstance(const, types.CodeType):
                if const.co_name == name:
                    return const
                stack.append(const)
    raise LookupError(f"{code.co_name} has no inner function {name}")


JITTED: Any = type(jax.jit(lambda: None))
_BOUNDARY = _find_code(
    _traceback_util.api_boundary.__code__, "reraise_with_filtered_traceback"
)
_GRADIENT_FORWARD = inner_code(_custom_derivatives.custom_gradient, "fwd")
