"""Which functions were compiled again, and why: what `watch_compiles` finds."""

from __future__ import annotations

import html
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from untrace import jaxapi
from untrace.interpreters.recompiling.call_facts import Facts, facts_of
from untrace.interpreters.recompiling.causes import UNKNOWN, Cause, causes_of
from untrace.jaxapi import JitCall
from untrace.printable import printable

MAX_LISTED = 30
"""Groups of recompilations that are shown."""
MAX_CANDIDATES = 64
"""Earlier compilations of one function that a new one is compared with."""


@dataclass(frozen=True, slots=True)
class Recompilation:
    """A function that is compiled again, and for what.

    Attributes:
      function: Its name.
      defined: "file.py:12", where it is defined; "" if that is not known.
      place: Where the call stands that it was compiled for; "" if that is not known.
      seconds: How long compiling took; 0 if nothing was compiled.
      causes: What differs from the call before that is most like this one. Empty if
        nothing differs that JAX looks at, so that nothing is compiled again.
      is_jitted: False if the function is none that `jax.jit` made, and no such function
        was compiled in it: what would be if it were.
    """

    function: str
    defined: str
    place: str
    seconds: float
    causes: tuple[Cause, ...]
    is_jitted: bool = True

    def __str__(self) -> str:
        where = f" ({self.defined})" if self.defined else ""
        name = f"`{self.function}`{where}"
        if not self.is_jitted:
            name += (
                " is not jitted, nor was anything that is jitted compiled in it. With"
            )
            name += " `jax.jit` around it, it"
        if not self.causes:
            return f"{name} is not compiled again: nothing differs that JAX looks at."
        head = f"{name} is compiled again:"
        return "\n".join([head, *(f"  {cause}" for cause in self.causes)])

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self) if cycle else str(self))


class CompileWatch:
    """Watches what JAX compiles while it is entered.

    Attributes:
      recompilations: Compilations of functions that had been compiled before in here, in
        order, each with its causes.
      n_first: How many functions were compiled for the first time in here.
      n_own: How many of JAX's own operations were compiled, which run by themselves
        outside of `jax.jit`.
      seconds: How long all this took.
    """

    def __init__(self, show: bool = False) -> None:
        self.recompilations: tuple[Recompilation, ...] = ()
        self.n_first = self.n_own = 0
        self.seconds = 0.0
        self._show = show
        self._known: dict[Any, list[Facts]] = defaultdict(list)
        self._watching: AbstractContextManager[None] | None = None

    def __enter__(self) -> CompileWatch:
        self._watching = jaxapi.watching_compiles(self._compiled)
        self._watching.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._watching is not None:
            self._watching.__exit__(None, None, None)
            self._watching = None
        if self._show:
            console = Console(file=sys.stderr, highlight=False, soft_wrap=True)
            console.print(self if console.is_terminal else str(self), markup=False)

    def _compiled(self, call: JitCall | None, name: str, seconds: float) -> None:
        """Take note of a compilation; called by JAX while it compiles."""
        if call is None or jaxapi.is_of_jax_itself(call.function):
            self.n_own += 1
            self.seconds += seconds
            return
        self.seconds += seconds
        try:
            self._note(facts_of(call), seconds)
        except Exception as error:
            # What the user's functions hold may not let itself be looked at; the program
            # that is watched goes on all the same.
            words = f"cannot be explained: {type(error).__name__}: {error}"
            cause = Cause("unknown", "", printable(words), "")
            title = printable(name)
            made = Recompilation(title, "", printable(call.place), seconds, (cause,))
            self.recompilations = (*self.recompilations, made)

    def _note(self, facts: Facts, seconds: float) -> None:
        known = self._known[facts.code]
        if known:
            made = explained(known[-MAX_CANDIDATES:], facts, seconds)
            self.recompilations = (*self.recompilations, made)
        else:
            self.n_first += 1
        known.append(facts)

    # -- what is shown

    def __str__(self) -> str:
        lines = [self._headline()]
        groups = self._groups()
        for each in groups[:MAX_LISTED]:
            first = each[0]
            lines.append("")
            lines.append(_title(each))
            lines += [f"  {cause}" for cause in first.causes]
        if len(groups) > MAX_LISTED:
            lines.append(f"\n… and {len(groups) - MAX_LISTED} more")
        return "\n".join(lines)

    def __repr__(self) -> str:
        n = len(self.recompilations)
        return f"<untrace.CompileWatch: {n} recompilation{'s' * (n != 1)}>"

    def __rich__(self) -> Any:
        if not self.recompilations:
            return Text(self._headline())
        table = Table(title=self._headline(), title_justify="left", show_lines=True)
        for name in ("function", "called at", "times", "seconds"):
            table.add_column(name)
        table.add_column("why, and what to change", overflow="fold")
        for each in self._groups()[:MAX_LISTED]:
            first = each[0]
            where = f"\n{first.defined}" if first.defined else ""
            table.add_row(
                Text(first.function + where),
                Text("\n".join(_places(each))),
                str(len(each)),
                f"{sum(one.seconds for one in each):.2f}",
                Text("\n".join(map(str, first.causes))),
            )
        return table

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self) if cycle else str(self))

    def _headline(self) -> str:
        n = len(self.recompilations)
        wasted = sum(one.seconds for one in self.recompilations)
        first = f"{self.n_first} first compilation{'s' * (self.n_first != 1)}"
        own = f"{self.n_own} of JAX's own operations" if self.n_own else ""
        rest = ", ".join(filter(None, [first, own]))
        if not n:
            return f"No function was compiled again ({rest})."
        return f"{n} recompilation{'s' * (n != 1)}, {wasted:.2f} s (beside {rest})."

    def _groups(self) -> list[list[Recompilation]]:
        """Put together what is compiled again for the same reason."""
        groups: dict[Any, list[Recompilation]] = {}
        for one in self.recompilations:
            reasons = tuple([(cause.kind, cause.where) for cause in one.causes])
            key = (one.function, one.defined, reasons)
            groups.setdefault(key, []).append(one)
        return list(groups.values())


def explained(
    known: Sequence[Facts], facts: Facts, seconds: float = 0.0
) -> Recompilation:
    """Explain a compilation by the earlier one that is most like it."""
    every = [causes_of(before, facts) for before in reversed(known)]
    found = [causes for causes in every if causes]
    if len(found) < len(every):  # one is the same: what it was compiled to is gone
        causes: tuple[Cause, ...] = (UNKNOWN,)
    else:
        causes = min(found, key=len)
    return Recompilation(facts.name, facts.defined, facts.place, seconds, causes)


def _title(each: Sequence[Recompilation]) -> str:
    first = each[0]
    where = f" ({first.defined})" if first.defined else ""
    called = ", ".join(_places(each))
    times = f", {len(each)} times" if len(each) > 1 else ""
    seconds = sum(one.seconds for one in each)
    at = f", called at {called}" if called else ""
    return printable(f"`{first.function}`{where}{at}{times}, {seconds:.2f} s")


def _places(each: Sequence[Recompilation]) -> list[str]:
    return list(dict.fromkeys(one.place for one in each if one.place))
