"""`symbolic=True`: sizes that the program is written for any value of have names.

The function is traced again with other sizes: of each class of tied axes alone, and of
all of them. Numbers that change are written as expressions of the dimensions, which are
defined at the top of the file. The file is executed, traced and compared at each of these
sizes and at more (`probing`); a dimension for which it differs loses its name, and the rest
is tried again. Nothing is said of sizes that were not tried; the header lists those that were.

Both are done while there is time: `SECONDS`, or what is left of the job's own. What was found
by then is written, and compared at the sizes that were reached.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.capture import Captured
from untrace.checking import check_module
from untrace.emission import Module
from untrace.lifting.recorded.numbers.dimensions import shapes, written_with
from untrace.lifting.sizes import Dimensions
from untrace.optional import gives, optional, writing
from untrace.options import Options
from untrace.pipeline import Progress
from untrace.probing import Prober, Trial
from untrace.progress import expect, tick
from untrace.recorded import untrace_recorded
from untrace.resizing import Search, Varied
from untrace.result import Source
from untrace.stages import Budget, is_late, seconds_left

NOTHING = (
    "symbolic=True changes nothing: at other sizes the program takes another form, or "
    "its shapes are made of no numbers."
)

LATE = (
    "symbolic=True changes nothing: the time was over before the file was verified at "
    "other sizes."
)

OVER = " The time for that was over: other dimensions may be numbers, and fewer sizes were tried."

SECONDS = 60.0
"""Time for other sizes, unless the job has another budget."""


def untrace_calls(
    captured: Captured, options: Options, progress: Progress | None = None
) -> Source:
    """Turn a recorded computation into verified source, with named dimensions if asked."""
    if captured.variant is None or captured.recording.error is not None:
        return untrace_recorded(captured, options, progress)
    left = seconds_left()
    budget = Budget(SECONDS if left is None else left)

    def plain() -> Source:
        alone = replace(captured, variant=None)
        source = untrace_recorded(alone, options, progress)
        return _with_note(source, LATE if budget.was_over else NOTHING)

    return writing(
        lambda: with_dimensions(captured, options, progress, budget) or plain()
    )


@optional(gives(None), is_blamed=False)
def with_dimensions(
    captured: Captured, options: Options, progress: Progress | None, budget: Budget
) -> Source | None:
    """Return source with named dimensions; None if none can have a name."""
    note_progress = progress or (lambda stage: None)
    note_progress("tracing at other sizes")
    with jaxapi.deep_recursion():
        search = Search(captured, budget)
        classes = search.classes()
    # What is rerolled is another program, whose values are compared: it is run.
    prober = Prober(captured, search, 5 if options.reroll == "scan" else None)
    while classes and not is_late():
        joint = search.together(classes)
        if joint is None:
            classes.pop()
            continue
        samples = [captured, *(item.sample for item in classes), joint]
        axes = [item.axes for item in classes]
        written = written_with(samples, axes, options.anonymous)
        source = untrace_recorded(written, options, progress)
        is_rolled = source.report.strength == "rerolled"
        file = _File(source.module, written, is_rolled, prober, classes, budget)
        note_progress("comparing at other sizes")
        wrong, tried = file.wrong()
        if not wrong and source.report.is_verified:
            source = replace(source, captured=tried)
            note = _note(tried.dimensions, source.module)
            return _with_note(source, note + (OVER if budget.was_over else ""))
        classes = [c for i, c in enumerate(classes) if i not in wrong]
        if not wrong:
            break
    return None


def is_same_everywhere(module: Module, captured: Captured, is_rolled: bool) -> bool:
    """Whether a module is the program of the original at all sizes tried.

    One with scans in place of repeated calls is another program, whose values are compared.
    """
    return not _failed(module, captured, is_rolled, 0)


@dataclass(frozen=True, slots=True)
class _File:
    """A file with named dimensions, compared with the function at other sizes.

    Changes are how much larger every dimension is.
    """

    module: Module
    written: Captured
    is_rolled: bool
    prober: Prober
    classes: Sequence[Varied]
    budget: Budget

    def wrong(self) -> tuple[set[int], Captured]:
        """Return the dimensions that must not have names, and all that was tried."""
        wrong = self._blamed(_failed(self.module, self.written, self.is_rolled, 0))
        if wrong:
            return wrong, self.written
        with jaxapi.deep_recursion():
            trials = list(self.prober.trials(self.classes))
        tried = self._with(trials)
        n_known = len(self.written.dimensions.samples)
        compared: list[bool] = []
        for is_same in _compared(self.module, tried, self.is_rolled, n_known):
            compared.append(is_same)
            if self.budget.is_over():
                break
        failed = _changes(tried, n_known, compared)
        return self._blamed(failed), self._with(trials[: len(compared)])

    def _blamed(self, failed: Sequence[tuple[int, ...]]) -> set[int]:
        """Return the dimensions to blame for the changes at which it is wrong."""
        wrong = {i for changes in failed for i in _only(changes)}
        for changes in failed:
            changed = {i for i, change in enumerate(changes) if change}
            if not wrong & changed:
                wrong |= self._blamed_apart(changes) or {max(changed)}
        return wrong

    def _blamed_apart(self, changes: Sequence[int]) -> set[int]:
        """Return the dimensions at which it is wrong when they change alone."""
        sizes = [c.size + change for c, change in zip(self.classes, changes)]
        tried = self._with(list(self.prober.alone(self.classes, sizes)))
        n_known = len(self.written.dimensions.samples)
        failed = _failed(self.module, tried, self.is_rolled, n_known)
        return {i for changes in failed for i in _only(changes)}

    def _with(self, trials: Sequence[Trial]) -> Captured:
        """Return the computation with more samples."""
        dimensions: Dimensions = self.written.dimensions
        for trial in trials:
            changes = [n - c.size for n, c in zip(trial.sizes, self.classes)]
            sample = replace(trial.sample, variant=None)
            dimensions = dimensions.with_sample(changes, sample)
        return replace(self.written, dimensions=dimensions)


def _failed(
    module: Module, captured: Captured, is_rolled: bool, first: int
) -> list[tuple[int, ...]]:
    """List the changes of the samples, from one on, at which a file is another program."""
    compared = list(_compared(module, captured, is_rolled, first))
    return _changes(captured, first, compared)


def _compared(
    module: Module, captured: Captured, is_rolled: bool, first: int
) -> Iterator[bool]:
    """Yield for each sample, from one on, whether a file is the program there."""
    dimensions: Dimensions = captured.dimensions
    expect(len(dimensions.samples) - first)
    for index in range(first, len(dimensions.samples)):
        yield _is_same(module, captured, index, is_rolled)
        tick()


def _changes(
    captured: Captured, first: int, compared: Sequence[bool]
) -> list[tuple[int, ...]]:
    """List the changes of the samples, from one on, at which something is not so."""
    dimensions: Dimensions = captured.dimensions
    return [
        tuple(d.samples[index + 1] - d.size for d in dimensions.named)
        for index, is_so in enumerate(compared, first)
        if not is_so
    ]


def _only(changes: Sequence[int]) -> list[int]:
    """Return what changes, if it does so alone."""
    changed = [i for i, change in enumerate(changes) if change]
    return changed if len(changed) == 1 else []


def _is_same(module: Module, captured: Captured, index: int, is_rolled: bool) -> bool:
    """Whether the file, set to other sizes, is what the function does there."""
    dimensions: Dimensions = captured.dimensions
    sample: Captured = dimensions.samples[index]
    if is_rolled:
        sample = replace(sample, values=tuple(_values(captured, sample)))
    body = dimensions.resized(module.body, index + 1)
    report = check_module(replace(module, body=body), sample)
    return report.is_verified or (is_rolled and report.strength == "numeric")


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
    sizes = "; ".join(
        f"{d.name} = {', '.join(map(str, sorted({*d.samples})))}" for d in written
    )
    if len(written) == 1:
        return f"A dimension has a name. Verified at the sizes {sizes}."
    return f"Dimensions have names. Verified at these sizes, not in all combinations: {sizes}."
