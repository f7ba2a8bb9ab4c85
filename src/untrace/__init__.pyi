"""The public names and where they are defined; `__init__.py` imports each when it is used."""

import typing

from . import keep
from ._version import __version__
from .api import source, sourcerize
from .comparing import diff
from .errors import (
    CaptureError,
    InverseError,
    KeepError,
    LiftingError,
    LoadError,
    OptionError,
    ParseError,
    SaveError,
    UntraceError,
    UnverifiedWarning,
)
from .extension import register
from .interpreters.comparing.comparison import Comparison
from .interpreters.diverging.divergence import divergence
from .interpreters.diverging.result import Divergence
from .interpreters.interpret import interpret
from .interpreters.inverse import inverse, inverse_and_log_det
from .interpreters.inverse_rules.registering import register_inverse
from .interpreters.nans.nan_origin import NanOrigin, nan_origin
from .interpreters.recompiling.recompilations import CompileWatch, Recompilation
from .interpreters.watch import Watched, watch
from .loading import load
from .readers.jaxprs import parse
from .recompiling import watch_compiles, why_recompiled
from .reducing import reduce
from .reduction.result import Reduction
from .result import Source

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
    "OptionError",
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

def load_ipython_extension(shell: typing.Any) -> None: ...
