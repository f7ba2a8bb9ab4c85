"""untrace: the inverse of tracing.

From a function and its inputs, or a jaxpr, to readable, standalone JAX source code that
is proved to be the same computation by tracing it again.
"""

from untrace._version import __version__
from untrace.api import source, sourcerize
from untrace.errors import (
    CaptureError,
    LiftingError,
    LoadError,
    SaveError,
    UntraceError,
    UnverifiedWarning,
)
from untrace.extension import register
from untrace.result import Source

__all__ = [
    "CaptureError",
    "LiftingError",
    "LoadError",
    "SaveError",
    "Source",
    "UntraceError",
    "UnverifiedWarning",
    "__version__",
    "register",
    "source",
    "sourcerize",
]
