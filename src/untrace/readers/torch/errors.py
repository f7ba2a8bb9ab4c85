"""What torch code does that cannot be expressed, and where."""

# `sys._getframe` is how the user's line is found.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from types import FrameType

import jax

from untrace.errors import CaptureError
from untrace.folder import OWN_FOLDER
from untrace.readers.torch.fallback import without_torchax
from untrace.readers.torch.library import torch

_PASSED_OVER = (
    OWN_FOLDER,
    os.path.dirname(torch.__file__) + os.sep,
    os.path.dirname(jax.__file__) + os.sep,
)


_NEEDS_VALUE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)


class ValueNeededError(CaptureError):
    """Torch code asks for a value that is known only when the program runs."""


class StaleTensorError(CaptureError):
    """A tensor of an earlier run is used, which a cache has kept."""


def stale_tensor() -> StaleTensorError:
    """The error that names the user's line."""
    return StaleTensorError(
        f"a tensor of an earlier run is used{user_line()}: the module, or a cache of a "
        "function, keeps what it computed. Keep it in a buffer, or compute it in each run."
    )


def no_lowering(name: str, reason: Exception | None = None) -> CaptureError:
    """The error that names a function of torch and the user's line that calls it."""
    place = user_line()
    if isinstance(reason, _NEEDS_VALUE):
        return ValueNeededError(
            f"`{name}` of torch{place} needs a value that is known only when the program "
            "runs. Branches on values of tensors, and shapes that depend on them, cannot "
            "be traced: pass the value as a Python number, or use torch.where."
        )
    why = f" ({reason})" if reason and str(reason) else ""
    if reason is not None and not isinstance(reason, NotImplementedError):
        what = type(reason).__name__
        return CaptureError(f"`{name}` of torch{place} raised {what} in JAX{why}.")
    then = without_torchax()
    return CaptureError(
        f"`{name}` of torch{place} has no counterpart in JAX here{why}. Write it with "
        "other functions of torch, or enter a lowering of it in "
        "`untrace.readers.torch.lowerings.LOWERINGS`." + (then and f" {then}")
    )


def user_line() -> str:
    """Where the user's code stands, ` (model.py:12: x = f(y))`; empty if nowhere."""
    frame: FrameType | None = sys._getframe(1)
    stdlib = sysconfig.get_paths()["stdlib"] + os.sep
    while frame is not None:
        file = frame.f_code.co_filename
        is_python = file.startswith(stdlib) and "site-packages" not in file
        if not (file.startswith(_PASSED_OVER) or is_python):
            text = linecache.getline(file, frame.f_lineno).strip()
            said = f": {text}" if text else ""
            return f" ({os.path.basename(file)}:{frame.f_lineno}{said})"
        frame = frame.f_back
    return ""
