# These are JAX's private hooks; `tests/interpreters` checks each on every version.
# pyright: reportPrivateUsage=false
"""What a call of a jitted function is compiled for, and when JAX compiles.

JAX tells `jax.monitoring` (public) that it has compiled, from within the call that made
it do so. Which call that was is read from the frames of the stack: those of a jitted
function that is not in its cache hold the function, the options of `jax.jit` and the
arguments. Nothing of JAX is replaced. Where a frame is not as expected, the compilation
is reported without its call.
"""

from __future__ import annotations

import contextlib
import os
import sys
import types
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

import jax.monitoring
from jax._src import config as _config
from jax._src import core as _core
from jax._src import source_info_util as _source_info_util

from untrace.folder import OWN_FOLDER
from untrace.jaxapi.sharding import ambient_mesh

_COMPILED = "/jax/core/compile/backend_compile_duration"
_PJIT = os.path.join(os.path.dirname(_core.__file__), "pjit.py")
_MISS = "cache_miss"
_TREES = ("in_shardings", "out_shardings", "in_layouts", "out_layouts")
_OPTIONS = (
    *("static_argnums", "static_argnames", "donate_argnums", "donate_argnames"),
    *("device", "backend", "keep_unused", "inline", "compiler_options_kvs"),
)


@dataclass(frozen=True, slots=True, eq=False)
class JitCall:
    """A call of a jitted function.

    Attributes:
      function: The Python function that is jitted.
      options: What `jax.jit` was told.
      args: Positional arguments.
      kwargs: Keyword arguments.
      place: "file.py:12", where the call stands; "" if that is not known.
    """

    function: Any
    options: Mapping[str, Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    place: str = ""


def jit_call(
    jitted: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> JitCall | None:
    """Describe a call of a jitted function; None if the function is not one."""
    if isinstance(jitted, types.MethodType):
        jitted, args = jitted.__func__, (jitted.__self__, *args)
    told = getattr(jitted, "_jit_info", None)
    if type(jitted).__name__ != "PjitFunction" or told is None:
        return None
    return JitCall(jitted.__wrapped__, _options(told), args, kwargs)


def _options(told: Any) -> dict[str, Any]:
    found = {name: getattr(told, name, None) for name in _OPTIONS}
    for name in _TREES:
        leaves = getattr(told, f"{name}_leaves", ())
        found[name] = (leaves, str(getattr(told, f"{name}_treedef", "")))
    return found


def trace_settings() -> dict[str, Any]:
    """All settings and contexts that decide whether a trace can be used again, now."""
    names: Any = getattr(_config, "trace_context_names", tuple)()
    settings: dict[str, Any] = dict(zip(names, _config.trace_context()))
    return {**settings, "concrete_mesh": ambient_mesh()}


def layout_of(array: Any) -> Any:
    """How an array lies in memory; None if that is not known."""
    return getattr(getattr(array, "format", None), "layout", None)


@contextlib.contextmanager
def watching_compiles(
    notify: Callable[[JitCall | None, str, float], None],
) -> Generator[None, None, None]:
    """Be told of every compilation in this process.

    Args:
      notify: Called with the call that was compiled for (None if it is not known), what
        JAX calls the program, and how long compiling took, in seconds.
    """

    def listen(event: str, duration_secs: float, **facts: str | int) -> None:
        if event == _COMPILED:
            call = _calling(sys._getframe(1))
            notify(call, str(facts.get("fun_name", "")), duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        yield
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def _calling(frame: types.FrameType | None) -> JitCall | None:
    """Find the call of a jitted function that a frame is within."""
    while frame is not None:
        code = frame.f_code
        if code.co_name == _MISS and code.co_filename == _PJIT:
            return _read_frame(frame)
        frame = frame.f_back
    return None


def _read_frame(frame: types.FrameType) -> JitCall | None:
    held = frame.f_locals
    names = ("fun", "jit_info", "args", "kwargs")
    if not all(name in held for name in names):
        return None
    function, told, args, kwargs = (held[name] for name in names)
    return JitCall(function, _options(told), args, kwargs, _place(frame))


def _place(frame: types.FrameType | None) -> str:
    """Where the user's code stands that a frame was called from."""
    while frame is not None:
        file = frame.f_code.co_filename
        if _source_info_util.is_user_filename(file) and not file.startswith(OWN_FOLDER):
            return f"{os.path.basename(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def is_of_jax_itself(function: Any) -> bool:
    """Whether a function is one of JAX's own, such as an operation that runs by itself."""
    while hasattr(function, "func"):
        function = function.func
    code = getattr(function, "__code__", None)
    if code is None:
        return str(getattr(function, "__module__", "")).partition(".")[0] == "jax"
    return not _source_info_util.is_user_filename(code.co_filename)
