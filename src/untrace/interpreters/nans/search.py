"""Find the equation that first makes values bad: NaN, or not finite.

The program is compiled once with a flag for every intermediate, calls inlined: 0 finite,
1 infinite, 2 NaN. From a bad output the search goes back through bad operands to the
equation that has none; a second run gives the operands that it had. Of a loop the turn is
found that made its result bad, of a `cond` the branch that was taken, and the search
goes on inside.

Also run by path, by Python installations without this package: it imports JAX alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ..evaluate import Evaluator, Place, Step, body_param, solver
from .turns import compiled, first_bad_turn

INFINITE, NAN = 1, 2
BITS = 32
"""Of the words that flags of several values are put together in."""

_SAME = frozenset(
    {
        "abs",
        "broadcast_in_dim",
        "copy",
        "neg",
        "reshape",
        "rev",
        "squeeze",
        "stop_gradient",
        "transpose",
    }
)
"""Primitives whose results are as bad as their operand."""

_SAME_NAN = frozenset(
    {
        "asinh",
        "atan",
        "cbrt",
        "ceil",
        "convert_element_type",
        "cosh",
        "erf",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "logistic",
        "round",
        "sinh",
        "square",
        "tanh",
    }
)
"""Those whose results have a NaN where their operand has one, and nowhere else. XLA on CPUs
does not always keep to that: in some fusions exp(NaN) is a number, in others it is not."""

_ARITHMETIC = frozenset({"add", "mul", "sub"})
"""The same holds for these, if the other operand is a finite number, and not 0."""


class Row(NamedTuple):
    """An equation of a program whose calls are inlined.

    Attributes:
      equation: The equation.
      path: The calls, turns and branches that it stands in.
      operands: The numbers of its operands.
      results: The numbers of its results.
    """

    equation: Any
    path: tuple[Place, ...]
    operands: tuple[int, ...]
    results: tuple[int, ...]


class Stretch(NamedTuple):
    """A program, or the turn of a loop or branch in it, and what is bad there.

    Attributes:
      jaxpr: The program.
      args: Its inputs.
      path: Where it stands.
      rows: Its equations.
      inputs: The numbers of its inputs.
      outputs: The numbers of its outputs.
      flags: How bad each value is, by number; those that are missing are finite.
      constants: The numbers of literals and constants.
      level: From which grade on flags tell values apart.
    """

    jaxpr: Any
    args: Sequence[Any]
    path: tuple[Place, ...]
    rows: list[Row]
    inputs: list[int]
    outputs: list[int]
    flags: dict[int, int]
    constants: frozenset[int]
    level: int

    def operands_of(self, index: int) -> list[Any]:
        """Return the operands that a row had."""
        return self.examined(index, ())[0]

    def examined(
        self, index: int, graded: Collection[int]
    ) -> tuple[list[Any], dict[int, int]]:
        """Return the operands that a row had, and how bad some values before it were."""
        return _examined(self, index, graded)


class Found(NamedTuple):
    """Where a value becomes bad.

    Attributes:
      stretch: The innermost part of the program that it is in.
      row: The number of the equation there; None if an input is bad.
      input: The number of the input that is bad.
    """

    stretch: Stretch
    row: int | None
    input: int | None = None


def flagged(
    jaxpr: Any,
    args: Sequence[Any],
    level: int = INFINITE,
    path: tuple[Place, ...] = (),
) -> Stretch:
    """Run a program in one compilation, with a flag for every intermediate.

    Args:
      jaxpr: The program.
      args: Its inputs.
      level: What to look for: `NAN` alone, which is faster, or `INFINITE` and NaN.
      path: Where it stands.
    """
    seen: list[Any] = []
    sources: dict[int, int] = {}

    def run(*args: Any) -> Any:
        seen[:] = [_recorded(jaxpr, args, path)]
        rows, values, _, outputs, _ = seen[0]
        wanted = [n for n in _live(rows, outputs) if is_inexact(values[n])]
        sources.update(_sources(rows, values, seen[0][4], level))
        wanted = [n for n in wanted if n not in sources]
        groups = _groups(wanted, values, level)
        seen.append(groups)
        return [_packed([values[n] for n in group], level) for group in groups]

    made = compiled(run, *args)
    (rows, _, inputs, outputs, constants), groups = seen
    flags: dict[int, int] = {}
    for group, word in zip(groups, made):
        flags.update(zip(group, _unpacked(int(word), len(group), level)))
    flags.update({n: int(badness(v)) for n, v in constants.items() if is_inexact(v)})
    flags.update({n: int(badness(v)) for n, v in zip(inputs, args) if is_inexact(v)})
    for n, source in sources.items():  # in the order of the program
        flags[n] = flags.get(source, 0)
    flags = {n: flag for n, flag in flags.items() if flag}
    return Stretch(
        jaxpr, args, path, rows, inputs, outputs, flags, frozenset(constants), level
    )


def search(stretch: Stretch, level: int, ends: Iterable[int] | None = None) -> Found:
    """Go back from bad outputs to what first made a value so bad.

    Args:
      stretch: The program, with flags.
      level: What is bad: `NAN`, or `INFINITE` and worse.
      ends: Positions among the outputs to begin with; by default all.

    Returns:
      Where it becomes bad; `row` and `input` are None if nothing is bad, or if a bad
      value is written in the program.
    """
    makers = origins(stretch, level)
    outputs = stretch.outputs
    ends = range(len(outputs)) if ends is None else ends
    made = _first([outputs[i] for i in ends], stretch.flags, makers)
    if made is None:
        return Found(stretch, None)
    if made < 0:
        return Found(stretch, None, ~made)
    return enter(stretch, made, level)


def origins(stretch: Stretch, level: int) -> dict[int, int]:
    """Return by number of each bad value the row that it comes from, or `~input`."""
    flags = stretch.flags
    makers = {n: ~i for i, n in enumerate(stretch.inputs) if flags.get(n, 0) >= level}
    for index, row in enumerate(stretch.rows):
        if not any(flags.get(n, 0) >= level for n in row.results):
            continue
        bad = [n for n in row.operands if flags.get(n, 0) >= level]
        if row.equation.primitive.name == "select_n" and len(set(bad)) > 1:
            bad = _selected(stretch, index, level)
        before = _first(bad, flags, makers)
        # A NaN that is written in the program comes from where it is used.
        graded = [n for n in bad if level < NAN or n not in stretch.constants]
        worst = max((flags[n] for n in graded), default=0)
        for result in row.results:
            flag = flags.get(result, 0)
            if flag < level:
                continue
            if before is not None:
                makers[result] = before
            elif flag > worst:
                makers[result] = index
    return makers


def _selected(stretch: Stretch, index: int, level: int) -> list[int]:
    """List the operands of a selection that are bad where they are selected."""
    which, *cases = stretch.operands_of(index)
    return [
        n
        for i, (n, case) in enumerate(zip(stretch.rows[index].operands[1:], cases))
        if int(badness(jnp.where(which == i, case, 0))) >= level
    ]


def _first(
    values: Iterable[int], flags: dict[int, int], makers: dict[int, int]
) -> int | None:
    """Return the first origin of the worst of some values."""
    known = [n for n in values if n in makers]
    worst = max((flags[n] for n in known), default=0)
    return min((makers[n] for n in known if flags[n] == worst), default=None)


def enter(stretch: Stretch, index: int, level: int) -> Found:
    """Look into the branch or turn of a row that made its results bad."""
    here = Found(stretch, index)
    row = stretch.rows[index]
    equation, name = row.equation, row.equation.primitive.name
    if name not in ("cond", "scan", "while"):
        return here
    operands = stretch.operands_of(index)
    bad = [i for i, n in enumerate(row.results) if stretch.flags.get(n, 0) >= level]
    if name == "cond":
        branches = equation.params["branches"]
        chosen = max(0, min(int(operands[0]), len(branches) - 1))
        place = Place(equation, chosen)
        inner = flagged(branches[chosen], operands[1:], level, (*row.path, place))
        found = search(inner, level, bad)
        return here if found.row is None else found
    limit: int | None = None
    while True:  # from a turn back to the one that made what it was given
        turn = first_bad_turn(equation, operands, bad, badness, level, limit)
        if turn is None:
            return here
        place = Place(equation, turn.part)
        inner = flagged(turn.jaxpr, turn.args, level, (*row.path, place))
        found = search(inner, level, turn.ends)
        is_inside = found.stretch is not inner or found.input is None
        if is_inside or found.input not in turn.carried or not turn.number:
            return here if found.row is None else found
        bad, limit = [turn.carried.index(found.input)], turn.number


def _examined(
    stretch: Stretch, index: int, graded: Collection[int]
) -> tuple[list[Any], dict[int, int]]:
    """Run a program up to a row; return its operands, and grades of values before."""
    known: list[Any] = []
    groups: list[list[int]] = []

    def run(*args: Any) -> Any:
        values: dict[int, Any] = dict(zip(stretch.inputs, args))
        counted = 0

        def stop(step: Step, operands: Sequence[Any]) -> None:
            if counted == index:
                known[:] = operands
                raise _Reached

        def note(step: Step, operands: Sequence[Any], results: Sequence[Any]) -> None:
            nonlocal counted
            values.update(zip(stretch.rows[counted].results, results))
            counted += 1

        with contextlib.suppress(_Reached):
            _inlined(stretch.jaxpr, args, stretch.path, stop, note)
        shown = [n for n in graded if n in values and is_inexact(values[n])]
        groups[:] = _groups(shown, values, INFINITE)
        words = [_packed([values[n] for n in group], INFINITE) for group in groups]
        # Python numbers and literals stay as they are.
        return [x for x in known if isinstance(x, jax.core.Tracer)], words

    made, words = compiled(run, *stretch.args)
    rest = iter(made)
    operands = [next(rest) if isinstance(x, jax.core.Tracer) else x for x in known]
    flags: dict[int, int] = {}
    for group, word in zip(groups, words):
        flags.update(zip(group, _unpacked(int(word), len(group), INFINITE)))
    return operands, flags


class _Reached(Exception):
    """The row that is asked for was reached; what follows need not be traced."""


def _recorded(
    jaxpr: Any, args: Sequence[Any], path: tuple[Place, ...]
) -> tuple[list[Row], list[Any], list[int], list[int], dict[int, Any]]:
    """Trace a program with its calls inlined; number its values."""
    rows: list[Row] = []
    values: list[Any] = []  # they stay alive, and so do their ids
    numbers: dict[int, int] = {}

    def number(value: Any) -> int:
        if id(value) not in numbers:
            numbers[id(value)] = len(values)
            values.append(value)
        return numbers[id(value)]

    inputs = [number(value) for value in args]

    def note(step: Step, operands: Sequence[Any], results: Sequence[Any]) -> None:
        given = tuple(map(number, operands))
        rows.append(Row(step.equation, step.path, given, tuple(map(number, results))))

    outputs = [number(v) for v in _inlined(jaxpr, args, path, done=note)]
    made = {n for row in rows for n in row.results}
    known = made.union(inputs)
    constants = {
        n: value
        for n, value in enumerate(values)
        if n not in known and not isinstance(value, jax.core.Tracer)
    }
    return rows, values, inputs, outputs, constants


def _inlined(
    jaxpr: Any,
    args: Sequence[Any],
    path: tuple[Place, ...],
    before: Callable[[Step, Sequence[Any]], None] | None = None,
    done: Callable[[Step, Sequence[Any], Sequence[Any]], None] | None = None,
) -> list[Any]:
    """Evaluate a program, its calls by their bodies and its loops as a whole."""

    def handler(step: Step, *operands: Any) -> Any:
        many = step.primitive.multiple_results
        body = _body(step, operands)
        if body is not None:
            made = step.run(*body)
            return made if many else made[0]
        if before is not None:
            before(step, operands)
        results = step.bind(*operands)
        if done is not None:
            done(step, operands, results if many else [results])
        return results

    return Evaluator(handler).run(jaxpr, args, path)


def _body(step: Step, operands: Sequence[Any]) -> tuple[Any, Sequence[Any]] | None:
    key = body_param(step.equation)
    if key is not None:
        return step.params[key], operands
    if step.name == "custom_linear_solve":
        return solver(step.params, operands)
    return None


def _live(rows: Sequence[Row], outputs: Sequence[int]) -> list[int]:
    """List the results that outputs depend on."""
    needed, found = set(outputs), list[int]()
    for row in reversed(rows):
        if needed.intersection(row.results):
            needed.update(row.operands)
            found += row.results
    return found[::-1]


def _sources(
    rows: Sequence[Row],
    values: Sequence[Any],
    constants: Mapping[int, Any],
    level: int,
) -> dict[int, int]:
    """Find the results that are exactly as bad as an operand: they need no flag."""

    def is_number(n: int) -> bool:
        """Whether a value is a finite constant other than 0."""
        if n not in constants or not is_inexact(constants[n]):
            return False
        constant = np.asarray(constants[n]).astype(np.complex128)
        return constant.size == 1 and bool(np.isfinite(constant) and constant != 0)

    found: dict[int, int] = {}
    for row in rows:
        name, operands = row.equation.primitive.name, row.operands
        if name in _SAME:
            found[row.results[0]] = operands[0]
        if level < NAN or not operands or not is_inexact(values[operands[0]]):
            continue
        if name in _SAME_NAN or (
            name == "integer_pow" and row.equation.params["y"] > 0
        ):
            found[row.results[0]] = operands[0]
        elif name in _ARITHMETIC and any(map(is_number, operands)):
            one, other = operands
            found[row.results[0]] = other if is_number(one) else one
    return found


def _groups(
    numbers: Iterable[int], values: Mapping[int, Any] | Sequence[Any], level: int
) -> list[list[int]]:
    """Put values of one shape together, in order, as many as have flags in a word."""
    found: list[list[int]] = []
    last: dict[tuple[int, ...], list[int]] = {}
    for n in numbers:
        shape = jnp.shape(values[n])
        if len(last.get(shape, ())) % (BITS // _n_bits(level)) == 0:
            last[shape] = []
            found.append(last[shape])
        last[shape].append(n)
    return found


def _n_bits(level: int) -> int:
    return 1 if level == NAN else 2


def _packed(values: Sequence[Any], level: int) -> Any:
    """Return u32[] with a bit for each of some values of one shape, or with two.

    They are put together element by element, in one pass with what computes the values:
    one reduction for each value would compute many of them again.
    """
    word: Any = jnp.uint32(0)
    for i, value in enumerate(values):
        is_nan, is_infinite = _is_nan_or_infinite(value)
        at = i * _n_bits(level)
        word |= is_nan.astype(jnp.uint32) << at
        if level != NAN:
            word |= is_infinite.astype(jnp.uint32) << (at + 1)
    axes = tuple(range(word.ndim))
    return jax.lax.reduce(word, np.uint32(0), jax.lax.bitwise_or, axes)


def _unpacked(word: int, count: int, level: int) -> list[int]:
    if level == NAN:
        return [NAN * (word >> i & 1) for i in range(count)]
    bits = [word >> 2 * i & 3 for i in range(count)]
    return [NAN if pair & 1 else INFINITE * (pair >> 1) for pair in bits]


def is_inexact(value: Any) -> bool:
    """Return whether a value can be infinite or NaN at all."""
    return jnp.issubdtype(jnp.result_type(value), jnp.inexact) and bool(jnp.size(value))


def badness(value: Any) -> Any:
    """Return u8[]: 0 if all elements are finite, 1 if some are infinite, 2 if one is NaN."""
    if not is_inexact(value):
        return jnp.uint8(0)
    is_nan, is_infinite = _is_nan_or_infinite(value)
    flags = is_nan.astype(jnp.uint8) * NAN + is_infinite.astype(jnp.uint8) * INFINITE
    return flags.max()


def _is_nan_or_infinite(value: Any) -> tuple[Any, Any]:
    array = jnp.asarray(value)
    if array.dtype.itemsize == 1:  # not all backends compare the smallest types
        array = array.astype(jnp.float32)
    return jnp.isnan(array), jnp.isinf(array)
