"""The frames behind an equation: which lines, and which part of a line, made it."""

from __future__ import annotations

import bisect
import os
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jax._src import config as _config
from jax._src import core as _core
from jax._src import source_info_util as _source_info_util

from untrace.folder import OWN_FOLDER


@dataclass(frozen=True, slots=True)
class UserFrame:
    """A frame outside JAX, and the place in its file that was being executed.

    Lines count from 1, columns from 0; the end is exclusive.
    """

    file: str
    function: str
    place: tuple[int, int, int, int]


def user_frames(source_info: Any) -> list[UserFrame]:
    """List the frames of an equation outside JAX, innermost first.

    Equations of a backward pass have none: they were not made by the code that their
    tracebacks show.
    """
    traceback = source_info.traceback
    if traceback is None or "transpose(" in str(source_info.name_stack):
        return []
    return [_user_frame(frame) for frame in _frames(traceback)]


def _user_frame(frame: Any) -> UserFrame:
    name = frame.function_name.rpartition(".")[2]
    place = frame.start_line, frame.start_column, frame.end_line, frame.end_column
    return UserFrame(frame.file_name, name, place)


def _frames(traceback: Any) -> list[Any]:
    """List the frames outside JAX and this package, innermost first."""
    frames = _source_info_util.user_frames(traceback)
    return [frame for frame in frames if not frame.file_name.startswith(OWN_FOLDER)]


@dataclass(frozen=True, slots=True)
class Origin:
    """The instruction of the user's code that an equation comes from.

    Attributes:
      code: The code object.
      lasti: Where the instruction is, in bytes.
      is_backward: Whether the equation belongs to a backward pass; then this is that of
        the forward computation.
    """

    code: types.CodeType
    lasti: int
    is_backward: bool


def origin(source_info: Any) -> Origin | None:
    """Return the place in the user's code that an equation comes from."""
    if source_info.traceback is None:
        return None
    frames = [
        (code, lasti)
        for code, lasti in zip(*source_info.traceback.raw_frames())
        if _source_info_util.is_user_filename(code.co_filename)
        and not code.co_filename.startswith(OWN_FOLDER)
    ]
    if not frames:
        return None
    own = [frame for frame in frames if not _is_installed(frame[0])]
    code, lasti = (own or frames)[0]
    return Origin(code, lasti, "transpose(" in str(source_info.name_stack))


def users_place(*source_infos: Any) -> str:
    """Return "file.py:line" of the user's code behind an equation, or "".

    A line of the user's own goes before one of a package that is installed.

    Args:
      source_infos: That of the equation, then those of the calls around it, innermost
        first: what JAX traced once for many calls does not know where it is called.
    """
    made = [found for info in source_infos if (found := origin(info)) is not None]
    if not made:
        return ""
    code, lasti = next(
        ((m.code, m.lasti) for m in made if not _is_installed(m.code)),
        (made[0].code, made[0].lasti),
    )
    return f"{os.path.basename(code.co_filename)}:{line_at(code, lasti)}"


def _is_installed(code: types.CodeType) -> bool:
    return "site-packages" in code.co_filename


def line_at(code: types.CodeType, lasti: int) -> int:
    """Return the line of an instruction, as `f_lineno` does.

    Python looks for it from the first instruction on.
    """
    known = _known_lines.get(id(code))
    if known is None:
        runs = [(first, line) for first, _, line in code.co_lines()]
        known = code, [first for first, _ in runs], [line for _, line in runs]
        if len(_known_lines) >= _MAX_KNOWN:
            _known_lines.clear()
        _known_lines[id(code)] = known
    _, starts, lines = known
    index = bisect.bisect_right(starts, lasti) - 1
    return (lines[index] if index >= 0 else None) or code.co_firstlineno


_MAX_KNOWN = 4096
# By identity: Python goes through all of a code object to hash it.
_known_lines: dict[int, tuple[types.CodeType, list[int], list[int | None]]] = {}


def source_info_of(tracer: Any) -> Any:
    """Return the source information of the equation that made a tracer, if it has one.

    A tracer of a transformation leads to those that it computes with.
    """
    while isinstance(tracer, _core.Tracer):
        info = getattr(tracer, "_line_info", None)
        if info is not None:
            return info
        tracer = getattr(tracer, "primal", getattr(tracer, "val", None))
    return None


def set_source_info(tracers: Iterable[Any], source_info: Any) -> None:
    """Say where the equation comes from that has just made some tracers.

    A context would do that too, but would also stand for the places of what is traced
    meanwhile, such as functions with derivative rules.
    """
    for tracer in tracers:
        eqn = getattr(tracer, "parent", None)
        if eqn is not None:
            eqn.source_info = source_info


def is_made_by_jax(debug_info: Any) -> bool:
    """Whether a jaxpr is that of one of JAX's own functions, by its debug info."""
    filename = getattr(debug_info, "func_filename", None) or ""
    return filename.startswith(_FOLDER)


_FOLDER = os.path.dirname(os.path.dirname(_core.__file__)) + os.sep


def innermost(source_info: Any) -> tuple[str, int, bool] | None:
    """Return file and line of the innermost frame outside JAX.

    The third item tells that the equation belongs to a backward pass.
    """
    if source_info.traceback is None:
        return None
    frame = next(iter(_frames(source_info.traceback)), None)
    if frame is None:
        return None
    is_backward = "transpose(" in str(source_info.name_stack)
    return frame.file_name, frame.start_line, is_backward


def forward_frames(source_info: Any) -> list[UserFrame]:
    """List the frames outside JAX of the call that an equation belongs to, innermost first.

    Equations of a backward pass belong to the call that they are the derivative of.
    """
    if source_info.traceback is None:
        return []
    return [_user_frame(frame) for frame in _frames(source_info.traceback)]


def jax_functions(source_info: Any) -> list[str]:
    """Name the functions of JAX that the user's code called, innermost first.

    Among them are those of JAX's own machinery.
    """
    if source_info.traceback is None:
        return []
    names: list[str] = []
    for frame in source_info.traceback.frames:
        if not frame.file_name.startswith((_FOLDER, OWN_FOLDER)):
            break
        names.append(frame.function_name.rpartition(".")[2])
    return names


def is_backward(source_info: Any) -> bool:
    """Whether an equation belongs to a backward pass."""
    return "transpose(" in str(source_info.name_stack)


def whole_tracebacks() -> Any:
    """Return a context in which JAX does not filter tracebacks, which takes it long."""
    return _config.traceback_filtering("off")
