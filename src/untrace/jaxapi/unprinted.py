"""What a printed jaxpr does not say: params that are silent, rules, devices, trees."""

# These are JAX's private hooks; `tests/readers` checks each on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import core as _core
from jax._src import indexing as _indices
from jax._src import linear_util as _lu
from jax._src import mesh as _mesh
from jax._src import named_sharding as _named_sharding
from jax._src.interpreters import partial_eval as _pe
from jax._src.state import indexing as _indexing

from untrace.jaxapi.jaxprs import close_jaxpr, split_jaxpr
from untrace.jaxapi.params import POLICY_RECORDS

EMPTY_MESH: Any = _mesh.empty_concrete_mesh
UNSPECIFIED_SHARDING: Any = _named_sharding.UNSPECIFIED


def scan_split(n_consts: int, n_carry: int, n_rest: int, n_stacked: int) -> Any:
    """Return the params of a `scan` that say how its operands and results are split."""
    if importlib.util.find_spec("jax._src.flattree") is None or not _scans_trees():
        return {"num_consts": n_consts, "num_carry": n_carry}
    tree = importlib.import_module("jax._src.flattree")
    given = (tree.nones(n_consts), tree.nones(n_carry), tree.nones(n_rest))
    found = (tree.nones(n_carry), tree.nones(n_stacked))
    return {"ft_in": tree.pack(given), "ft_out": tree.pack(found)}


def _scans_trees() -> bool:
    from jax._src.lax.control_flow import loops

    return "ft_in" in loops._scan_impl.__code__.co_varnames


def jit_defaults(n_inputs: int, n_outputs: int) -> dict[str, Any]:
    """Return the params of a `jit` that do not print where they say nothing."""
    inline: Any = getattr(jax, "Inline", None) or getattr(_api(), "Inline", None)
    return {
        "in_shardings": (UNSPECIFIED_SHARDING,) * n_inputs,
        "out_shardings": (UNSPECIFIED_SHARDING,) * n_outputs,
        "in_layouts": (None,) * n_inputs,
        "out_layouts": (None,) * n_outputs,
        "donated_invars": (False,) * n_inputs,
        "ctx_mesh": EMPTY_MESH,
        "keep_unused": False,
        "inline": False if inline is None else inline.AUTO,
        "compiler_options_kvs": (),
    }


def _api() -> Any:
    return importlib.import_module("jax._src.api")


_SILENT: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(jax.lax, name)
        for name in (
            *("cbrt", "cos", "erfc", "exp", "exp2", "expm1", "log", "log1p", "log2"),
            *("logistic", "rsqrt", "sin", "sqrt", "tan", "tanh"),
        )
        if hasattr(jax.lax, name)  # `log2` came with jax 0.12
    },
    "broadcast_in_dim": lambda x: jax.lax.broadcast_in_dim(x, (1,), ()),
    "convert_element_type": lambda x: jax.lax.convert_element_type(x, np.int32),
    "dot_general": lambda x: jax.lax.dot(x[None], x[None]),
    "iota": lambda x: jax.lax.iota(np.int32, 1),
    "mul": lambda x: jax.lax.mul(x, x),
    "reduce_sum": lambda x: jax.lax.reduce_sum(x[None], (0,)),
    "reshape": lambda x: jax.lax.reshape(x, (1,)),
    "conv_general_dilated": lambda x: jax.lax.conv(
        jax.lax.broadcast(x, (1, 1, 1)), jax.lax.broadcast(x, (1, 1, 1)), (1,), "SAME"
    ),
    "eig": lambda x: jax.lax.linalg.eig(x[None, None]),
    "eigh": lambda x: jax.lax.linalg.eigh(x[None, None]),
    "qr": lambda x: jax.lax.linalg.qr(x[None, None]),
    "svd": lambda x: jax.lax.linalg.svd(x[None, None]),
    "top_k": lambda x: jax.lax.top_k(x[None], 1),
}
_SILENT_NAMES = (
    *("accuracy", "algorithm", "branches_platforms", "broadcast_dimensions"),
    *("dimensions", "implementation", "is_stable", "out_dtype", "out_sharding"),
    *("pivoting", "precision", "preferred_element_type", "sharding"),
    *("subset_by_index", "use_magma"),
)
_SILENT_VALUES = (None, False, True, ())


@functools.cache
def silent_params(name: str) -> Mapping[str, Any]:
    """Return params of a primitive, with what they are where nobody says otherwise.

    Releases print them or not, and have more and more of them.
    """
    made = traced_params(name) or {}
    return {k: v for k, v in made.items() if k in _SILENT_NAMES and v in _SILENT_VALUES}


@functools.cache
def traced_params(name: str) -> Mapping[str, Any] | None:
    """Return the params of a primitive where it is traced; None for most of them."""
    function = _SILENT.get(name)
    if function is None:
        return None
    traced = jax.make_jaxpr(function)(np.float32(1))
    eqns = split_jaxpr(traced)[0].eqns
    found = [eqn.params for eqn in eqns if eqn.primitive.name == name]
    return found[-1] if found else None


def device(kind: str, number: Any) -> Any:
    """Return the device that prints as `CpuDevice(id=0)`, None if it is not here."""
    for one in jax.devices():
        is_kind = type(one).__name__ == kind or str(one.platform) in kind.lower()
        if is_kind and one.id == number:
            return one
    return None


_NAME = re.compile(r"'([^']*)'")


def named_policy(text: str) -> Any:
    """Return the remat policy that prints as a record of names (jax 0.10)."""
    for kind, (maker, _) in POLICY_RECORDS.items():
        if text.startswith(f"{kind.__name__}("):
            names = _NAME.findall(text)
            policy = getattr(jax.checkpoint_policies, maker)(*names)
            return policy if str(policy) == text else None
    return None


def renamed(jaxpr: Any, name: str) -> Any:
    """Return a jaxpr whose debug info has another name."""
    body, _ = split_jaxpr(jaxpr)
    body = body.replace(debug_info=body.debug_info._replace(func_src_info=name))
    return close_jaxpr(body)


def only_call(jaxpr: Any) -> str:
    """Return the name of the jitted function that is all of a jaxpr; "" for others.

    Before jax 0.7 the names of functions with derivative rules were not printed.
    """
    eqns = split_jaxpr(jaxpr)[0].eqns
    if len(eqns) != 1 or eqns[0].primitive.name != "jit":
        return ""
    return str(eqns[0].params["name"])


def rule_params(function: Any, avals: Sequence[Any], primitive: str) -> Any:
    """Return the params of the call of a function with a rule of its own.

    None if tracing the function, which may raise anything, gives no such call.
    """
    debug = _core.DebugInfo("untrace", "rule", None, None)

    def flat(*args: Any) -> Any:
        return jax.tree.leaves(function(*args))

    wrapped = _lu.wrap_init(flat, debug_info=debug)
    try:
        jaxpr, _, consts = _pe.trace_to_jaxpr_dynamic(wrapped, list(avals))
    except Exception:  # rules of any function
        return None
    eqns = jaxpr.eqns
    if consts or len(eqns) != 1 or eqns[0].primitive.name != primitive:
        return None
    return dict(eqns[0].params)


def library_rules(name: str) -> Iterator[Any]:
    """Yield the functions of JAX that have a rule of their own, by their name."""
    kinds = jax.custom_jvp, jax.custom_vjp
    for module_name, module in sys.modules.copy().items():
        if module_name.partition(".")[0] != "jax":
            continue
        for value in list(vars(module).values()):
            if isinstance(value, kinds) and getattr(value, "__name__", "") == name:
                yield value


_Slice: Any = _indices.Slice


def indexer_tree(
    indices: Sequence[Sequence[Any]], shape: tuple[Any, ...]
) -> tuple[list[Any], Any]:
    """Return the operands and the tree of an index into a reference.

    Args:
      indices: For each index in turn, an item a dimension: a number, a slice as
        `(start, size, step)`, or anything that stands for an operand.
      shape: That of the reference.
    """
    transforms: list[Any] = []
    for index in indices:
        items = tuple(
            _Slice(*item) if isinstance(item, tuple) else item for item in index
        )
        indexer = _indexing.NDIndexer(items, shape, ())
        transforms.append(indexer)
        shape = tuple(i.size for i in items if isinstance(i, _Slice))
    return jax.tree.flatten(tuple(transforms))


def replicated(n_axes: int) -> Any:
    """Return the sharding over no mesh of an array with so many axes."""
    spec = jax.sharding.PartitionSpec(*[None] * n_axes)
    return jax.sharding.NamedSharding(_mesh.empty_abstract_mesh, spec)
