"""untrace: the inverse of tracing.

From a function and its inputs, or a jaxpr, to readable, standalone JAX source code that
is proved to be the same computation by tracing it again.
"""

from typing import Any

from untrace import keep
from untrace._version import __version__
from untrace.api import source, sourcerize
from untrace.comparing import diff
from untrace.errors import (
    CaptureError,
    InverseError,
    KeepError,
    LiftingError,
    LoadError,
    ParseError,
    SaveError,
    UntraceError,
    UnverifiedWarning,
)
from untrace.extension import register
from untrace.interpreters.comparing.comparison import Comparison
from untrace.interpreters.diverging.divergence import divergence
from untrace.interpreters.diverging.result import Divergence
from untrace.interpreters.interpret import interpret
from untrace.interpreters.inverse import inverse, inverse_and_log_det
from untrace.interpreters.inverse_rules.registering import register_inverse
from untrace.interpreters.nans.nan_origin import NanOrigin, nan_origin
from untrace.interpreters.recompiling.recompilations import CompileWatch, Recompilation
from untrace.interpreters.watch import Watched, watch
from untrace.loading import load
from untrace.readers.jaxprs import parse
from untrace.recompiling import watch_compiles, why_recompiled
from untrace.reducing import reduce
from untrace.reduction.result import Reduction
from untrace.result import Source

__all__ = [
    "CaptureError",
    "Comparison",
    "CompileWatch",
    "Divergence",
    "InverseError",
    "KeepError",
    "LiftingError",
    "LoadError",
    "NanOrigin",
    "ParseError",
    "Recompilation",
    "Reduction",
    "SaveError",
    "Source",
    "UntraceError",
    "UnverifiedWarning",
    "Watched",
    "__version__",
    "diff",
    "divergence",
    "interpret",
    "inverse",
    "inverse_and_log_det",
    "keep",
    "load",
    "nan_origin",
    "parse",
    "reduce",
    "register",
    "register_inverse",
    "source",
    "sourcerize",
    "watch",
    "watch_compiles",
    "why_recompiled",
]


def __dir__() -> list[str]:
    """The public names, without the modules that define them."""
    return sorted(__all__)


def load_ipython_extension(shell: Any) -> None:
    """Register `%untrace` and `%%untrace`, for `%load_ext untrace`."""
    from untrace.ipython import load_ipython_extension

    load_ipython_extension(shell)
