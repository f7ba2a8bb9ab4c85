"""Calls of torch functions, carried out by their lowerings on JAX arrays.

A function is known by its name: `torch.softmax`, `torch.nn.functional.softmax`, the
method of tensors and the operator of ATen have one lowering. Those that end with an
underscore are carried out as the one without it, and written in place.
"""

from __future__ import annotations

import importlib
import threading
import types
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from untrace.errors import UntraceError
from untrace.readers.torch.errors import no_lowering
from untrace.readers.torch.fallback import decomposition, torchax_operator
from untrace.readers.torch.library import jax_dtype, torch
from untrace.readers.torch.lowerings import FUNCTIONS, LOWERINGS, SAME, VIEWS
from untrace.readers.torch.lowerings.indexing import index_of
from untrace.readers.torch.lowerings.normalisation import (
    batch_norm_in_eval,
    batch_norm_in_training,
)
from untrace.readers.torch.lowerings.table import FILLING, reads_all
from untrace.readers.torch.tensors import Tensor, View, to_array

TorchDispatchMode: Any = importlib.import_module(
    "torch.utils._python_dispatch"
).TorchDispatchMode
_OF_STORAGE = frozenset(
    {"device", "layout", "requires_grad", "pin_memory", "memory_format", "generator"}
)
"""Options that say nothing about values."""

_RARELY_GIVEN = frozenset({"out", "size_average", "reduce"})
"""Options of which None says nothing."""


class Found(NamedTuple):
    """Values, and where they were found."""

    values: Any
    indices: Any


FOUND = frozenset({"max", "min", "sort", "topk"})
"""The functions that return such."""


class Tracing(torch.overrides.TorchFunctionMode):
    """While this is entered, calls of torch functions are carried out by JAX."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = name_of(func)
        made = called(name, args, kwargs)
        if made is not NotImplemented:
            return made
        if is_python(func):
            with self:
                return without_overrides(func)(*args, **kwargs)
        return func(*args, **kwargs)  # down to operators of ATen, see `dispatched`


class NoChance(TorchDispatchMode):
    """While this is entered, torch itself draws no numbers, which would be constants."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        is_own = any(isinstance(value, Tensor) for value in args)
        if not is_own and draws(func):
            name = func._schema.name.partition("::")[2]
            raise no_lowering(name, NotImplementedError("it draws random numbers"))
        return func(*args, **(kwargs or {}))


def draws(func: Any) -> bool:
    """Whether an operator of ATen draws random numbers."""
    return torch.Tag.nondeterministic_seeded in func.tags


class Layers(threading.local):
    """Whether a layer of torch runs, and not the user's code."""

    is_inside: bool = False

    @contextmanager
    def inside(self, is_inside: bool) -> Generator[None, None, None]:
        """Enter a layer of torch, or a module of the user."""
        before, self.is_inside = self.is_inside, is_inside
        try:
            yield
        finally:
            self.is_inside = before


LAYERS = Layers()


def name_of(func: Any) -> str:
    """The name that a function, a method or an attribute of tensors is known by."""
    name = getattr(func, "__name__", "")
    return func.__self__.__name__ if name == "__get__" else name


def dispatched(func: Any, args: Any, kwargs: Any) -> Any:
    """Carry out an operator of ATen."""
    name = func._schema.name.partition("::")[2]
    made = called(name, args, kwargs)
    if made is not NotImplemented:
        return made
    if draws(func):
        raise no_lowering(name, NotImplementedError("it draws random numbers"))
    operator, decomposed = torchax_operator(func), decomposition(func)
    if operator is None and decomposed is not None:
        with Tracing():
            return decomposed(*args, **kwargs)
    if operator is None:
        raise no_lowering(name)
    arrays, options = to_jax(args, kwargs, keeps_dtypes=True)
    try:
        return wrapped(operator(*arrays, **options))
    except Exception as error:  # so may those of torchax
        raise no_lowering(str(func), error) from error


Tensor.dispatched = staticmethod(dispatched)


@contextmanager
def _named(name: str) -> Generator[None, None, None]:
    """Let errors name a function of torch and the user's line."""
    try:
        yield
    except UntraceError:
        raise
    except Exception as error:
        raise no_lowering(name, error) from error


def called(name: str, args: Any, kwargs: Any) -> Any:
    """Carry out a function of torch; NotImplemented if it has no lowering."""
    if name in _IN_PLACE:
        with _named(name):
            return _IN_PLACE[name](*args, **kwargs)
    if name in FILLING:
        with _named(name):
            return _written(name, FILLING[name], args, kwargs)
    lowering = LOWERINGS.get(name)
    if not LAYERS.is_inside and name in FUNCTIONS:
        lowering = FUNCTIONS[name]
    if lowering is None and name.endswith("_") and not name.endswith("__"):
        lowering = LOWERINGS.get(name[:-1])
        if lowering is None:
            return NotImplemented
        with _named(name):
            return _written(name, lowering, args, kwargs)
    if lowering is None:
        return NotImplemented
    arrays, options = to_jax(args, kwargs)
    if not reads_all(lowering, arrays, options):
        return NotImplemented
    try:
        made = _run(lowering, arrays, options)
    except UntraceError:
        raise
    except NotImplementedError:  # what torch makes of the call may have lowerings
        return NotImplemented
    except Exception as error:  # lowerings may not take all that torch does
        raise no_lowering(name, error) from error
    if name in FOUND and isinstance(made, (tuple, list)):
        return Found(*map(Tensor, made))
    if name in VIEWS and isinstance(args[0], Tensor):
        return _views(args[0], lowering, made, arrays[1:], options)
    if name in SAME and isinstance(args[0], Tensor) and made is args[0].array:
        return args[0]
    if options.pop("inplace", False) is True:
        args[0].write(made)
        return args[0]
    return wrapped(made)


def _run(lowering: Callable[..., Any], args: Any, options: Any) -> Any:
    """Run a lowering: what it returns has the name that the user gives it."""
    return lowering(*args, **options)


def to_jax(
    args: Any, kwargs: Any, keeps_dtypes: bool = False
) -> tuple[Any, dict[str, Any]]:
    """What a lowering takes: arrays and their dtypes, and nothing about storage.

    `keeps_dtypes` leaves dtypes those of torch, which the operators of torchax take.
    """

    def taken(value: Any) -> Any:
        return jax_value(value, keeps_dtypes)

    kept = {
        name: taken(value)
        for name, value in kwargs.items()
        if name not in _OF_STORAGE and not (value is None and name in _RARELY_GIVEN)
    }
    return taken(tuple(args)), kept


def jax_value(value: Any, keeps_dtypes: bool = False) -> Any:
    """A value with arrays in place of tensors, also in containers."""
    if isinstance(value, torch.Tensor):
        return to_array(value)
    if isinstance(value, torch.dtype):
        return value if keeps_dtypes else jax_dtype(value)
    if isinstance(value, torch.device):
        return None
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
        return slice(*[jax_value(part, keeps_dtypes) for part in parts])
    if isinstance(value, (list, tuple)):
        made = [jax_value(part, keeps_dtypes) for part in value]
        return made if isinstance(value, list) else tuple(made)
    return value


def wrapped(value: Any) -> Any:
    """A value with tensors in place of arrays, also in containers."""
    if isinstance(value, jax.Array):
        return Tensor(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(wrapped, value))
    if type(value) in (tuple, list):
        return tuple(map(wrapped, value))  # torch returns no lists
    return value


# ---- in place -------------------------------------------------------------------------


def _written(name: str, lowering: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    arrays, options = to_jax(args, kwargs)
    if not isinstance(args[0], Tensor):  # made by torch, and of known values
        if name in FILLING:
            raise no_lowering(name, NotImplementedError("of a tensor that is no input"))
        return NotImplemented
    made = lowering(*arrays, **options)
    if name[:-1] not in VIEWS:
        args[0].write(made)
    elif args[0].is_viewed():
        then = "a view of this is seen otherwise: use the function without underscore"
        raise no_lowering(name, NotImplementedError(then))
    else:
        args[0].become(lambda base: _views(base, lowering, made, arrays[1:], options))
    return args[0]


def _set_item(tensor: Tensor, index: Any, value: Any) -> None:
    array, index, value = tensor.array, index_of(jax_value(index)), jax_value(value)
    if not (isinstance(index, jax.Array) and index.dtype == jnp.bool_):
        tensor.write(array.at[index].set(value))
        return
    n_more = array.ndim - index.ndim
    if jnp.ndim(value) > n_more and value.shape[0] != 1:  # one for each that is set
        place = jnp.cumsum(index.reshape(-1)) - 1
        value = value[place].reshape(index.shape + value.shape[1:])
    mask = index.reshape(index.shape + (1,) * n_more) if n_more else index
    tensor.write(jnp.where(mask, value, array))


def _batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    x, mean, var = jax_value((input, running_mean, running_var))
    weight, bias = jax_value((weight, bias))
    if not training:
        return Tensor(batch_norm_in_eval(x, mean, var, weight, bias, eps))
    made = batch_norm_in_training(x, mean, var, weight, bias, momentum, eps)
    out, mean, var = made
    if running_mean is not None:
        running_mean.write(mean)
        running_var.write(var)
    return Tensor(out)


_IN_PLACE: dict[str, Callable[..., Any]] = {
    "__setitem__": _set_item,
    "batch_norm": _batch_norm,
}


# ---- views ----------------------------------------------------------------------------


def _views(
    base: Tensor, lowering: Callable[..., Any], made: Any, rest: Any, options: Any
) -> Any:
    if isinstance(made, (tuple, list)):

        def part(i: int) -> Tensor:
            return _view(base, lambda a: lowering(a, *rest, **options)[i], made[i])

        return tuple([part(i) for i in range(len(made))])
    if lowering is LOWERINGS["__getitem__"]:
        index = index_of(rest[0])

        def write(whole: Any, array: Any) -> Any:
            return whole.at[index].set(array)

        return Tensor(made, View(base, lambda a: a[index], write))
    return _view(base, lambda a: lowering(a, *rest, **options), made)


def _view(base: Tensor, read: Callable[[Any], Any], made: Any) -> Tensor:
    def write(whole: Any, array: Any) -> Any:
        with jax.ensure_compile_time_eval():
            places = read(jnp.arange(whole.size).reshape(whole.shape)).reshape(-1)
        flat = whole.reshape(-1).at[places].set(array.reshape(-1))
        return flat.reshape(whole.shape)

    return Tensor(made, View(base, read, write))


# ---- functions of torch that are written in Python -------------------------------------


def is_python(func: Any) -> bool:
    """Whether a function asks by itself who carries it out, and can be kept from it."""
    if not isinstance(func, types.FunctionType) or func.__name__.startswith("__"):
        return False
    if "__class__" in func.__code__.co_freevars:  # a method calls that of its base
        return False
    asked = [name for name in func.__code__.co_names if name.startswith(_ASKS)]
    return bool(asked) and all(name in func.__globals__ for name in asked)


_ASKS = "has_torch_function"


def without_overrides(func: types.FunctionType) -> Any:
    """The same function, which does not ask again who carries it out."""
    known = func.__globals__
    names = [name for name in known if name.startswith(_ASKS)]
    changed = {**known, **dict.fromkeys(names, lambda *_: False)}
    made = types.FunctionType(
        func.__code__, changed, func.__name__, func.__defaults__, func.__closure__
    )
    made.__kwdefaults__ = func.__kwdefaults__
    return made
