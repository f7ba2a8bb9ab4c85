"""The order of passes: largest cuts first, then what is cheap once little is left.

Structure comes first, since a run of a large program costs seconds and of a small one a
fraction of that: outputs, calls, the end, the beginning, blocks. A loop is taken apart
only when it is most of what is left, and then all begins anew with its body. Types,
params and contents follow. The last tier repeats the smallest steps of all kinds until
none of them helps: then no single equation, output, axis or wrapper can go.
"""

from __future__ import annotations

from collections.abc import Callable

from untrace.reduction.passes.bypassing import bypass
from untrace.reduction.passes.contents import (
    merge_inputs,
    plain_together,
    simplify_contents,
    simplify_literals,
)
from untrace.reduction.passes.cutting import (
    cut_beginning,
    cut_blocks,
    cut_end,
    cut_far,
    cut_halves,
    cut_one,
)
from untrace.reduction.passes.focusing import focus
from untrace.reduction.passes.inside import cut_inside
from untrace.reduction.passes.loops import open_inner_loops, open_loops
from untrace.reduction.passes.narrowing import narrow_loops
from untrace.reduction.passes.outputs import (
    drop_outputs,
    drop_passed_through,
    exchange_outputs,
)
from untrace.reduction.passes.pointing import start_there
from untrace.reduction.passes.pumping import pump
from untrace.reduction.passes.types import (
    drop_axes,
    drop_together,
    shrink_axes,
    shrink_inputs,
    shrink_together,
    simplify_dtypes,
    simplify_params,
)
from untrace.reduction.passes.unwrapping import open_one, open_wrappers
from untrace.reduction.search import Search
from untrace.reduction.trials import Exhausted

Pass = tuple[str, Callable[[Search], object]]

STRUCTURE: tuple[Pass, ...] = (
    ("open calls", open_wrappers),
    ("start where it fails", start_there),
    ("cut halves", cut_halves),
    ("drop outputs", drop_outputs),
    ("cut the end", cut_end),
    ("cut what is far", cut_far),
    ("cut the beginning", cut_beginning),
    ("cut blocks", cut_blocks),
    ("open loops", open_loops),
)
TOGETHER: tuple[Pass, ...] = (
    ("plain contents", plain_together),  # of which nothing need be said of axes then
    ("shrink axes", shrink_together),
    ("drop axes", drop_together),
)
INSIDE: tuple[Pass, ...] = (
    ("cut inside calls", focus),
    ("open inner loops", open_inner_loops),
    ("cut inside loops", cut_inside),
    ("narrow loops", narrow_loops),
    ("exchange outputs", exchange_outputs),
    ("bypass equations", bypass),
)
DETAILS: tuple[Pass, ...] = (
    ("shrink axes", shrink_axes),
    ("shrink inputs", shrink_inputs),
    ("drop axes", drop_axes),
    ("plain dtypes", simplify_dtypes),
    ("plain params", simplify_params),
    ("merge inputs", merge_inputs),
    ("plain contents", simplify_contents),
    ("plain literals", simplify_literals),
)
LAST: tuple[Pass, ...] = (
    ("drop outputs", drop_outputs),
    ("drop outputs", drop_passed_through),
    ("open calls", open_one),
    ("open loops", open_loops),
    ("open inner loops", open_inner_loops),
    ("cut equations", cut_one),
    ("cut inside calls", focus),
    ("narrow loops", narrow_loops),
    ("exchange outputs", exchange_outputs),
    ("bypass equations", bypass),
    *DETAILS,
    ("grow to shrink", pump),
)


def run_all(search: Search) -> None:
    """Run every tier to its end."""
    for tier in (STRUCTURE, TOGETHER, INSIDE, LAST):
        run_tier(search, tier)
        if not search.make_sure():
            run_tier(search, tier)


def run_tier(search: Search, passes: tuple[Pass, ...]) -> None:
    """Run passes in turn until none of them makes the program smaller."""
    before = None
    while before != search.size:
        before = search.size
        for name, run in passes:
            search.enter(name)
            try:
                run(search)
            except Exhausted:
                raise
            except Exception as error:  # what was reached is worth more than a pass
                search.note(
                    f"the pass {name!r} failed: {type(error).__name__}: {error}"
                )
