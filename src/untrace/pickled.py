"""What of a recovered program outlives its process: the text and what is known of it.

The computation does not: jaxprs and the user's functions have no other home than the
process. So a `Source` that was pickled loads the file's own function, on plain trees.
"""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from untrace.emission import Module
from untrace.verification.difference import Difference
from untrace.verification.report import Report


@dataclass(frozen=True, slots=True)
class Kept:
    """The parts of a file that are made of the computation.

    Attributes:
      header: The text of its docstring.
      marks: Its last lines.
    """

    header: str
    marks: tuple[str, ...]


def kept_module(module: Module) -> Module:
    """Return a module without what belongs to this process: classes and functions."""
    stored = {name: np.asarray(array) for name, array in module.stored.items()}
    return Module(module.body, module.name, {}, stored)


def restored_module(module: Module) -> Module:
    """Return a module whose arrays have the dtypes that arrays of this process have."""
    stored = {
        name: array.view(np.dtype(array.dtype.str))
        for name, array in module.stored.items()
    }
    return replace(module, stored=stored)


def kept_report(report: Report) -> Report:
    """Return a report without jaxprs; differences are what they say."""
    return replace(
        report,
        difference=_told(report.difference),
        parting=_told(report.parting),
        traced=None,
        interface=None,
    )


def kept_parity(parity: Any) -> Any:
    """Return how near a module of torch is, if that can be pickled."""
    return parity if _is_picklable(parity) else None


def _told(found: Any) -> Any:
    if isinstance(found, Difference):
        return replace(found, equation=None, blamed=())
    if isinstance(found, Exception) and not _is_picklable(found):
        return RuntimeError(f"{type(found).__name__}: {found}")
    return found if _is_picklable(found) else None


def _is_picklable(value: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:  # classes refuse it in their own ways
        return False
    return True
