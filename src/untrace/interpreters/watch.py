"""A table of what a program computes: each value, its name, its line, and what it is like."""

from __future__ import annotations

import fnmatch
import html
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from untrace import jaxapi
from untrace.errors import CallError
from untrace.extension import load_entry_points
from untrace.interpreters.called import Call, tool
from untrace.interpreters.evaluate import Step, evaluate
from untrace.interpreters.places import Origin, origin_of
from untrace.interpreters.sub_programs import body_param, is_traced
from untrace.interpreters.summaries import Summary, summary
from untrace.lifting.value_names import value_names
from untrace.printable import printable

Expressions = Mapping[str, Callable[[Any], Any]]
MAX_ROWS = 200
"""How many rows are shown; `Watched.rows` holds all."""
WIDTH_COLS = 240
"""Where text is folded that no terminal folds: most tables are narrower."""


@dataclass(frozen=True)
class Watch:
    """One value at one moment.

    Attributes:
      name: What the recovered source, at level "lax", calls it.
      variable: What the user's code calls it, or "".
      origin: The user's line that it comes from.
      summary: What it is like.
      extra: What `expr` makes of it.
    """

    name: str
    variable: str
    origin: Origin
    summary: Summary
    extra: tuple[str, ...]

    @property
    def turn(self) -> str:
        """The loops and branches that it is in, with their turns."""
        return "/".join(part for part in self.origin.path if part.endswith("]"))


@dataclass(frozen=True)
class Watched:
    """The values of one run, in the order in which they were computed.

    Attributes:
      rows: The values that were asked for.
      result: What the function returned.
      columns: The names of what `expr` makes.
    """

    rows: tuple[Watch, ...]
    result: Any
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return self._written(WIDTH_COLS)

    def __repr__(self) -> str:
        return f"<untrace.Watched: {len(self.rows)} values>"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._written(WIDTH_COLS))}</pre>"

    def _written(self, width_cols: int) -> str:
        console = Console(file=io.StringIO(), width=width_cols, force_jupyter=False)
        with console.capture() as capture:
            console.print(self.__rich__())
        lines = capture.get().splitlines()
        return "\n".join(line.rstrip() for line in lines)

    def __rich__(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for title in ("name", "variable", "line", "turn", "type"):
            table.add_column(title, overflow="fold")
        numbers = ("min", "max", "mean", "norm", "nan", "inf", "zero", *self.columns)
        for title in numbers:
            table.add_column(Text(printable(title)), justify="right")
        for row in self.rows[:MAX_ROWS]:
            s = row.summary
            texts = [row.name, row.variable, row.origin.place, row.turn, s.type]
            texts += [_number(x) for x in (s.min, s.max, s.mean, s.norm)]
            texts += [_share(x) for x in (s.nan, s.inf, s.zero)]
            # Not strings: what stands in brackets is no markup.
            cells = [Text(printable(text)) for text in (*texts, *row.extra)]
            table.add_row(*cells)
        if len(self.rows) > MAX_ROWS:
            table.caption = f"{len(self.rows) - MAX_ROWS:,} more"
        return table


def watch(
    function: Any,
    *,
    names: str | Sequence[str] = "*",
    functions: str | Sequence[str] = "*",
    lines: int | Sequence[int] = (),
    expr: Callable[[Any], Any] | Expressions | None = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Watched]:
    """Run a function and list what it computes, value by value.

    Values of loops are listed turn by turn; what JAX's own functions compute inside is
    one value. The function is evaluated op by op.

    Args:
      function: A callable, a jaxpr, also a printed one, a `jax.stages.Traced`, a `Source`, or the path of a
        file that untrace saved, which is EXECUTED.
      names: Patterns as in a shell; what has such a name, in the recovered source at
        level "lax" or as a variable of the user's, is listed.
      functions: Patterns; what comes from such functions of the user's is listed.
      lines: Lines of the user's files; by default all.
      expr: One reduction or several, by name, of arrays to numbers, in further columns.
      static_argnums: As in `jax.jit`.
      static_argnames: As in `jax.jit`.

    Returns:
      A function of the arguments of `function` that returns a `Watched`: it prints as a
      table, in notebooks and by rich, too.

    Raises:
      CallError: If an argument is traced: the values are not known inside `jax.jit`.
      CaptureError: If the arguments cannot be traced.
      LoadError: If a file cannot be read.

    >>> import jax.numpy as jnp
    >>> watched = watch(lambda x: jnp.sin(x) * 2, expr=jnp.std)(jnp.zeros(3))
    >>> [(row.name, row.summary.type, row.extra) for row in watched.rows]
    [('sine', 'f32[3]', ('0',)), ('product', 'f32[3]', ('0',))]
    """
    load_entry_points()
    wanted = _Wanted(_listed(names), _listed(functions), _listed(lines))
    expressions = _expressions(expr)

    def run(call: Call) -> Watched:
        if is_traced(call.inputs):
            raise CallError("watch needs values; it cannot be called while JAX traces.")
        written, variables = value_names(call.captured)
        rows: list[Watch] = []

        def handler(step: Step, *operands: Any) -> Any:
            results = step.bind(*operands) if _is_of_jax(step) else step(*operands)
            made = results if step.primitive.multiple_results else [results]
            origin: Origin | None = None
            for var, value in zip(step.equation.outvars, made):
                if is_traced([value]) or type(var) is jaxapi.DropVar:
                    continue
                origin = origin or origin_of(step.equation, step.path)
                name = written.get(var, step.name)
                variable = variables.get(var, "")
                if wanted.takes((name, variable), origin):
                    extra = tuple([_number(f(value)) for f in expressions.values()])
                    rows.append(Watch(name, variable, origin, summary(value), extra))
            return results

        outputs = evaluate(call.jaxpr, call.inputs, handler, jaxapi.equation_context)
        return Watched(tuple(rows), call.returned(outputs), tuple(expressions))

    return tool(function, run, static_argnums, static_argnames)


@dataclass(frozen=True)
class _Wanted:
    """Which values are listed."""

    names: tuple[Any, ...]
    functions: tuple[Any, ...]
    lines: tuple[Any, ...]

    def takes(self, names: Sequence[str], origin: Origin) -> bool:
        return (
            any(fnmatch.fnmatchcase(n, p) for n in names if n for p in self.names)
            and any(fnmatch.fnmatchcase(origin.function, p) for p in self.functions)
            and (not self.lines or origin.line in self.lines)
        )


def _listed(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, str | int) else tuple(value)


def _expressions(expr: Callable[[Any], Any] | Expressions | None) -> Expressions:
    if expr is None:
        return {}
    if isinstance(expr, Mapping):
        return expr
    return {getattr(expr, "__name__", "expr"): expr}


def _is_of_jax(step: Step) -> bool:
    """Whether an equation is a call of one of JAX's own functions."""
    key = body_param(step.equation)
    if key is None:
        return False
    body, _ = jaxapi.split_jaxpr(step.params[key])
    return jaxapi.is_made_by_jax(body.debug_info)


def _number(value: Any) -> str:
    if value is None:
        return ""
    try:
        return f"{float(value):.4g}"
    except (TypeError, ValueError):
        return str(value)


def _share(value: float) -> str:
    return f"{value:.0%}" if value else ""
