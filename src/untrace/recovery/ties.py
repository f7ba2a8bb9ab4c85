"""Which axes of a program's inputs have one size because the equations tie them.

Comes in: a block. Goes out: the classes of the inputs' axes. An equation ties the axes
that must agree for it, or that it hands on. This only proposes what to vary together:
tracing the function at other sizes tells whether it was right. An axis that a tie is
missed for, or that is tied to too many, has no name in the end, or shares one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from untrace.ir import Atom, Block, Equation, Value

InputAxis = tuple[int, int]
"""An input by its position, and one of its axes."""

_Axis = tuple[Any, int]
_Env = dict[Value, int]


def tied_axes(block: Block) -> list[tuple[InputAxis, ...]]:
    """List the classes of the axes of a block's inputs that are longer than 1."""
    ties = _Ties()
    env = ties.enter(block)
    classes: dict[Any, list[InputAxis]] = {}
    for position, value in enumerate(block.inputs):
        for axis, size in enumerate(_shape(value)):
            if type(size) is int and size > 1:
                root = ties.find((env[value], axis))
                classes.setdefault(root, []).append((position, axis))
    return [tuple(found) for found in classes.values()]


class _Ties:
    """A union-find over the axes of values, each numbered where it occurs."""

    def __init__(self) -> None:
        self._parents: dict[_Axis, _Axis] = {}
        self._numbers = itertools.count()

    def find(self, axis: _Axis) -> _Axis:
        root = axis
        while (parent := self._parents.get(root)) is not None:
            root = parent
        while axis != root:
            self._parents[axis], axis = root, self._parents[axis]
        return root

    def tie(self, first: _Axis, second: _Axis) -> None:
        a, b = self.find(first), self.find(second)
        if a != b:
            self._parents[a] = b

    def enter(self, block: Block) -> _Env:
        """Number the values of a block and tie what its equations tie."""
        env: _Env = {}
        for value in [*block.inputs, *(value for value, _ in block.constants)]:
            env[value] = next(self._numbers)
        for eqn in block.equations:
            for result in eqn.results:
                if result is not None:
                    env[result] = next(self._numbers)
            for (one, i), (other, j) in self._pairs(eqn, env):
                if type(one) is Value and type(other) is Value:
                    self.tie((env[one], i), (env[other], j))
        return env

    def _pairs(self, eqn: Equation, env: _Env) -> Iterator[_Pair]:
        rule = _RULES.get(eqn.name)
        if rule is not None:
            yield from rule(eqn)
        elif eqn.name.startswith(("reduce_", "arg")) and "axes" in eqn.params:
            yield from _dropped(eqn, eqn.params["axes"])
        elif any(type(param) in (Block, tuple) for param in eqn.params.values()):
            yield from self._inner(eqn, env)
        else:
            yield from _by_position(eqn)

    def _inner(self, eqn: Equation, env: _Env) -> Iterator[_Pair]:
        """Tie operands and results to those of the sub-programs."""
        found = list(sub_blocks(eqn))
        if not found:
            yield from _by_position(eqn)
        for block, operands, results, has_rows in found:
            inner = self.enter(block)
            rows = [*zip(operands, block.inputs), *zip(results, block.outputs)]
            for outer, value in rows:
                if type(outer) is not Value or type(value) is not Value:
                    continue
                ahead = len(_shape(outer)) - len(_shape(value)) if has_rows else 0
                for axis in range(len(_shape(value))):
                    self.tie((env[outer], axis + ahead), (inner[value], axis))


_Pair = tuple[tuple[Any, int], tuple[Any, int]]
_Rule = Callable[[Equation], Iterator[_Pair]]


def sub_blocks(
    eqn: Equation,
) -> Iterator[tuple[Block, Sequence[Atom], Sequence[Any], bool]]:
    """Yield sub-programs with the operands and results that are theirs.

    The last item tells whether operands may have a leading axis more, as in a scan.
    """
    operands, results = eqn.operands, eqn.results
    if eqn.name == "while":
        n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        carry = operands[n_cond + n_body :]
        inner = eqn.params["body_jaxpr"]
        yield inner, (*operands[n_cond : n_cond + n_body], *carry), results, False
        return
    if eqn.name == "cond":
        operands = operands[1:]
    for param in eqn.params.values():
        items: Iterable[Any] = param if type(param) is tuple else (param,)
        for item in items:
            if type(item) is Block and len(item.inputs) == len(operands):
                yield item, operands, results, eqn.name == "scan"


def _shape(atom: Any) -> tuple[Any, ...]:
    return getattr(atom.aval, "shape", ())


def _by_position(eqn: Equation) -> Iterator[_Pair]:
    """Tie equal sizes at one position, as in elementwise operations."""
    atoms = [*eqn.operands, *[r for r in eqn.results if r is not None]]
    for first, second in itertools.combinations(atoms, 2):
        if len(_shape(first)) == len(_shape(second)):
            yield from _equal(first, second, range(len(_shape(first))))


def _equal(first: Any, second: Any, axes: Iterable[int]) -> Iterator[_Pair]:
    for axis in axes:
        if _shape(first)[axis] == _shape(second)[axis]:
            yield (first, axis), (second, axis)


def _dot(eqn: Equation) -> Iterator[_Pair]:
    left, right = eqn.operands
    (result,) = eqn.results
    (left_sum, right_sum), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    for i, j in zip((*left_sum, *left_batch), (*right_sum, *right_batch)):
        yield (left, i), (right, j)
    rest = [(left, i) for i in left_batch]
    for atom, used in [
        (left, (*left_sum, *left_batch)),
        (right, (*right_sum, *right_batch)),
    ]:
        rest += [(atom, i) for i in range(len(_shape(atom))) if i not in used]
    yield from ((place, (result, i)) for i, place in enumerate(rest))


def _broadcast(eqn: Equation) -> Iterator[_Pair]:
    operand, (result,) = eqn.operands[0], eqn.results
    if result is None:
        return
    for i, j in enumerate(eqn.params["broadcast_dimensions"]):
        if _shape(operand)[i] == _shape(result)[j]:
            yield (operand, i), (result, j)


def _transpose(eqn: Equation) -> Iterator[_Pair]:
    for i, j in enumerate(eqn.params["permutation"]):
        yield (eqn.operands[0], j), (eqn.results[0], i)


def _dropped(eqn: Equation, axes: Sequence[int]) -> Iterator[_Pair]:
    """Tie the axes that are left when some are dropped."""
    operand, result = eqn.operands[0], eqn.results[0]
    kept = [i for i in range(len(_shape(operand))) if i not in axes]
    yield from (((operand, i), (result, j)) for j, i in enumerate(kept))


def _reshape(eqn: Equation) -> Iterator[_Pair]:
    """Tie what is before and after the axes that are split or merged."""
    operand, result = eqn.operands[0], eqn.results[0]
    if result is None:
        return
    old, new = _shape(operand), _shape(result)
    shorter, ahead = min(len(old), len(new)), 0
    while ahead < shorter and old[ahead] == new[ahead]:
        yield (operand, ahead), (result, ahead)
        ahead += 1
    for back in range(1, shorter - ahead + 1):
        if old[-back] != new[-back]:
            break
        yield (operand, len(old) - back), (result, len(new) - back)


def _gather(eqn: Equation) -> Iterator[_Pair]:
    operand, indices = eqn.operands[:2]
    (result,) = eqn.results
    numbers, sizes = eqn.params["dimension_numbers"], eqn.params["slice_sizes"]
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    kept = [i for i in range(len(_shape(operand))) if i not in gone]
    for i, j in zip(kept, numbers.offset_dims):
        if sizes[i] == _shape(operand)[i]:
            yield (operand, i), (result, j)
    n_results = len(_shape(indices)) - 1 + len(numbers.offset_dims)
    rest = [j for j in range(n_results) if j not in numbers.offset_dims]
    yield from (((indices, i), (result, j)) for i, j in enumerate(rest))
    pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims)
    yield from (((operand, i), (indices, j)) for i, j in pairs)


def _convolution(eqn: Equation) -> Iterator[_Pair]:
    """Tie batches, features and what comes out of them, none to another by position."""
    (left, kernel), (result,) = eqn.operands, eqn.results
    numbers = eqn.params["dimension_numbers"]
    (batch, feature, *spatial), (out, into, *_) = numbers.lhs_spec, numbers.rhs_spec
    out_batch, features, *outputs = numbers.out_spec
    inputs = out if eqn.params["feature_group_count"] > 1 else into
    pairs: list[_Pair] = [((left, i), (result, j)) for i, j in zip(spatial, outputs)]
    pairs += [((left, batch), (result, out_batch)), ((kernel, out), (result, features))]
    pairs.append(((left, feature), (kernel, inputs)))
    yield from (pair for pair in pairs if _length(pair[0]) == _length(pair[1]))


def _length(axis: tuple[Any, int]) -> Any:
    atom, number = axis
    return None if atom is None else _shape(atom)[number]


def _concatenate(eqn: Equation) -> Iterator[_Pair]:
    """Tie all axes but the one along which operands are put together."""
    (result,) = eqn.results
    for operand in eqn.operands if result is not None else ():
        for axis in range(len(_shape(operand))):
            if axis != eqn.params["dimension"]:
                yield (operand, axis), (result, axis)


_RULES: dict[str, _Rule] = {
    "concatenate": _concatenate,
    "conv_general_dilated": _convolution,
    "dot_general": _dot,
    "broadcast_in_dim": _broadcast,
    "transpose": _transpose,
    "squeeze": lambda eqn: _dropped(eqn, eqn.params["dimensions"]),
    "reshape": _reshape,
    "gather": _gather,
}
