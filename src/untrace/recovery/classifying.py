"""Which functions are recorded: those of users and of the frameworks they use."""

from __future__ import annotations

import functools
import inspect
import os
import re
import sysconfig
import types
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jaxlib
import numpy as np

from untrace.folder import OWN_FOLDER

Function = TypeVar("Function", bound=Callable[..., Any])

_HANDED_OVER: dict[int, types.CodeType] = {}
"""Code of this package that is recorded, by its `id`."""


def recorded(function: Function) -> Function:
    """Let a function of this package be recorded: a part of the program that it makes.

    Such are the inverses that users call, and the bodies of their loops.
    """
    code = function.__code__
    _HANDED_OVER[id(code)] = code
    return function


def pass_over(folder: str) -> None:
    """Let code in a folder only pass calls on: what it calls is called by what called it."""
    _PASSED_OVER.append(folder)
    is_ignored.cache_clear()
    passes_on.cache_clear()


def write_inside(folder: str) -> None:
    """Let code in a folder that is passed over name what it assigns where it is called."""
    _WRITTEN_INSIDE.append(folder)
    is_written_inside.cache_clear()


_WRITTEN_INSIDE: list[str] = []


@functools.lru_cache(maxsize=4096)
def is_written_inside(filename: str) -> bool:
    """Whether variables of a file's code name values where it is called."""
    return filename.startswith(tuple(_WRITTEN_INSIDE))


_PASSED_OVER: list[str] = []
"""Where code stands that is no part of a program."""


@functools.lru_cache(maxsize=4096)
def passes_on(filename: str) -> bool:
    """Whether code of a file only passes calls on, unless it is handed over."""
    return filename.startswith(tuple(_PASSED_OVER))


def is_recorded(code: types.CodeType) -> bool:
    """Whether calls of a function are recorded with all that it does.

    Generators and comprehensions are not: what they do belongs to the function around.
    """
    if is_handed_over(code):
        return True
    flags = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    if code.co_flags & flags:
        return False
    if code.co_name.startswith("<") and code.co_name != "<lambda>":
        return False
    if reads_attribute(code):
        return False
    return not is_ignored(code.co_filename)


def is_handed_over(code: types.CodeType) -> bool:
    """Whether code of this package is a part of a program: see `recorded`."""
    return id(code) in _HANDED_OVER


def reads_attribute(code: types.CodeType) -> bool:
    """Whether code runs when an attribute is read, which is no call."""
    return code.co_name == "__getattribute__"


def is_inside_jax(code: types.CodeType) -> bool:
    """Whether code is a part of JAX."""
    return _is_of_jax(code.co_filename)


@functools.lru_cache(maxsize=4096)
def _is_of_jax(filename: str) -> bool:
    return filename.startswith(_jax_folders()) and not _is_example(filename)


def _is_example(filename: str) -> bool:
    """Whether a file is one of `jax.example_libraries`: code in terms of JAX's functions.

    It is written like other libraries, and no part of the API that JAX keeps.
    """
    return filename.startswith(_examples_folder())


@functools.cache
def _examples_folder() -> str:
    return os.path.join(_folder(jax), "example_libraries") + os.sep


@functools.lru_cache(maxsize=4096)
def is_ignored(filename: str) -> bool:
    """Whether a file belongs to Python, NumPy, JAX or this package."""
    if filename.startswith("<"):
        return not filename.startswith(_TYPED)
    if passes_on(filename):
        return True
    if filename.startswith(_own_folders()):
        return not _is_example(filename)
    return filename.startswith(_python_folder()) and not _PACKAGES.search(filename)


_TYPED = ("<ipython", "<stdin>", "<doctest", "<untrace", "<call>")
_PACKAGES = re.compile(r"[\\/](site|dist)-packages[\\/]")


@functools.cache
def _jax_folders() -> tuple[str, ...]:
    return _folder(jax), _folder(jaxlib)


@functools.cache
def _own_folders() -> tuple[str, ...]:
    return *_jax_folders(), _folder(np), OWN_FOLDER


def _folder(module: types.ModuleType) -> str:
    return os.path.dirname(str(module.__file__)) + os.sep


@functools.cache
def _python_folder() -> str:
    return sysconfig.get_paths()["stdlib"] + os.sep
