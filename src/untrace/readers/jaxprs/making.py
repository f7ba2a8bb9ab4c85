"""What the parts that make an equation ask of the builder that they are part of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Protocol

from untrace.readers.jaxprs.library import Library
from untrace.readers.jaxprs.syntax import Block, Equation, Printed
from untrace.readers.jaxprs.weak import WeakTypes


class Making(Protocol):
    """What is known while the jaxprs of one text are made (see `building.Builder`)."""

    @property
    def shared(self) -> dict[str, Block]: ...

    @property
    def weak(self) -> WeakTypes: ...

    @property
    def params(self) -> MakingParams: ...

    @property
    def library(self) -> Library: ...

    @property
    def alike(self) -> dict[Any, Any]: ...

    @property
    def mesh(self) -> Any: ...

    def region(self, mesh: Any) -> AbstractContextManager[None]: ...

    def line(self, at: int) -> tuple[int, str]: ...

    def fail(self, problem: str, at: int, advice: str = "") -> NoReturn: ...

    def type(self, text: str, at: int) -> Any: ...

    def short(self, aval: Any) -> str: ...

    def shared_block(self, name: str, at: int) -> Block: ...

    def from_text(self, block: Block) -> Any: ...

    def inner(self, tree: Printed) -> Any: ...

    def block(
        self, block: Block, avals: Sequence[Any], needed: tuple[int, ...]
    ) -> Any: ...

    def n_mixed(self, jaxpr: Any) -> int: ...

    def known(
        self, eqn: Equation, primitive: Any, params: dict[str, Any]
    ) -> dict[str, Any]: ...

    def inferred(
        self, eqn: Equation, primitive: Any, avals: Sequence[Any], params: Any
    ) -> tuple[list[Any], Any]: ...


class MakingParams(Protocol):
    """What makes params (see `params.Params`)."""

    def read(
        self, eqn: Equation, jaxprs: Mapping[str, list[Any]]
    ) -> dict[str, Any]: ...


class MakingBlock(Protocol):
    """What is known while one jaxpr is made (see `building.BlockBuilder`)."""

    @property
    def builder(self) -> Making: ...

    def operand(self, atom: Any, is_weak: bool, like: Any) -> Any: ...

    def index_literal(self, value: Any) -> Any: ...
