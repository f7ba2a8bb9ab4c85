"""Find where a NaN or an infinity comes from, and say why and what is done about it."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.extension import load_entry_points
from untrace.interpreters.called import Call, tool
from untrace.interpreters.nans.evidence import (
    at_first_bad,
    bad_elements,
    gathered,
    is_overflow,
)
from untrace.interpreters.nans.flagging import Stretch, flagged
from untrace.interpreters.nans.grading import INFINITE, NAN
from untrace.interpreters.nans.search import Found, enter, origins, search
from untrace.interpreters.nans.traps import Evidence, explain
from untrace.interpreters.places import Origin, origin_of
from untrace.printable import printable_lines

KINDS = {"nan": NAN, "inf": INFINITE, "overflow": INFINITE}
_WORDS = {"nan": "NaN", "inf": "infinity", "overflow": "overflow"}
MAX_OVERFLOWS = 20
"""How many infinities are looked at for one that is an overflow."""


@dataclass(frozen=True)
class NanOrigin:
    """Where a bad value comes from.

    Attributes:
      kind: "nan", "inf" or "overflow".
      primitive: The name of the primitive that made it; "" if it came with an input.
      input: The expression of the input that it came with; "" otherwise.
      origin: The user's line that the equation belongs to; None for an input.
      operands: What the equation was given, as arrays.
      result: The bad result, or the input.
      indices: The bad elements of the result, the first few.
      n_bad: How many there are.
      values: The operands at the first of them; None where they have no such element.
      trap: The name of the classic trap, or "".
      why: What happened, in a line.
      mend: What is usually done about it, or "".
    """

    kind: str
    primitive: str
    input: str
    origin: Origin | None
    operands: tuple[Any, ...]
    result: Any
    indices: tuple[tuple[int, ...], ...]
    n_bad: int
    values: tuple[float | None, ...]
    trap: str
    why: str
    mend: str

    def __str__(self) -> str:
        return printable_lines("\n".join(self._lines()))

    def __repr__(self) -> str:
        what = f"`{self.primitive}`" if self.primitive else f"input {self.input}"
        return printable_lines(f"<{_WORDS[self.kind]} from {what}, {self.origin}>")

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _lines(self) -> list[str]:
        word = _WORDS[self.kind]
        shape = list(np.shape(self.result))
        where = f"{self.n_bad} of {np.size(self.result)} elements" if shape else ""
        first = (
            f"the first at {list(self.indices[0])}" if shape and self.indices else ""
        )
        counted = "; ".join(part for part in (where, first) if part)
        if self.origin is None:
            return [
                f"{word} in input `{self.input}`",
                *([f"  {counted}"] * bool(counted)),
            ]
        origin = self.origin
        values = ", ".join("..." if v is None else f"{v:g}" for v in self.values)
        lines = [f"{word} at {origin}"]
        lines += [f"    {origin.text}"] if origin.text else []
        lines.append(
            f"  {self.primitive}({values})" + (f"; {counted}" if counted else "")
        )
        inside = [part for part in origin.path]
        lines += [f"  inside {' / '.join(inside)}"] if inside else []
        lines += [f"  scopes {origin.scopes}"] if origin.scopes.strip("/") else []
        lines.append(f"why:  {self.why}")
        lines += [f"mend: {self.mend}"] if self.mend else []
        return lines


def nan_origin(
    function: Any,
    *,
    kind: str = "nan",
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., NanOrigin | None]:
    """Find the equation that first makes a NaN which reaches a result.

    The program is compiled with a flag for every intermediate, and the loop or branch
    that made a bad value is looked into, turn by turn: two or three runs of compiled
    programs, whatever their size. What it prints or calls on the host, it does in each.

    Args:
      function: A callable, a jaxpr, also a printed one, a `jax.stages.Traced`, a `Source`, or the path of a
        file that untrace saved, which is EXECUTED; for a backward pass,
        `jax.grad(loss)` or a whole training step.
      kind: "nan"; "inf", the first value that is not finite and reaches a result; or
        "overflow", the first infinity that is none in exact arithmetic, also if no
        result shows it.
      static_argnums: As in `jax.jit`.
      static_argnames: As in `jax.jit`.

    Returns:
      A function of the arguments of `function` that returns a `NanOrigin`, or None if
      there is no such value.

    Raises:
      ValueError: If there is no such kind.
      CaptureError: If the arguments cannot be traced.
      LoadError: If a file cannot be read.

    >>> import jax, jax.numpy as jnp
    >>> found = nan_origin(jax.grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0)))(0.0)
    >>> found.primitive, found.trap, found.values
    ('mul', 'where', (0.0, inf))
    """
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r}: {', '.join(KINDS)}")
    load_entry_points()

    def find(call: Call) -> NanOrigin | None:
        with jaxapi.quiet_callbacks():
            stretch = flagged(call.jaxpr, call.inputs, KINDS[kind])
            if kind == "overflow":
                return _overflow(stretch)
            found = search(stretch, KINDS[kind])
            if found.input is not None and found.stretch is stretch:
                return _of_input(kind, call, found.input)
            return None if found.row is None else _of_row(kind, found)

    return tool(function, find, static_argnums, static_argnames)


def evidence_of(function: Callable[..., Any], args: Sequence[Any]) -> list[Evidence]:
    """Return what speaks for traps: where a NaN is made, and the first infinity or NaN.

    Args:
      function: A function of flat positional arguments.
      args: Their values.
    """
    jaxpr = jax.make_jaxpr(function)(*args)
    founds = [search(flagged(jaxpr, args, x), x) for x in (NAN, INFINITE)]
    return [
        gathered(found.stretch, found.row, level)[0]
        for found, level in zip(founds, (NAN, INFINITE))
        if found.row is not None
    ]


def _overflow(stretch: Stretch) -> NanOrigin | None:
    rows = {row for row in origins(stretch, INFINITE).values() if row >= 0}
    for row in sorted(rows)[:MAX_OVERFLOWS]:
        found = enter(stretch, row, INFINITE)
        made = None if found.row is None else _of_row("overflow", found)
        if made is not None and is_overflow(made.primitive, made.values, made.result):
            return made
    return None


def _of_input(kind: str, call: Call, number: int) -> NanOrigin:
    value = np.asarray(call.inputs[number])
    indices, n_bad = bad_elements(value, KINDS[kind])
    name = call.input_names[number]
    why = f"the value comes in with `{name}`."
    return NanOrigin(kind, "", name, None, (), value, indices, n_bad, (), "", why, "")


def _of_row(kind: str, found: Found) -> NanOrigin:
    assert found.row is not None
    row = found.stretch.rows[found.row]
    level = KINDS[kind]
    evidence, operands, result = gathered(found.stretch, found.row, level)
    indices, n_bad = bad_elements(result, level)
    origin = origin_of(row.equation, row.path)
    trap = explain(evidence) if n_bad else None
    name = row.equation.primitive.name
    why = f"`{name}` makes it of what it is given here."
    if not n_bad:
        why = f"op by op `{name}` makes none of what it is given: the compiled program does."
    elif trap:
        why = trap.why
    called = _foreign_name(row.equation)
    if called:
        why = f"`{called}`: {why}"
    return NanOrigin(
        kind,
        name,
        "",
        origin,
        tuple(operands),
        result,
        indices,
        n_bad,
        at_first_bad(operands, result, indices),
        trap.name if trap else "",
        why,
        trap.mend if trap else "",
    )


def _foreign_name(equation: Any) -> str:
    """The name of a kernel or of a host function, which is not looked into."""
    params = equation.params
    if equation.primitive.name == "pallas_call":
        body, _ = jaxapi.split_jaxpr(params["jaxpr"])
        return str(params.get("name") or body.debug_info.func_name or "")
    host = getattr(params.get("callback"), "callback_func", None)
    return str(getattr(host, "__name__", ""))
