"""Let the example inputs of a file give numbers where those that were given do.

What a program needs of its inputs is kept as far as it shows in them (`lifting/examples.py`);
a condition on many of them at once does not. A program that has been run, since its values
are compared, is run on what was drawn, too: if its results are not finite there, inputs are
drawn from other seeds, and those that were given stay if none will do. All others, which
are proved without being run, are not run here either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture import Captured
from untrace.checking import executed
from untrace.emission import Module
from untrace.emission.seeds import with_seed
from untrace.result import Source
from untrace.saved import entered
from untrace.stages import is_late, stage
from untrace.verification.numeric import are_finite

SEEDS = range(1, 4)
"""Those to try after the one that files are written with."""

MAX_GIVEN_BYTES = 1 << 26
"""Most that those that were given may take beside the file."""

GIVEN = (
    "Its example inputs are those that were given: on drawn ones not all results are "
    "finite."
)


def with_finite_results(
    source: Source, rewritten: Callable[[Captured], Source], is_anonymous: bool
) -> Source:
    """Choose example inputs on which the results are finite, if they are on the given ones.

    Args:
      source: What was recovered.
      rewritten: Recovers it again.
      is_anonymous: Those that were given must not be in the file.

    Returns:
      The source, with other example inputs if that is of use. It is as it was if it was
      not run before, if time is up, or if anything fails on the way.
    """
    if not _may_run(source):
        return source
    try:
        with stage("draw inputs"):
            return _drawn_anew(source, rewritten, is_anonymous) or source
    except Exception:  # the program may fail in any way, and its file is complete
        return source


def _may_run(source: Source) -> bool:
    """Whether the program was run on the given inputs, without effects, to finite results."""
    report = source.report
    return (
        report.is_finite is True
        and report.traced is not None
        and not jaxapi.split_jaxpr(report.traced)[0].effects
        and not source.captured.is_exact
    )


def _drawn_anew(
    source: Source, rewritten: Callable[[Captured], Source], is_anonymous: bool
) -> Source | None:
    """Return the source with other inputs; None if none are better or needed."""
    module = source.module
    file = executed(module)
    run = jax.jit(getattr(file, module.name))
    if is_late() or _is_finite(module, run, file):
        return None
    for other in _of_other_seeds(module):
        if is_late():
            return None
        if _is_finite(other, run, executed(other)):
            return replace(source, module=other, _text=[])
    if is_late() or is_anonymous or not _may_keep_given(source.captured):
        return None
    captured = source.captured
    notes = (*captured.notes, GIVEN)
    made = rewritten(replace(captured, is_exact=True, notes=notes))
    is_as_good = made.report.strength == source.report.strength
    return made if is_as_good and made.report.is_finite else None


def _of_other_seeds(module: Module) -> Iterator[Module]:
    for seed in SEEDS:
        body = with_seed(module.body, seed)
        if body is None:
            return
        yield replace(module, body=body)


def _may_keep_given(captured: Captured) -> bool:
    """Whether those that were given can be written, and are not too large."""
    if captured.dimensions is not None:  # their sizes have names
        return False
    sizes = [getattr(value, "nbytes", 0) for value in captured.values]
    return sum(sizes) <= MAX_GIVEN_BYTES


def _is_finite(module: Module, run: Callable[..., Any], file: Any) -> bool:
    """Whether the results on the example inputs of a file are finite."""
    with entered(file, module.name, module.body), jaxapi.quiet_callbacks():
        results = jax.tree.leaves(run(**file.example_args()))
        return are_finite(map(jax.numpy.asarray, results))
