"""What the parts that make an equation ask of the builder that they are part of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

from untrace.readers.jaxprs.syntax import Block, Printed


class Making(Protocol):
    """What is known while the jaxprs of one text are made (see `building.Builder`)."""

    @property
    def shared(self) -> Mapping[str, Block]: ...

    def fail(self, problem: str, at: int, advice: str = "") -> NoReturn: ...

    def type(self, text: str, at: int) -> Any: ...

    def short(self, aval: Any) -> str: ...

    def shared_block(self, name: str, at: int) -> Block: ...

    def from_text(self, block: Block) -> Any: ...

    def inner(self, tree: Printed) -> Any: ...


class MakingBlock(Protocol):
    """What is known while one jaxpr is made (see `building.BlockBuilder`)."""

    @property
    def builder(self) -> Making: ...

    def operand(self, atom: Any, is_weak: bool, like: Any) -> Any: ...

    def index_literal(self, value: Any) -> Any: ...
