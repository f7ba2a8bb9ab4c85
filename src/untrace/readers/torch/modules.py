"""Copies of modules whose parameters and buffers are tensors of JAX.

The module of the user stays as it is. A copy is of a class made for it, which calls
`forward` at once and is a pytree of its parameters by their names: of a nested dict. So
recordings know `params["layers"]["0"]` wherever the module is passed.
"""

from __future__ import annotations

import collections.abc
import functools
import os
import types
from collections.abc import Callable, Iterable, Set
from typing import Any

import jax

from untrace.readers.torch.dispatching import LAYERS
from untrace.readers.torch.library import torch
from untrace.readers.torch.lowerings.random import KEYS
from untrace.recovery.classifying import pass_over, recorded
from untrace.recovery.quoting import quote_as

Module: Any = torch.nn.Module
Mapping: Any = collections.abc.Mapping

pass_over(os.path.dirname(__file__) + os.sep)
pass_over(os.path.dirname(torch.__file__) + os.sep)  # but for the layers themselves


class Copier:
    """Copies a module with all that it holds.

    Args:
      tensor: Returns the tensor that stands for one of the user's.
      drawing: The `id` of the modules that draw random numbers.
    """

    def __init__(self, tensor: Callable[[Any], Any], drawing: Set[int]) -> None:
        self._tensor, self._known = tensor, dict[int, tuple[Any, Any]]()
        self._drawing = drawing

    def copy(self, value: Any) -> Any:
        """Copy modules, tensors and the containers that hold them."""
        if id(value) in self._known:
            return self._known[id(value)][1]
        if isinstance(value, Module):
            made = object.__new__(traced_class(type(value)))
            self._known[id(value)] = value, made
            made.__dict__.update({k: self.copy(v) for k, v in vars(value).items()})
            made.__dict__["copied_from"] = id(value)
            made.__dict__["draws"] = id(value) in self._drawing
            return made
        if isinstance(value, torch.Tensor):
            made = self._tensor(value)
        elif type(value) in (list, tuple, set):
            made = type(value)(map(self.copy, value))
        elif type(value) is dict:
            made = {key: self.copy(part) for key, part in value.items()}
        elif isinstance(value, types.MethodType) and isinstance(value.__self__, Module):
            made = types.MethodType(value.__func__, self.copy(value.__self__))
        else:
            return value
        self._known[id(value)] = value, made
        return made


@functools.cache
def traced_class(cls: Any) -> Any:
    """The class of copies of a module, which has the same name."""
    names: dict[str, Any] = {"__module__": cls.__module__, "__doc__": cls.__doc__}
    forward = cls.forward
    is_plain = isinstance(forward, types.FunctionType)
    if is_plain and forward.__code__.co_name == "forward":
        names["forward"] = _as_call(forward, cls)
    names["__call__"] = _call
    names["is_layer"] = _is_layer(cls)
    made = type(cls.__name__, (cls,), names)
    made.__qualname__ = cls.__qualname__
    jax.tree_util.register_pytree_with_keys(
        made, _flatten_with_keys, functools.partial(_unflatten, made), _flatten
    )
    Mapping.register(made)  # it is described as the dict that it is
    return made


def _as_call(forward: types.FunctionType, cls: Any) -> types.FunctionType:
    """The same function as what its object does when it is called.

    Functions that objects are called by are named after their classes.
    """
    owner = forward.__qualname__.rpartition(".")[0]
    code = forward.__code__
    names = code.co_varnames
    if _is_layer(cls) and "x" not in names:  # `input` is a function of Python
        names = tuple(["x" if name == "input" else name for name in names])
    code = code.replace(
        co_name="__call__", co_qualname=f"{owner}.__call__", co_varnames=names
    )
    quote_as(code, forward.__code__)
    made = types.FunctionType(
        code,
        forward.__globals__,
        "__call__",
        forward.__defaults__,
        forward.__closure__,
    )
    made.__kwdefaults__ = forward.__kwdefaults__
    return recorded(made) if _is_layer(cls) else made


def _is_layer(cls: Any) -> bool:
    """Whether a class of modules is one of torch."""
    return cls.__module__.partition(".")[0] == "torch"


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call `forward` without the machinery around it, if no hook needs it."""
    hooks = ("_forward_hooks", "_forward_pre_hooks")
    if any(self.__dict__.get(name) for name in hooks):
        return Module.__call__(self, *args, **kwargs)
    own = self.__dict__
    draws = own["draws"] and not (self.is_layer and not own["_modules"])
    with LAYERS.inside(self.is_layer), KEYS.inside(own["copied_from"], draws):
        return self.forward(*args, **kwargs)


def state_tree(module: Any) -> dict[str, Any]:
    """The tensors of a module by their names, and its modules that hold some."""
    own = module.__dict__
    tables = own.get("_parameters", {}), own.get("_buffers", {})
    found = {k: v for table in tables for k, v in table.items() if v is not None}
    for name, child in own.get("_modules", {}).items():
        if child is not None and state_tree(child):
            found[name] = child
    return dict(sorted(found.items()))


def _flatten(module: Any) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    found = state_tree(module)
    return tuple(found.values()), tuple(found)


def _flatten_with_keys(module: Any) -> tuple[Any, tuple[str, ...]]:
    found = state_tree(module)
    keys = [jax.tree_util.DictKey(name) for name in found]
    return tuple(zip(keys, found.values())), tuple(found)


def _unflatten(cls: Any, names: tuple[str, ...], children: Iterable[Any]) -> Any:
    """What is known of a module: its name, and what it holds."""
    made = object.__new__(cls)
    made.__dict__["_parameters"] = dict(zip(names, children))
    made.__dict__["_modules"] = {}
    return made
