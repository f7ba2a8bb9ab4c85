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
from collections.abc import Callable, Iterable
from typing import Any

import jax

from untrace.readers.torch.dispatching import LAYERS as INSIDE
from untrace.readers.torch.dispatching import jax_value, wrapped
from untrace.readers.torch.library import torch
from untrace.readers.torch.lowerings.random import KEYS
from untrace.readers.torch.lowerings.table import LAYERS
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
    """

    def __init__(self, tensor: Callable[[Any], Any]) -> None:
        self._tensor, self._known = tensor, dict[int, tuple[Any, Any]]()
        self._names: dict[int, str] = {}

    def copy(self, value: Any) -> Any:
        """Copy modules, tensors and the containers that hold them."""
        if id(value) in self._known:
            return self._known[id(value)][1]
        if isinstance(value, Module):
            made = object.__new__(traced_class(type(value), self._names.get(id(value))))
            self._names |= _names_of_containers(value)
            self._known[id(value)] = value, made
            made.__dict__.update({k: self.copy(v) for k, v in vars(value).items()})
            made.__dict__["copied_from"] = id(value)
            return made
        if isinstance(value, torch.Tensor):
            made = self._tensor(value)
        elif type(value) in (list, tuple, set):
            made = type(value)(map(self.copy, value))
        elif type(value) in (dict, collections.OrderedDict):  # hooks, too
            made = type(value)((key, self.copy(part)) for key, part in value.items())
        elif isinstance(value, types.MethodType) and isinstance(value.__self__, Module):
            made = types.MethodType(value.__func__, self.copy(value.__self__))
        else:
            return value
        self._known[id(value)] = value, made
        return made


def _names_of_containers(module: Any) -> dict[int, str]:
    """The names that a module has for sequences of others, which say nothing themselves."""
    return {
        id(child): name
        for name, child in module._modules.items()
        if type(child) is torch.nn.Sequential and name.isidentifier()
    }


@functools.cache
def traced_class(cls: Any, name: str | None = None) -> Any:
    """The class of copies of a module, which has the same name if no other is given."""
    names: dict[str, Any] = {"__module__": cls.__module__, "__doc__": cls.__doc__}
    forward = cls.forward
    is_plain = isinstance(forward, types.FunctionType)
    if forward.__qualname__ in LAYERS and _is_layer(forward):
        names["forward"] = _as_layer(forward, LAYERS[forward.__qualname__])
    elif is_plain and forward.__code__.co_name == "forward":
        names["forward"] = _as_call(forward, cls)
    names["__call__"] = _call
    names["is_layer"] = _is_layer(cls)
    made = type(name or cls.__name__, (cls,), names)
    made.__qualname__ = name or cls.__qualname__
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


def _as_layer(forward: Any, layer: Callable[..., Any]) -> Any:
    """The `forward` of a layer that a lowering is given as a whole."""

    def run(self: Any, input: Any, *rest: Any, **options: Any) -> Any:
        made = NotImplemented
        is_usual = "weight" in self._parameters  # else it is computed of others
        if is_usual and not (rest or options):
            made = layer(self, jax_value(input))
        if made is NotImplemented:
            return forward(self, input, *rest, **options)
        return wrapped(made)

    return run


def _is_layer(cls: Any) -> bool:
    """Whether a class or a function is one of torch."""
    return cls.__module__.partition(".")[0] == "torch"


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call `forward` without the machinery around it, if no hook needs it."""
    hooks = ("_forward_hooks", "_forward_pre_hooks")
    if any(self.__dict__.get(name) for name in hooks):
        return Module.__call__(self, *args, **kwargs)
    own = self.__dict__
    with INSIDE.inside(self.is_layer):
        is_called = KEYS.module is not None
        if is_called and self.is_layer and not own["_modules"]:
            return self.forward(*args, **kwargs)  # it draws with keys of its caller
        with KEYS.inside(own["copied_from"]):
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
