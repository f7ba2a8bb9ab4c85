"""StableHLO modules as plain data, which holds no object of MLIR.

Types are shapes and dtypes, attributes are numbers, strings, tuples and records. What has
no such form is kept as its text, so that two attributes are equal only if they say the
same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


class ModuleError(Exception):
    """A module cannot be parsed, or is not valid; the message says where."""


class TensorType(NamedTuple):
    """An array: `tensor<4x3xf32>`; a size that varies is None, `?` in MLIR."""

    shape: tuple[Any, ...]
    dtype: np.dtype[Any]


Type = TensorType | str
"""The type of a value; the text of one that is no array of a static shape."""


class Text(str):
    """The text of an attribute or a type that has no plain form."""

    __slots__ = ()


class Symbol(str):
    """The name of a function."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Record:
    """An attribute with fields, such as the dimension numbers of a gather."""

    kind: str
    fields: tuple[tuple[str, Any], ...]

    def __getitem__(self, name: str) -> Any:
        """Return a field."""
        return dict(self.fields)[name]

    def plain(self) -> dict[str, Any]:
        """Return the fields, and those of records in them, as a dict."""
        return {
            name: value.plain() if isinstance(value, Record) else value
            for name, value in self.fields
        }


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A result of an operation or an argument of a block; equal to itself alone."""

    type: Type


class CodePlace(NamedTuple):
    """A part of a file that was being executed, and the function that it is in.

    Lines count from 1, columns from 0; the end is exclusive, and the beginning where it
    is not known.
    """

    file: str
    function: str
    line: int
    column: int
    end_line: int
    end_column: int


class Place(NamedTuple):
    """Where an operation comes from: its name stack, and a file, as far as known.

    `file` is empty for a position in the text that was parsed. `frames` are those of the
    code that made it, innermost first.
    """

    scopes: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    frames: tuple[CodePlace, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An operation; attributes that are not there are not in the dict."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attributes: dict[str, Any]
    regions: tuple[Block, ...]
    place: Place


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Operations in order; `returned` are the operands of the terminator."""

    arguments: tuple[Value, ...]
    operations: tuple[Operation, ...]
    returned: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function; the paths of arguments and results are empty where unknown.

    `marks` are the names of what is said of them besides, such as "tf.aliasing_output".
    """

    name: str
    block: Block
    argument_paths: tuple[str, ...]
    result_paths: tuple[str, ...]
    scopes: str
    marks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """A module and its functions; `main` is the one that is called from outside.

    `source` is what it was parsed from: text, bytes or an object of the bindings.
    `filled` are arguments of `main` that it has besides, with their values: the number of
    the platform that a program for several of them runs on. `orders` says which order of
    effects each token among the arguments of `main` is of ("io" or "debug", or another
    name), if that is known.
    """

    name: str
    functions: dict[str, Function]
    attributes: dict[str, Any]
    source: Any
    filled: dict[int, Any]
    orders: tuple[str, ...] = ()

    @property
    def main(self) -> Function:
        """The function that a program starts with."""
        return self.functions["main"]

    def operations(self) -> Iterator[Operation]:
        """Yield all operations of all functions."""
        todo = [function.block for function in self.functions.values()]
        while todo:
            for operation in todo.pop().operations:
                yield operation
                todo += operation.regions
