"""`symbolic=True`: sizes that the program is written for any value of have names.

The function is traced again with other sizes: of each class of tied axes alone, and of
all of them. Numbers that change are written as expressions of the dimensions, which are
defined at the top of the file. The file is executed, traced and compared at each of these
sizes, too; a dimension for which it differs loses its name, and the rest is tried again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.capture import Captured
from untrace.checking import check_module
from untrace.emission import Module
from untrace.lifting.recorded.numbers.dimensions import shapes, written_with
from untrace.lifting.sizes import Dimensions
from untrace.options import Options
from untrace.pipeline import Progress
from untrace.recorded import untrace_recorded
from untrace.resizing import Search
from untrace.result import Source

NOTHING = (
    "No dimension has a name: at other sizes the program takes another form, or its "
    "shapes are made of no numbers."
)


def untrace_calls(
    captured: Captured, options: Options, progress: Progress | None = None
) -> Source:
    """Turn a recorded computation into verified source, with named dimensions if asked."""
    if captured.variant is None or captured.recording.error is not None:
        return untrace_recorded(captured, options, progress)
    (progress or (lambda stage: None))("tracing at other sizes")
    with jaxapi.deep_recursion():
        search = Search(captured)
        classes = search.classes()
    while classes:
        joint = search.together(classes)
        if joint is None:
            classes.pop()
            continue
        samples = [captured, *(item.sample for item in classes), joint]
        axes = [item.axes for item in classes]
        written = written_with(samples, axes, options.anonymous)
        source = untrace_recorded(written, options, progress)
        dimensions = written.dimensions
        wrong = _unproved(source.module, written, options)
        if not wrong and source.report.is_verified:
            return _with_note(source, _note(dimensions, source.module))
        classes = [c for i, c in enumerate(classes) if i not in wrong]
        if not wrong:
            break
    source = untrace_recorded(replace(captured, variant=None), options, progress)
    return _with_note(source, NOTHING)


def is_proved(module: Module, captured: Captured, options: Options) -> bool:
    """Tell whether a module is the program of the original at all sizes tried."""
    return not _unproved(module, captured, options)


def _unproved(module: Module, captured: Captured, options: Options) -> set[int]:
    """Return the dimensions that must not have names."""
    n_samples = len(captured.dimensions.samples)
    *alone, together = [
        _is_same(module, captured, i, options) for i in range(n_samples)
    ]
    wrong = {i for i, is_same in enumerate(alone) if not is_same}
    return wrong if wrong or together else {len(alone) - 1}


def _is_same(module: Module, captured: Captured, index: int, options: Options) -> bool:
    """Tell whether the file, set to other sizes, is what the function does there."""
    dimensions: Dimensions = captured.dimensions
    sample: Captured = dimensions.samples[index]
    if options.reroll == "scan":  # another program, whose values are compared
        sample = replace(sample, values=tuple(_values(captured, sample)))
    body = dimensions.resized(module.body, index + 1)
    report = check_module(replace(module, body=body), sample)
    is_rerolled = options.reroll == "scan" and report.strength == "numeric"
    return report.is_verified or is_rerolled


def _values(captured: Captured, sample: Captured) -> Iterator[Any]:
    """Yield inputs of other sizes that repeat the values of those at hand."""
    for value, shape in zip(captured.values, shapes(sample)):
        is_known = jaxapi.is_concrete(value) and not jaxapi.is_key(value)
        yield np.resize(np.asarray(value), shape) if is_known else None


def _with_note(source: Source, note: str) -> Source:
    report = replace(source.report, notes=(*source.report.notes, note))
    return replace(source, report=report, _text=[])


def _note(dimensions: Dimensions, module: Module) -> str:
    written = [
        d for d in dimensions.named if re.search(rf"^{d.name} = ", module.body, re.M)
    ]
    if not written:
        return NOTHING
    sizes = ", ".join(f"{d.name} = {d.samples[-1]}" for d in written)
    if len(written) == 1:
        return f"A dimension has a name. Verified at another size, too: {sizes}."
    return (
        "Dimensions have names. Verified at other sizes, too, each changed alone and all "
        f"at once: {sizes}."
    )
