# Entering a `shard_map` has no public spelling.
# pyright: reportPrivateUsage=false
"""What surrounds an equation: its context, its named scopes, its lines of code.

jax 0.10 calls the decorator `compute_on2` that is `compute_on` later. Later releases
also have more fields in an equation context; `use_layout_mode` came with jax 0.11.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

from jax._src import config as _config
from jax._src import core as _core
from jax._src import mesh as _mesh
from jax._src import shard_map as _shard_map
from jax._src import source_info_util as _source_info_util
from jax._src.compute_on import extend_compute_type as _extend_compute_type
from jax.experimental import compute_on as _compute_on

from untrace.jaxapi import written

CONTEXT_FIELDS: tuple[str, ...] = tuple(
    name
    for name in _core.JaxprEqnContext.__slots__
    if name not in ("configs", "__weakref__")
)
# jax 0.10 calls the decorator `compute_on2`, beside a context manager `compute_on`.
COMPUTE_ON = "compute_on2" if hasattr(_compute_on, "compute_on2") else "compute_on"
COMPUTE_CONTEXT = (
    ("jax.experimental.compute_on", "compute_on")
    if COMPUTE_ON == "compute_on2"
    else written.COMPUTE_CONTEXT
)


def ambient_context() -> Any:
    """Return the equation context that tracing would record right now."""
    return _core.current_jaxpr_eqn_context()


def context_fields(context: Any) -> dict[str, Any]:
    """List the fields of an equation context."""
    return {name: getattr(context, name) for name in CONTEXT_FIELDS}


DEFAULT_CONTEXT: dict[str, Any] = {
    **context_fields(ambient_context()),
    "compute_type": None,
    "threefry_partitionable": True,
    "xla_metadata": None,
    "cur_abstract_mesh": _mesh.empty_abstract_mesh,
    "remove_size_one_mesh_axis": False,
}
"""The equation context of a new process."""


def context_mesh(eqn_context: Any) -> Any:
    """Return the abstract mesh of an equation context, which may be empty."""
    return eqn_context.cur_abstract_mesh


def scalar_mesh(eqn_context: Any) -> Any:
    """Return the mesh that types a scalar which an operator makes an array of."""
    mesh = eqn_context.cur_abstract_mesh
    return _mesh.empty_abstract_mesh if mesh.explicit_axes else mesh


@contextlib.contextmanager
def rule_context(
    eqn_context: Any, check_vma: bool = True
) -> Generator[None, None, None]:
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


@contextlib.contextmanager
def manual_region(
    shard_map_params: Any, eqn_context: Any
) -> Generator[None, None, None]:
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
def compute_region(compute_type: str, eqn_context: Any) -> Generator[None, None, None]:
    """Enter the state in which the body of a `compute_on` equation was traced."""
    with eqn_context.manager, _extend_compute_type(compute_type):
        yield


@contextlib.contextmanager
def equation_context(eqn: Any) -> Generator[None, None, None]:
    """Enter the context, named scopes and traceback of an equation of a jaxpr.

    What is traced here is named as the equation was, comes from the user's line that it
    came from, and errors point to that line; so does JAX's own evaluation of jaxprs.
    """
    info = eqn.source_info
    names = _source_info_util.current_name_stack() + info.name_stack
    with (
        _source_info_util.user_context(info.traceback, name_stack=names),
        eqn.ctx.manager,
    ):
        yield


def scope_names(source_info: Any) -> list[str]:
    """Return the names of the `jax.named_scope`s around an equation, outermost first.

    Those inside of a transformation are one name with it, `transpose(jvp(layer))`, as JAX
    writes it in profiles.
    """
    stack = source_info.name_stack.stack
    is_scope = [isinstance(element, _source_info_util.Scope) for element in stack]
    n_plain = is_scope.index(False) if False in is_scope else len(stack)
    names = [element.name for element in stack[:n_plain]]
    if any(is_scope[n_plain:]):
        names.append(str(_source_info_util.NameStack(stack[n_plain:])))
    return names


def line_in_file(source_info: Any, filename: str) -> int:
    """Return the innermost line of a file in an equation's traceback, or 0."""
    return next(iter(lines_in_file(source_info, filename)), 0)


def lines_in_file(source_info: Any, filename: str) -> list[int]:
    """List the lines of a file in an equation's traceback, innermost first."""
    traceback = source_info.traceback
    frames = [] if traceback is None else traceback.frames
    return [frame.line_num for frame in frames if frame.file_name == filename]


def user_frame(source_info: Any) -> str:
    """Return "file.py:line" of the user's code behind an equation, or ""."""
    frame = _source_info_util.user_frame(source_info.traceback)
    if frame is None:
        return ""
    return f"{frame.file_name.rpartition('/')[2]}:{frame.start_line}"
