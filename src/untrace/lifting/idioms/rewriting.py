"""Replace the equations of public calls by the calls: `Rewriter`.

Every block is read from its end. For each equation the regions that end in it are tried,
and the largest one that some line traces to is replaced by a `CALL` equation, which
holds the line. Equations that nothing needs any more are dropped; those that something
else needs stay, and the line computes them once more, as JAX would.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from untrace import jaxapi
from untrace.ir import Block, Equation, Value, from_jaxpr, to_jaxpr
from untrace.lifting.idioms.attempts import Attempt, attempt
from untrace.lifting.idioms.candidates import Line, is_sought, lines
from untrace.lifting.idioms.learned import learned
from untrace.lifting.idioms.nouns import noun
from untrace.lifting.idioms.printing import CALL, PRIMITIVE
from untrace.lifting.idioms.public_lines import is_public
from untrace.lifting.idioms.regions import (
    Region,
    is_in_place,
    look_of,
    meanings,
    regions,
    signature,
    tail,
)
from untrace.optional import optional
from untrace.progress import expect_more, tick
from untrace.stages import is_late, stage

Accept = Callable[[Any, Any], bool]
LATE = (
    "The time was over before the calls were found that equations come from; those that "
    "are left are written as they are."
)
"""What the header says then."""
MAX_REGION = 40
_OPENED = """jit scan while cond remat2 checkpoint remat closed_call core_call
custom_jvp_call custom_vjp_call shard_map"""
OPENED = frozenset(_OPENED.split())
"""Primitives in whose sub-programs idioms are sought."""
_LOW = """gather scatter scatter-add scatter-mul scatter-min scatter-max dot_general
dynamic_slice dynamic_update_slice select_n add_any split logistic"""
LOW = frozenset(_LOW.split())
"""Primitives whose own line nobody writes."""


@dataclass(frozen=True, slots=True)
class Found:
    """A line that a region was traced to.

    Attributes:
      is_sequence: Whether its results have to be unpacked.
      places: For each result of the line, the position of the root's result that it
        gives, or None.
    """

    line: Line
    is_sequence: bool
    places: tuple[int | None, ...]


@dataclass(slots=True)
class Rewriter:
    """Rewrites programs; what it finds for a region serves all that are alike."""

    accept: Accept
    excluded: frozenset[str] = frozenset()
    # Whether functions with derivative rules are rewritten, too.
    with_rules: bool = True
    # Whether functions that the user has jitted are opened afterwards.
    opens_jit: bool = False
    blocks: dict[int, Block] = field(default_factory=dict)
    found: dict[Any, Found | None] = field(default_factory=dict)
    attempts: dict[Any, Attempt | None] = field(default_factory=dict)
    alive: list[Any] = field(default_factory=list)
    # Whether there was no time any more to look for lines.
    was_late: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """Say that lines were not looked for, if they were not."""
        return (LATE,) if self.was_late else ()

    def is_late(self) -> bool:
        """Whether lines are not looked for any more."""
        self.was_late = self.was_late or is_late()
        return self.was_late

    @optional(lambda rewriter, block: block, is_blamed=False)
    def block(self, block: Block) -> Block:
        """Rewrite a block and those inside it, each once."""
        known = self.blocks.get(id(block))
        if known is None:
            self.alive.append(block)
            with stage("idioms"):
                equations = tuple(_Tiling(block, self).equations())
            known = self.blocks[id(block)] = replace(block, equations=equations)
            self.blocks[id(known)] = known
            self.alive.append(known)
        return known

    def lines_in(self, text: str) -> set[str]:
        """List the lines that a line of generated text may have been made of."""
        known = {found.line.text for found in self.found.values() if found}
        return {line for line in known if all(part in text for part in _fixed(line))}

    def inside(self, eqn: Equation) -> Equation:
        """Rewrite the sub-programs of an equation that stays."""
        if eqn.name not in OPENED:
            return eqn
        if eqn.name.startswith("custom_") and not self.with_rules:
            return eqn
        params = {key: self._param(param) for key, param in eqn.params.items()}
        return replace(eqn, params=params)

    def _param(self, param: Any) -> Any:
        if isinstance(param, Block):
            return self.block(param)
        if type(param) is tuple and any(isinstance(p, Block) for p in param):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
            return tuple([self._param(item) for item in param])  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        return param

    def line_for(self, region: Region, look: int, host: Block) -> Found | None:
        """Find the line that traces to a region; regions that are alike share it."""
        key = signature(region)
        if key not in self.found:
            self.alive.append(region)
            self.found[key] = self._search(region, look, host)
        return self.found[key]

    def _search(self, region: Region, look: int, host: Block) -> Found | None:
        wanted = [v for v in region.root.results if v is not None]
        avals = [value.aval for value in region.inputs]
        context = region.root.context
        if any(eqn.context is not context for eqn in region.equations):
            return None
        if not all(map(_has_fixed_shape, [*avals, *region.root.result_avals])):
            return None
        context = None if context is jaxapi.ambient_context() else context
        block = _block(region, wanted, host)
        meaning, expected = meanings(block), None
        for line in lines(region, look):
            if line.text in self.excluded:
                continue
            made = self._traced(line, avals, context)
            places = None if made is None else _places(made, region.root)
            if made is None or places is None:
                continue
            if look_of(from_jaxpr(made.jaxpr)) != look:
                continue
            chosen = [i for i in places if i is not None]
            order = [region.root.results[i] for i in chosen]
            kept = [i for i, place in enumerate(places) if place is not None]
            if order != wanted:
                continue
            actual = _with_results(made.jaxpr, kept)
            if meanings(from_jaxpr(actual)) != meaning:
                continue
            expected = to_jaxpr(block) if expected is None else expected
            if self.accept(expected, actual):
                return Found(line, made.is_sequence, places)
        return None

    def _traced(self, line: Line, avals: list[Any], context: Any) -> Attempt | None:
        """Trace a line; regions of inputs of the same types are tried with the same lines."""
        key = line, tuple(avals), id(context)
        if key not in self.attempts:
            self.alive.append(context)  # or another one may have its `id`
            self.attempts[key] = attempt(line.text, avals, line.imports, context)
        return self.attempts[key]


def _has_fixed_shape(aval: Any) -> bool:
    return all(map(jaxapi.is_static_dim, getattr(aval, "shape", ())))


def _places(made: Attempt, root: Equation) -> tuple[int | None, ...] | None:
    """Say which result of the root each result of a line is; None if they do not fit."""
    outputs = jaxapi.split_jaxpr(made.jaxpr)[0].outvars
    types = [str(var.aval) for var in outputs]
    used = [i for i, value in enumerate(root.results) if value is not None]
    if len(types) == len(root.results):
        places = [i if i in used else None for i in range(len(types))]
    elif len(types) == len(used):
        places = list(used)
    else:
        return None
    wanted = [None if i is None else str(root.result_avals[i]) for i in places]
    fits = all(w is None or w == t for w, t in zip(wanted, types))
    return tuple(places) if fits and any(i is not None for i in places) else None


def _block(region: Region, results: list[Value], host: Block) -> Block:
    """Return a region as a program of its inputs."""
    return Block(
        region.inputs,
        (),
        region.equations,
        tuple(results),
        set(),
        True,
        None,
        host.jaxpr,
    )


def _with_results(jaxpr: Any, kept: list[int]) -> Any:
    """Keep some of the results of a jaxpr."""
    n = len(jaxapi.split_jaxpr(jaxpr)[0].outvars)
    if kept == list(range(n)):
        return jaxpr
    block = from_jaxpr(jaxpr)
    return to_jaxpr(replace(block, outputs=tuple([block.outputs[i] for i in kept])))


def _fixed(text: str) -> list[str]:
    """List the parts of a line between its operands."""
    return [part for part in re.split(r"\bv\d+\b", text) if part.strip()]


# ---- one block ---------------------------------------------------------------------


class _Tiling:
    """Covers one block with lines, from its end."""

    def __init__(self, block: Block, rewriter: Rewriter) -> None:
        self.host, self.rewriter = block, rewriter
        self.original = list(block.equations)
        self.made: dict[int, Equation] = {}
        self.producers: dict[Value, int] = {
            value: i
            for i, eqn in enumerate(self.original)
            for value in eqn.results
            if value is not None
        }
        # What selects a branch is printed with its `cond`.
        self.selectors: set[Any] = {
            eqn.operands[0] for eqn in self.original if eqn.name == "cond"
        }
        # How often each value is read by what is still there.
        self.uses: collections.Counter[Any] = collections.Counter(block.outputs)
        for eqn in self.original:
            self.uses.update(eqn.operands)

    def equations(self) -> list[Equation]:
        """Return the equations that are left and made."""
        dropped = self._drop_dead()
        expect_more(len(self.original))
        for i in range(len(self.original) - 1, -1, -1):
            tick()
            eqn = self.original[i]
            if i in dropped:
                continue
            if self._is_dead(eqn):
                dropped.add(i)
                self.uses.subtract(eqn.operands)
                continue
            is_kept = eqn.effects or not self.selectors.isdisjoint(eqn.results)
            call = None if is_kept or is_in_place(eqn) else self._call(eqn)
            if call is not None:
                self.uses.subtract(eqn.operands)
                self.uses.update(call.operands)
                self.made[i] = call
        return [
            self.made[i] if i in self.made else self.rewriter.inside(eqn)
            for i, eqn in enumerate(self.original)
            if i not in dropped
        ]

    def _drop_dead(self) -> set[int]:
        """Drop what nothing needs in the first place."""
        dropped: set[int] = set()
        for i in range(len(self.original) - 1, -1, -1):
            if self._is_dead(self.original[i]):
                dropped.add(i)
                self.uses.subtract(self.original[i].operands)
        return dropped

    def _is_dead(self, eqn: Equation) -> bool:
        return not eqn.effects and not any(
            value is not None and self.uses[value] > 0 for value in eqn.results
        )

    def _call(self, eqn: Equation) -> Equation | None:
        """Make the call that computes the results of an equation from the most others."""
        if all(value is None for value in eqn.results) or self.rewriter.is_late():
            return None
        size = min(learned().sizes.get(tail(eqn), 1), MAX_REGION)
        best: tuple[int, Region, Found] | None = None
        for region, look in regions(eqn, self.producers, self.original, size):
            if not is_sought(region, look):
                continue
            gain = self._gain(region)
            if best is not None and gain <= best[0]:
                continue
            if gain <= 0 or (gain == 1 and is_public(region)):
                continue
            found = self.rewriter.line_for(region, look, self.host)
            if found is not None:
                best = gain, region, found
        return None if best is None else _call_equation(best[1], best[2])

    def _gain(self, region: Region) -> int:
        """Count the equations that a line for the region makes superfluous.

        Returns 0 if it would compute much that is needed elsewhere, too.
        """
        uses: collections.Counter[Any] = collections.Counter()
        gone = 0
        for eqn in reversed(region.equations):
            is_root = eqn is region.root
            if is_root or all(
                value is None or self.uses[value] <= uses[value]
                for value in eqn.results
            ):
                gone += 1
                uses.update(eqn.operands)
        n_kept = len(region.equations) - gone
        is_low = tail(region.root) in LOW
        if n_kept and gone <= n_kept and not (is_low and n_kept <= 5):
            return 0
        return gone


def _call_equation(region: Region, found: Found) -> Equation:
    root = region.root
    results = tuple([None if i is None else root.results[i] for i in found.places])
    avals = tuple([root.result_avals[i or 0] for i in found.places])
    params = {
        "line": found.line,
        "is_sequence": found.is_sequence,
        "noun": noun(found.line.text, root),
    }
    return Equation(
        CALL,
        PRIMITIVE,
        region.inputs,
        results,
        params,
        root.effects,
        root.context,
        root.source_info,
        avals,
    )
