"""What terms hold besides references: names of the module, and literals."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


class Symbol(Protocol):
    """A function of the module, whose name is only known once all is written."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, or a string, that stands by itself.

    Attributes:
      text: How it is written.
      value: What it is.
    """

    text: str
    value: float | str = field(compare=False)

    @property
    def is_number(self) -> bool:
        """Whether it is a number."""
        return type(self.value) in (int, float)


@dataclass(eq=False, slots=True)
class Constant:
    """A number of the module.

    Attributes:
      name: What it is called.
      literal: Its text, which stands for the name if that is used only once.
      is_refused: Another number claims the name, so none has it.
    """

    name: str
    literal: Literal
    is_refused: bool = False

    @property
    def number(self) -> str:
        """How the number is written."""
        return self.literal.text


@dataclass(frozen=True, slots=True)
class Global:
    """The name of a function or number of the module, which locals must not hide."""

    symbol: str | Symbol | Constant

    @property
    def text(self) -> str:
        """What is written now; the name of a function may still change."""
        symbol = self.symbol
        if type(symbol) is str:
            return symbol
        if type(symbol) is Constant and symbol.is_refused:
            # Brackets around a sign depend on the place (`Numbers.with_inlined`).
            return symbol.name if symbol.number[0] == "-" else symbol.number
        return symbol.name  # type: ignore[union-attr]

    @property
    def literal(self) -> Literal | None:
        """The number that it stands for; None for a function."""
        return self.symbol.literal if type(self.symbol) is Constant else None

    @property
    def number(self) -> str:
        """How that is written; "" for a function."""
        return self.literal.text if self.literal is not None else ""
