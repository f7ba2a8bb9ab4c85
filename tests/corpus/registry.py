"""The registry of corpus programs: name, function, arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Program:
    """One program of the corpus.

    Attributes:
      name: Unique in the corpus.
      function: What is traced.
      args: Positional arguments; random where they are `f32(...)`.
      context: Entered around tracing (64-bit types, old-style keys, …).
      variants: Whether derivatives and batches of it belong to the corpus, too.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    context: Callable[[], Any] = contextlib.nullcontext
    variants: bool = True


PROGRAMS: dict[str, Program] = {}


def add(name: str, function: Callable[..., Any], *args: Any, **options: Any) -> None:
    """Register a program."""
    if name in PROGRAMS:
        raise ValueError(f"two programs are called {name}")
    PROGRAMS[name] = Program(name, function, args, **options)


def program(
    *args: Any, **options: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function under its own name."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = getattr(function, "__name__", None) or str(options.pop("name"))
        add(name.removesuffix("_"), function, *args, **options)
        return function

    return register


def f32(*shape: int) -> np.ndarray[Any, Any]:
    """Return an array of normal numbers that depend on the shape only."""
    return (
        np.random.RandomState(len(shape) + sum(shape)).randn(*shape).astype(np.float32)
    )


def i32(*shape: int, high: int = 4) -> np.ndarray[Any, Any]:
    """Return an array of small non-negative integers."""
    return np.random.RandomState(sum(shape)).randint(0, high, shape).astype(np.int32)


def positive(*shape: int) -> np.ndarray[Any, Any]:
    """Return an array of positive numbers."""
    return np.abs(f32(*shape)) + np.float32(0.5)


def spd(n: int) -> np.ndarray[Any, Any]:
    """Return a symmetric positive definite matrix."""
    a = f32(n, n)
    return a @ a.T + n * np.eye(n, dtype=np.float32)
