"""How the original is called and what it returns, in the user's own types.

A generated file has plain containers, and small classes of its own, in the places of the
user's. The calling convention leads from one to the other, leaf by leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from untrace.capture.parameters import Bound


class _Traced:
    """Stands for a leaf that is an input or an output."""

    def __repr__(self) -> str:
        return "TRACED"


TRACED: Any = _Traced()


@dataclass(frozen=True, slots=True)
class Convention:
    """The calling convention of the original.

    Attributes:
      function: The original.
      bound: The arguments that are not static, in the order of `arguments`.
      static: The values of the others, by the names that the function gives them.
      arguments: The tree of the list of arguments.
      leaves: Its leaves: `TRACED`, or what it was.
      result: The tree of the result; behind it are the arguments that were `changed`.
      outputs: The leaves of the result: `TRACED`, or what it was.
      changed: The names of arguments that are changed in place.
      returns: Whether the original returns anything but None.
    """

    function: Callable[..., Any]
    bound: tuple[Bound, ...]
    static: Mapping[str, Any]
    arguments: Any
    leaves: tuple[Any, ...]
    result: Any
    outputs: tuple[Any, ...]
    changed: tuple[str, ...]
    returns: bool

    def returned(self, outputs: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
        """The result in the user's types, and what becomes of changed arguments."""
        rest = iter(outputs)
        leaves = [next(rest) if o is TRACED else o for o in self.outputs]
        whole = jax.tree.unflatten(self.result, leaves)
        if not self.changed:
            return whole, {}
        n_parts = len(self.changed) + self.returns
        parts: list[Any] = [whole] if n_parts == 1 else list(whole)
        own = parts.pop(0) if self.returns else None
        return own, dict(zip(self.changed, parts))
