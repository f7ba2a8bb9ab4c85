"""Failures to reduce, one per file, each inside a realistic program.

A case defines

- `PROGRAM` and `arguments()`: a function of 500 to 3,000 equations (those of
  sub-programs count) and concrete arguments with which it fails;
- `KEEP`: the predicate, as text;
- `minimal`, `minimal_arguments()`, `MINIMAL`: a program found by hand that fails in the
  same way, and the number of its equations;
- `VERSIONS`: prefixes of the versions of JAX on which it fails;
- `ORIGIN`: the issue where it was reported, or "planted".

`python -m benchmarks.reduce.cases` lists them. `tests/reduction/test_cases.py` checks
that minimal forms fail as described.
"""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

# The case that needs a second Python with another JAX finds it in this variable.
OTHER_PYTHON = "UNTRACE_OTHER_PYTHON"


def names() -> list[str]:
    """List the cases, sorted by name."""
    found = (info.name for info in pkgutil.iter_modules(__path__))
    return sorted(name for name in found if not name.startswith("_"))


def load(name: str) -> ModuleType:
    """Import a case."""
    return importlib.import_module(f"{__name__}.{name}")
