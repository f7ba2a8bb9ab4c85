"""Simplify what inputs and literals hold: ones, zeros, small numbers, few of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.ir import Atom, Literal
from untrace.reduction.applying import apply
from untrace.reduction.edits import Edits
from untrace.reduction.program import Program, open_blocks
from untrace.reduction.search import Edit, Search


def simplify_contents(search: Search) -> None:
    """Simplify all inputs together, then one by one, as long as that helps."""
    _together(search)
    search.simplify(_one_by_one)


def plain_together(search: Search) -> None:
    """Simplify all inputs at once, where a failure is none of values."""
    if not search.judge.keep.depends_on_values:
        _together(search)


def merge_inputs(search: Search) -> None:
    """Let one input stand for another of the same type, as long as that helps."""
    while search.first(_merged(search.best)):
        pass


def simplify_literals(search: Search) -> None:
    """Replace literals by 1 or 0 or a number of one digit, as long as that helps."""
    search.simplify(_simpler_literals)


Simpler = Callable[[Any], Any]


def _together(search: Search) -> None:
    """Simplify all inputs; zeros hide what is wrong with values, and are plainest."""
    plainest = (_zeros, _ones)
    if search.judge.keep.depends_on_values:
        plainest = (_ones, _zeros)
    for simpler in (*plainest, _rounded):
        if search.first(iter([_all(search.best, simpler)])):
            break


def _all(program: Program, simpler: Simpler) -> Program | None:
    pairs = zip(program.block.inputs, program.values)
    return apply(program, Edits(inputs={v: simpler(array) for v, array in pairs}))


def _one_by_one(program: Program) -> Iterator[Edit]:
    """List simpler contents of each input; first of all, scalars may be no inputs."""
    pairs = list(zip(program.block.inputs, program.values))
    for i, (value, array) in enumerate(pairs):
        if _is_scalar(array):
            literal = Literal(np.asarray(array)[()], value.aval)
            edits = Edits(replaced={value: literal})
            yield (i, "literal"), partial(apply, program, edits)
    for i, (value, array) in enumerate(pairs):
        for name, simpler in _SIMPLER.items():
            made = simpler(array)
            if made is not array:
                yield (i, name), partial(apply, program, Edits(inputs={value: made}))


def _merged(program: Program) -> Iterator[Program | None]:
    inputs = program.block.inputs
    for i, value in enumerate(inputs):
        for earlier in inputs[:i]:
            if jaxapi.same_type(earlier.aval, value.aval):
                yield apply(program, Edits(replaced={value: earlier}))


def _simpler_literals(program: Program) -> Iterator[Edit]:
    for i, atom in enumerate(_atoms(program)):
        if isinstance(atom, Literal) and not jaxapi.is_key_array(atom.value):
            for number in _plainer(atom):
                edits = Edits(literals={atom: number})
                yield (i, number), partial(apply, program, edits)


def _atoms(program: Program) -> Iterator[Atom]:
    """Yield all operands and outputs."""
    for block in open_blocks(program.block):
        for eqn in block.equations:
            yield from eqn.operands
        yield from block.outputs


def _plainer(atom: Literal) -> Iterator[Any]:
    """List the numbers that are plainer than a literal, of the same type."""
    value = atom.value
    if np.ndim(value) or value in (0, 1):
        return
    array = np.asarray(value, atom.aval.dtype)
    tried = (np.ones_like(array), np.zeros_like(array), *(f(array) for f in _ROUNDINGS))
    seen = [array]
    for number in tried:
        if any(np.array_equal(number, other) for other in seen):
            continue
        seen.append(np.asarray(number))
        typed = np.asarray(number, atom.aval.dtype)[()]
        yield typed.item() if atom.aval.weak_type else typed


# ---- arrays ---------------------------------------------------------------------------


def _is_scalar(array: Any) -> bool:
    return not jaxapi.is_key_array(array) and np.ndim(array) == 0


def _numbers(function: Callable[[Any], Any]) -> Simpler:
    """Make a change of NumPy arrays one of any value: keys stay what they are."""

    def simpler(array: Any) -> Any:
        if jaxapi.is_key_array(array):
            return _first_key(array)
        given = np.asarray(array)
        with np.errstate(all="ignore"):
            made = np.asarray(function(given)).astype(given.dtype)
        return array if made.tobytes() == given.tobytes() else made

    return simpler


def _first_key(array: Any) -> Any:
    key = jax.random.key(0, impl=jaxapi.key_impl_name(jaxapi.aval_of(array)))
    n = int(np.prod(array.shape))
    made = jax.random.split(key, n).reshape(array.shape) if array.shape else key
    same = np.array_equal(jax.random.key_data(made), jax.random.key_data(array))
    return array if same else made


def _to_integers(array: Any) -> Any:
    is_real = jaxapi.dtype_kind(array.dtype) != "complex"
    return np.rint(array.astype(np.float64)) if is_real else array


def _to_one_digit(array: Any) -> Any:
    if jaxapi.dtype_kind(array.dtype) in ("bool", "integer", "complex"):
        return array
    wide = array.astype(np.float64)
    scale = 10.0 ** np.floor(np.log10(np.abs(np.where(wide == 0, 1, wide))))
    return np.where(np.isfinite(wide), np.rint(wide / scale) * scale, wide)


def _digit(array: Any, round_: Callable[[Any], Any]) -> Any:
    """Leave one digit, found by a function of numbers between 1 and 10."""
    if jaxapi.dtype_kind(array.dtype) in ("bool", "complex"):
        return array
    wide = array.astype(np.float64)
    is_number = np.isfinite(wide) & (wide != 0)
    size = np.abs(np.where(is_number, wide, 1))
    scale = 10.0 ** np.floor(np.log10(size))
    return np.where(is_number, np.sign(wide) * round_(size / scale) * scale, wide)


def _extreme(array: Any, function: Callable[[Any], Any]) -> Any:
    """Return the least or the largest number: a failure often needs just that one."""
    is_ordered = array.size and jaxapi.dtype_kind(array.dtype) != "complex"
    return function(array) if is_ordered else array.reshape(-1)[0] if array.size else 0


_zeros = _numbers(np.zeros_like)
_ones = _numbers(np.ones_like)
_constant = _numbers(lambda a: np.full_like(a, a.reshape(-1)[0]) if a.size else a)
_least = _numbers(lambda a: np.full_like(a, _extreme(a, np.min)))
_largest = _numbers(lambda a: np.full_like(a, _extreme(a, np.max)))
_counting = _numbers(lambda a: np.arange(a.size).reshape(a.shape))
_integers = _numbers(_to_integers)
_rounded = _numbers(_to_one_digit)
_tenfold = _numbers(lambda a: _digit(a, np.ones_like))
_cut_off = _numbers(lambda a: _digit(a, np.floor))
_ROUNDINGS = (_tenfold, _cut_off, _integers, _rounded)
_signs = _numbers(lambda a: a if a.dtype.kind in "bc" else np.sign(a))
_SIMPLER = {
    "zeros": _zeros,
    "ones": _ones,
    "constant": _constant,
    "least": _least,
    "largest": _largest,
    "counting": _counting,
    "integers": _integers,
    "tenfold": _tenfold,
    "cut off": _cut_off,
    "rounded": _rounded,
    "signs": _signs,
}
"""In the order in which they are tried on one input."""
