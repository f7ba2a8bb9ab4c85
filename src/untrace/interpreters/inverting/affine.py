"""Equations that are linear together: the system that they are is solved.

`x + a @ x`, a periodic convolution or `x - c * sum(x)` use their input more than once, so
no single equation can be inverted; but the results depend linearly on what is not known.
Starting from a result that is known, the linear equations behind it are collected, back to
values that something else computes. If there are as many known numbers as unknown ones,
the matrix is obtained by differentiating, and the system is solved.

The matrix is dense: for n unknown numbers it costs n**3 operations and n**2 memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace.interpreters.inverting.cells import Cell
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.network import Network, Node, evaluated
from untrace.interpreters.inverting.step import TWO, Step

MAX_UNKNOWNS = 4096
"""The largest system that is solved: its matrix has 64 MiB in float32."""

MAX_CHECKED = 256
"""The largest system whose rank is computed while the program is planned."""

LINEAR = set(
    [
        "add",
        "add_any",
        "sub",
        "neg",
        "copy",
        "reshape",
        "transpose",
        "squeeze",
        "expand_dims",
        "rev",
        "slice",
        "split",
        "unstack",
        "concatenate",
        "stack",
        "pad",
        "broadcast_in_dim",
        "reduce_sum",
        "cumsum",
        "fft",
        "reduce_window_sum",
        "optimization_barrier",
        "select_and_scatter_add",
    ]
)
"""Linear in all operands together."""

BILINEAR = {"mul", "dot_general", "conv_general_dilated"}
"""Linear in each operand."""

OF_PARTS = {"real", "imag", "complex", "conj"}
"""Linear in real and imaginary parts."""

LINEAR_IN: dict[str, Sequence[int]] = {
    "div": (0,),
    "triangular_solve": (1,),
    "select_n": range(1, 1000),
    "dynamic_slice": (0,),
    "dynamic_update_slice": (0, 1),
    "gather": (0,),
    "scatter": (0, 2),
    "scatter-add": (0, 2),
    "scatter-sub": (0, 2),
}
"""Linear in these operands, the others being known."""


def solve_linear(network: Network) -> bool:
    """Solve the first system of linear equations that there is; whether there is one."""
    for node in network.nodes:
        if _is_stuck(node) and any(cell.is_known for cell in node.results):
            system = _System(node)
            if system.refusal:
                if node.refusal in (TWO, ""):
                    node.refusal = system.refusal
                continue
            system.learn(network)
            return True
    return False


def _is_stuck(node: Node) -> bool:
    return not node.is_open and not node.is_spent and _is_linear(node)


def _is_linear(node: Node) -> bool:
    """Return whether an equation is linear in its operands that are not known."""
    unknown = [i for i, cell in enumerate(node.operands) if not cell.is_known]
    cells = (*[node.operands[i] for i in unknown], *node.results)
    if not unknown or not all(_is_inexact(cell) for cell in cells):
        return False
    if any(node.operands[i].is_touched for i in unknown):
        return False
    if node.eqn is None or node.name in LINEAR or node.name in OF_PARTS:
        return True
    if node.name == "convert_element_type":  # to a narrower type it rounds
        old, new = (cell.aval.dtype for cell in (node.operands[0], node.results[0]))
        if _is_complex(node.operands[0]) and not _is_complex(node.results[0]):
            return False  # the imaginary part is left out: JAX warns of that
        one, other = jnp.finfo(old), jnp.finfo(new)
        return other.bits > one.bits or other.dtype == one.dtype
    if node.name in BILINEAR:
        return len(unknown) == 1
    return all(i in LINEAR_IN.get(node.name, ()) for i in unknown)


def _is_inexact(cell: Cell) -> bool:
    dtype = getattr(cell.aval, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jnp.inexact)


def _is_complex(cell: Cell) -> bool:
    return jnp.issubdtype(cell.aval.dtype, jnp.complexfloating)


def _n_numbers(cell: Cell) -> int:
    """Count real numbers; a complex one is two."""
    return cell.size * (2 if _is_complex(cell) else 1)


class _System:
    """Linear equations from unknown values, the roots, to known ones, the sinks."""

    def __init__(self, start: Node) -> None:
        self.refusal = ""
        self.roots: dict[Cell, None] = {}
        self.sinks: dict[Cell, None] = {}
        self.makers: dict[Cell, Node] = {}
        self._collect(start)
        # What is known beside the unknowns, also if an equation makes it of others.
        self.given = {
            cell: None
            for node in set(self.makers.values())
            for cell in node.operands
            if cell.is_known
        }
        self.nodes = self._order()
        self.n_unknowns = sum(map(_n_numbers, self.roots))
        n_known = sum(map(_n_numbers, self.sinks))
        self.is_square = n_known == self.n_unknowns
        if n_known < self.n_unknowns:
            self.refusal = TWO
        elif self.n_unknowns > MAX_UNKNOWNS:
            self.refusal = (
                f"a system of {self.n_unknowns} linear equations is too large to be "
                "solved as a dense one; invert a function of one example and map it"
            )
        elif (rank := self._rank()) < self.n_unknowns:
            self.refusal = (
                f"information lost: the linear equations have rank {rank}, for "
                f"{self.n_unknowns} unknown numbers"
            )

    def _collect(self, start: Node) -> None:
        seen: set[Node] = set()
        todo = [start]
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            for cell in node.results:
                self.makers[cell] = node
                if cell.is_known:
                    self.sinks[cell] = None
            for cell in node.operands:
                if cell.is_known:
                    continue
                maker = next((n for n in cell.nodes if cell in n.results), None)
                if maker is not None and _is_stuck(maker):
                    todo.append(maker)
                else:
                    self.roots[cell] = None
            unknown = [c for c in (*node.operands, *node.results) if not c.is_known]
            for cell in unknown:
                todo += [n for n in cell.nodes if cell in n.operands and _is_stuck(n)]

    def _order(self) -> list[Node]:
        """List the equations, each behind those whose results it needs."""
        order: dict[Node, None] = {}
        todo: list[Cell] = list(self.makers)
        while todo:
            node = self.makers[todo[-1]]
            missing = [
                cell
                for cell in node.operands
                if not (cell in self.roots or cell in self.given)
                and self.makers[cell] not in order
            ]
            if missing:
                todo += missing
            else:
                order[node] = None
                todo.pop()
        return list(order)

    def _forward(self, given: dict[Cell, Any], roots: Sequence[Any]) -> list[Any]:
        """Compute the sinks from the roots."""
        lazies = {cell: Lazy.of(value) for cell, value in given.items()}
        lazies |= {cell: Lazy.of(v) for cell, v in zip(self.roots, roots)}
        made: dict[Cell, Lazy] = {}
        for node in self.nodes:
            needs = [made[c] if c in made else lazies[c] for c in node.operands]
            made |= dict(zip(node.results, evaluated(node.eqn, needs)))
        return [made[cell].value for cell in self.sinks]

    def _flat(self, given: dict[Cell, Any]) -> Any:
        """Return the map of the system, of flat vectors."""
        # Solvers need 32 bits at least.
        parts = [jnp.finfo(cell.aval.dtype).dtype for cell in self.roots]
        dtype = jnp.result_type(jnp.float32, *parts)

        def flat(vector: Any) -> Any:
            made = self._forward(given, _parts(vector, list(self.roots)))
            return _vector(made).astype(dtype)

        return flat, jnp.zeros(self.n_unknowns, dtype)

    def _rank(self) -> int:
        """Return the rank for numbers at random in the places of what is computed."""
        is_large = self.n_unknowns > MAX_CHECKED
        random = np.random.RandomState(0)
        values: dict[Cell, Any] = {}
        for cell in self.given:
            value = cell.whole.concrete() if cell.whole is not None else None
            if value is None and not _is_inexact(cell):
                return self.n_unknowns
            if value is None:
                pair = random.normal(size=(2, *cell.shape))
                value = pair[0] + 1j * pair[1] if _is_complex(cell) else pair[0]
                value = np.asarray(value).astype(cell.aval.dtype)
            values[cell] = value
        if is_large:
            return self.n_unknowns
        with jax.ensure_compile_time_eval():
            flat, zero = self._flat(values)
            matrix = np.asarray(jax.jacfwd(flat)(zero), np.float64)
        scale = np.abs(matrix).max(initial=0.0)
        return int(np.linalg.matrix_rank(matrix, tol=scale * 1e-5 * len(matrix) ** 0.5))

    def learn(self, network: Network) -> None:
        """Say how the roots are computed."""
        given = list(self.given)
        needs = [lazy for cell in given if (lazy := cell.whole) is not None]
        sinks = [lazy for cell in self.sinks if (lazy := cell.whole) is not None]
        roots, n_given = list(self.roots), len(needs)

        def matrix_and_offset(values: Sequence[Any]) -> tuple[Any, Any]:
            flat, zero = self._flat(dict(zip(given, values)))
            return jax.jacfwd(flat)(zero), flat(zero)

        def run(*values: Any) -> Any:
            matrix, offset = matrix_and_offset(values[:n_given])
            shown = _vector(values[n_given:])
            right = shown.astype(offset.dtype) - offset
            if self.is_square:
                found = jnp.linalg.solve(matrix, right)
            else:
                found = jnp.linalg.lstsq(matrix, right)[0]
            return _parts(found, roots), matrix

        whole = Lazy(run, [*needs, *sinks], False)
        node = self.makers[next(iter(self.sinks))]
        for i, cell in enumerate(roots):
            network.learn(cell, _part(whole, i))
        # The equations are used: none may be solved for what another one makes.
        for each in self.nodes:
            for cell, lazy in zip(each.results, each.forward()):
                network.learn(cell, lazy)

        def log_det(x: Any, values: Any) -> Any:
            return -jnp.linalg.slogdet(values[1])[1]

        is_square = self.is_square
        Step(node, network).record(
            log_det if is_square else None, [whole, whole], roots[0]
        )


def _part(whole: Lazy, i: int) -> Lazy:
    return Lazy(lambda values: values[0][i], [whole])


def _vector(values: Sequence[Any]) -> Any:
    """Put values in a row: of complex ones the real parts, then the imaginary ones."""
    parts: list[Any] = []
    for value in values:
        is_complex = jnp.iscomplexobj(value)
        pair = (jnp.real(value), jnp.imag(value)) if is_complex else (value,)
        parts += [jnp.ravel(part) for part in pair]
    return jnp.concatenate(parts)


def _parts(vector: Any, cells: Sequence[Cell]) -> list[Any]:
    """Take a vector apart again."""
    parts: list[Any] = []
    start = 0
    for cell in cells:
        stop = start + _n_numbers(cell)
        part = vector[start:stop].astype(jnp.finfo(cell.aval.dtype).dtype)
        if _is_complex(cell):
            part = jax.lax.complex(part[: cell.size], part[cell.size :])
        parts.append(jnp.reshape(part, cell.shape))
        start = stop
    return parts
