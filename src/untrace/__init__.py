"""untrace: the inverse of tracing.

From a function and its inputs, or a jaxpr, to readable, standalone JAX source code that
is proved to be the same computation by tracing it again.
"""

from typing import Any

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def load_ipython_extension(shell: Any) -> None:
    """Register `%untrace` and `%%untrace`, for `%load_ext untrace`."""
    from untrace.ipython import load_ipython_extension

    load_ipython_extension(shell)
