"""Tensors whose values are JAX arrays, and which change in place as those of torch do.

Such a tensor has the shape and the dtype that torch code asks for, but no storage.
A view reads from the tensor that it is a view of, and writes there.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.readers.torch.library import jax_dtype, torch, torch_dtype
from untrace.recovery.numbers import stand_for_arrays


class Runs(threading.local):
    """Which run of a module tensors are made in, in each thread.

    Attributes:
      now: The number of the run.
      made: The tensors that it has made and that something still holds.
      own: The `id` of those among them that are the state of the module.
      stale: Makes the error of a tensor of an earlier run; what knows the lines sets it.
    """

    stale: staticmethod[[], Exception]

    def __init__(self) -> None:
        self.now = 0
        self.made: dict[int, weakref.ref[Tensor]] = {}
        self.own: set[int] = set()

    def begin(self) -> None:
        """Begin a run."""
        self.now += 1
        self.made.clear()
        self.own.clear()

    def left(self) -> list[Tensor]:
        """List the tensors that something holds which is no state of the module."""
        kept = [ref() for key, ref in self.made.items() if key not in self.own]
        return [tensor for tensor in kept if tensor is not None]

    def note(self, tensor: Tensor) -> None:
        """Take note of a tensor that this run makes."""
        key, made = id(tensor), self.made
        made[key] = weakref.ref(tensor, lambda _: made.pop(key, None))


RUNS = Runs()


class View(NamedTuple):
    """How a tensor is a part of another one.

    Attributes:
      base: The other one.
      read: Makes the array of the part of that of the whole.
      write: Makes the array of the whole anew, of it and that of the part.
    """

    base: Tensor
    read: Callable[[Any], Any]
    write: Callable[[Any, Any], Any]


class Tensor(torch.Tensor):
    """A tensor that stands for a JAX array.

    Args:
      array: Its value now.
      view: What it is a view of, if it is one.
    """

    @staticmethod
    def __new__(cls: Any, array: Any, view: View | None = None) -> Tensor:
        make: Any = torch.Tensor._make_wrapper_subclass
        return make(cls, array.shape, dtype=torch_dtype(array.dtype), device="cpu")

    def __init__(self, array: Any, view: View | None = None) -> None:
        super().__init__()
        self.held, self.view_of, self.run = array, view, RUNS.now
        RUNS.note(self)
        self.version = 0
        self._views: list[weakref.ref[Tensor]] = []
        if view:
            view.base._views.append(weakref.ref(self))
        self.seen = view.base.current_version() if view else 0

    def current_version(self) -> int:
        """A number that grows whenever the value changes."""
        base = self.view_of.base.current_version() if self.view_of else 0
        return self.version + base

    @property
    def array(self) -> Any:
        """The value now.

        Raises:
          StaleTensorError: If it is one of an earlier run, and has none any more.
        """
        if self.run != RUNS.now and isinstance(self.held, jaxapi.Tracer):
            raise RUNS.stale()
        if self.view_of and self.seen != self.view_of.base.current_version():
            self.held = self.view_of.read(self.view_of.base.array)
            self.seen = self.view_of.base.current_version()
        return self.held

    def write(self, array: Any) -> None:
        """Change the value in place, and that of what this is a view of."""
        current = self.array
        if array.dtype != current.dtype:
            array = array.astype(current.dtype)
        if array.shape != current.shape:
            array = jnp.broadcast_to(array, current.shape)
        self.held = array
        self.version += 1
        if self.view_of:
            base = self.view_of.base
            base.write(self.view_of.write(base.array, array))
            self.seen = base.current_version()

    def is_viewed(self) -> bool:
        """Whether the user still holds a view of this."""
        return any(view() is not None for view in self._views)

    def become(self, view: Callable[[Tensor], Tensor]) -> None:
        """Become a view of what this was, as `transpose_` does."""
        assert not self.is_viewed(), "views are those of what this was"
        before = Tensor(self.array, self.view_of)
        made = view(before)
        self.held, self.view_of, self.seen = made.held, made.view_of, made.seen
        self.version += 1

    shape = property(lambda self: torch.Size(self.held.shape))
    ndim = property(lambda self: self.held.ndim)
    dtype = property(lambda self: torch_dtype(self.held.dtype))
    is_leaf = property(lambda self: True)
    data = property(lambda self: self, lambda self, other: self.write(other.array))

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return cls.dispatched(func, args, kwargs or {})

    dispatched: ClassVar[Callable[..., Any]]
    """Carries out an operator of ATen; what knows all of them sets it."""


def _flatten(tensor: Tensor) -> tuple[tuple[Any], None]:
    return (tensor.array,), None


def _flatten_with_keys(tensor: Tensor) -> tuple[tuple[tuple[Any, Any]], None]:
    return ((jax.tree_util.GetAttrKey("value"), tensor.array),), None


def _unflatten(_: None, children: Iterable[Any]) -> Any:
    return next(iter(children))  # what is known of a tensor is its array


jax.tree_util.register_pytree_with_keys(
    Tensor, _flatten_with_keys, _unflatten, _flatten
)
stand_for_arrays(Tensor, lambda tensor: tensor.held)


def to_array(tensor: Any) -> Any:
    """The array that a tensor of torch is."""
    if isinstance(tensor, Tensor):
        return tensor.array
    tensor = tensor.detach().cpu()
    dtype = jax_dtype(tensor.dtype)
    if tensor.dtype == torch.bfloat16:
        return jnp.asarray(tensor.float().numpy()).astype(dtype)
    return jnp.asarray(tensor.resolve_conj().resolve_neg().numpy(), dtype)
