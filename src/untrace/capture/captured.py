"""A traced computation and its signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from untrace import jaxapi
from untrace.capture.convention import Convention
from untrace.capture.outline import Outline
from untrace.capture.parameters import Parameter
from untrace.capture.trees import Tree


@dataclass(frozen=True, slots=True)
class Captured:
    """A traced computation and its signature.

    Attributes:
      jaxpr: The closed jaxpr.
      name: Name of the function.
      origin: Where it came from, for the header.
      parameters: In the order of the generated signature; leaf indices count the
        inputs of the jaxpr.
      result: Tree of the outputs of the jaxpr.
      convention: How the original is called; None if only the jaxpr is known.
      rule_cases: In which cases its derivative rules are written.
      outline: What the original returned, for the checker; None if only the jaxpr is known.
      values: The concrete leaves that were passed, or None for each abstract one.
      notes: What the header must mention.
      recording: The run of the function that was recorded (`recovery.record.Body`),
        or None.
      is_exact: Whether the example inputs of the file are these very values, whatever
        their size.
      variant: Traces the function again with other sizes of some axes of its inputs,
        where that was asked for, and records it if told to; it returns None if that
        cannot be done.
      dimensions: The sizes that have names (`lifting.sizes.Dimensions`), or None.
      weights: The parameters whose values are stored beside the file.
      fixed: The types of Python numbers that are no inputs, since the function needs
        to know them.
    """

    jaxpr: Any
    name: str
    origin: str
    parameters: tuple[Parameter, ...]
    result: Tree
    values: tuple[Any, ...]
    notes: tuple[str, ...] = ()
    recording: Any = None
    is_exact: bool = False
    variant: Callable[[Mapping[tuple[int, int], int], bool], Captured | None] | None = (
        None
    )
    dimensions: Any = None
    fixed: frozenset[type] = frozenset()
    weights: tuple[str, ...] = ()
    outline: Outline | None = None
    convention: Convention | None = None
    rule_cases: jaxapi.RuleCases = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule_cases", jaxapi.RuleCases(self.jaxpr))
