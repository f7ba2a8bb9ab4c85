"""The straight line: capture, lift, emit, verify, and the one loop over them.

When verification reports a difference, the equation that differs is printed one step
lower (idiom, then `jax.lax`, then `primitive.bind`) and the text is made again, a few
times at most.
"""

from __future__ import annotations

from collections.abc import Callable

from untrace import jaxapi
from untrace.capture import Captured
from untrace.emission import Module, emit
from untrace.ir import Block, Equation, from_jaxpr
from untrace.lifting.lift import Listing, lift
from untrace.options import Options
from untrace.result import Source
from untrace.verification.check import check
from untrace.verification.difference import Difference
from untrace.verification.report import Report

MAX_ROUNDS = 8
LOWEST_STEP = 2

Progress = Callable[[str], None]


def untrace_captured(captured: Captured, options: Options, progress: Progress | None = None) -> Source:
    """Turn a captured computation into verified source.

    Raises:
      LiftingError: If an equation cannot be written.
      VerificationError: If `options.verify` is "strict" and the proof fails.
    """
    with jaxapi.deep_recursion():
        block = from_jaxpr(captured.jaxpr)
        steps: dict[Equation, int] = {}
        report_progress = progress or (lambda message: None)
        for _ in range(MAX_ROUNDS):
            report_progress("writing")
            listing = lift(captured, options, steps, block)
            module = emit(listing)
            if not options.verify:
                report = Report("unverified", notes=tuple(listing.lifter.notes))
                break
            report_progress("verifying")
            report = check(module, captured, tuple(listing.lifter.notes))
            if report.is_verified or not _lower(report, block, steps):
                break
        return _source(captured, module, listing, report, options)


def _lower(report: Report, block: Block, steps: dict[Equation, int]) -> bool:
    """Print the innermost equation around a difference one step lower, if one is left."""
    for eqn in reversed(_equations_at(report.difference, block)):
        if steps.get(eqn, 0) < LOWEST_STEP:
            steps[eqn] = steps.get(eqn, 0) + 1
            return True
    return False


def _equations_at(difference: object, block: Block) -> list[Equation]:
    """List the equation that differs after those that contain it."""
    if not isinstance(difference, Difference):
        return []
    found: list[Equation] = []
    params = difference.path.split("/")[1::2]
    for index, param in zip(difference.indices, [*params, ""]):
        if index >= len(block.equations):
            break
        eqn = block.equations[index]
        found.append(eqn)
        inner = _sub_block(eqn, param)
        if inner is None:
            break
        block = inner
    return found


def _sub_block(eqn: Equation, param: str) -> Block | None:
    """Follow a step such as `branches[1]` of a difference's path."""
    name, _, rest = param.partition("[")
    value = eqn.params.get(name)
    position = rest.rstrip("]")
    if position.isdigit() and isinstance(value, tuple) and int(position) < len(value):
        value = value[int(position)]
    return value if isinstance(value, Block) else None


def _source(
    captured: Captured, module: Module, listing: Listing, report: Report, options: Options
) -> Source:
    return Source(module, report, captured, listing.block, options)

