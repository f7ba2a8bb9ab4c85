"""A module as a JAX function of its parameters, its state, a key and its inputs."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax

from untrace.errors import CaptureError
from untrace.readers.torch.caches import clear_caches
from untrace.readers.torch.dispatching import NoChance, Tracing, wrapped
from untrace.readers.torch.errors import ValueNeededError, stale_tensor
from untrace.readers.torch.library import torch
from untrace.readers.torch.lowerings.random import KEYS
from untrace.readers.torch.modules import Copier
from untrace.readers.torch.state import Path, at, buffers, nested, parameters, tensors
from untrace.readers.torch.tensors import RUNS, Runs, Tensor, to_array

Runs.stale = staticmethod(stale_tensor)


class Program(NamedTuple):
    """A module as a JAX function.

    Attributes:
      function: Takes the arguments; returns what the module does, and the new buffers
        beside it if there are any.
      arguments: The values that it is called with, by the names of its parameters.
      changed: The paths of the buffers that it returns.
      lost: The paths of tensors that it keeps where there was none before: they are not
        returned.
      takes_key: Whether it draws random numbers.
      inputs: The positional inputs of the module.
      options: Its inputs that are passed by name.
      is_compiled: Whether it is told that it is compiled, as `torch.compile` tells it.
    """

    function: Callable[..., Any]
    arguments: dict[str, Any]
    changed: tuple[Path, ...]
    lost: tuple[Path, ...]
    takes_key: bool
    module: Any
    inputs: tuple[Any, ...]
    options: Mapping[str, Any]
    is_compiled: bool


def read(
    module: Any, args: Sequence[Any], kwargs: Mapping[str, Any], name: str
) -> Program:
    """Make a JAX function, which has a name, of a module and its inputs.

    It runs twice: the first time shows what it reads, changes and draws. If it asks for
    values, it is run as `torch.compile` would: much code asks for none then.
    """
    if isinstance(module, torch.jit.ScriptModule):
        raise CaptureError(
            "a scripted module of torch has no Python code to follow: pass the module that "
            "torch.jit was given"
        )
    bound = bind(module, args, kwargs)
    values = {name: to_jax(value) for name, value in bound.items()}
    inputs = {name: value for name, value in values.items() if holds_array(value)}
    kept = parameters(module)
    params = {path: to_array(value) for path, value in kept.items()}
    every = {path: to_array(value) for path, value in buffers(module).items()}
    looked, is_compiled = _looked(module, bound, params, every, inputs)
    clear_caches(RUNS.left())
    state = {path: every[path] for path in looked.read}
    unread = {path: array for path, array in every.items() if path not in state}
    arguments: dict[str, Any] = {}
    if params:
        arguments["params"] = nested(params)
    if state:
        arguments["buffers"] = nested(state)
    if looked.drawing:
        arguments[_free("key", inputs)] = jax.random.key(0)
    names = {name: _free(_plain_name(name, inputs), arguments) for name in inputs}
    arguments |= {names[name]: value for name, value in inputs.items()}

    def function(*given: Any) -> Any:
        taken = dict(zip(arguments, given))
        given_state = taken.get("params", {}), taken.get("buffers", {})
        run = Run(module, *given_state, unread)
        key = taken[list(arguments)[-len(inputs) - 1]] if looked.drawing else None
        KEYS.start(key, looked.drawing)
        called = {n: taken[names[n]] if n in names else v for n, v in bound.items()}
        with _compiling(is_compiled):
            out = run(called)
        clear_caches(RUNS.left())
        if not looked.changed:
            return out
        return out, nested({path: run.state[path].array for path in looked.changed})

    named = inspect.Parameter.POSITIONAL_OR_KEYWORD
    signature = inspect.Signature([inspect.Parameter(n, named) for n in arguments])
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__name__ = function.__qualname__ = name
    return Program(
        function,
        arguments,
        looked.changed,
        looked.lost,
        bool(looked.drawing),
        module,
        tuple(args),
        kwargs,
        is_compiled,
    )


def _plain_name(name: str, inputs: Mapping[str, Any]) -> str:
    """What an input is called: `input` is a function of Python."""
    return "x" if name == "input" and "x" not in inputs else name


def _free(name: str, taken: Mapping[str, Any]) -> str:
    while name in taken:
        name += "_"
    return name


class Run:
    """One run of a copy of a module on tensors that stand for arrays.

    Args:
      module: The module.
      params: Its parameters, nested.
      given: Its buffers, nested, but for those that it does not read.
      unread: Those, by their paths.

    Attributes:
      state: The tensors that stand for the buffers.
      lost: The paths of tensors that it holds in the end where it held none before.
    """

    lost: tuple[Path, ...] = ()

    def __init__(
        self, module: Any, params: Any, given: Any, unread: Mapping[Path, Any]
    ) -> None:
        RUNS.begin()
        self._params = {path: Tensor(at(params, path)) for path in parameters(module)}
        known = {
            id(value): self._params[path] for path, value in parameters(module).items()
        }
        self.state: dict[Path, Tensor] = {}
        for path, value in buffers(module).items():
            made = Tensor(unread[path] if path in unread else at(given, path))
            self.state[path] = known[id(value)] = made
        self.starts = {path: one.held for path, one in self.state.items()}

        def tensor(value: Any) -> Any:
            made = known.get(id(value))
            return Tensor(to_array(value)) if made is None else made

        self.copy = Copier(tensor).copy(module)
        self._module = module
        self._known = {id(held) for held in known.values()}

    def __call__(self, called: Mapping[str, Any]) -> Any:
        """Run it; return what it returns, with arrays in place of tensors."""
        args, kwargs = unbound(self._module, called)
        RUNS.made.clear()  # the module holds those that stand for its own
        with NoChance(), Tracing(), _without_fast_paths(), _without_checks():
            out = self.copy(*map(to_tensors, args), **to_tensors(kwargs))
        self.state = {path: self._now(path) for path in self.state}
        RUNS.own = {id(tensor) for tensor in self.state.values()}
        kept = {**self.state, **self._params}
        self.lost = tuple(
            path
            for path, held in tensors(self.copy)
            if path not in kept and id(held) not in self._known
        )
        for path, parameter in self._params.items():
            if parameter.current_version():
                raise CaptureError(
                    f"`forward` changes the parameter {'.'.join(path)} in place, which a "
                    "function of parameters cannot do: keep what changes in a buffer"
                )
        return to_jax(out)

    def _now(self, path: Path) -> Tensor:
        """The tensor that is at the place of a buffer, which may have been replaced."""
        held: Any = self.copy
        for name in path:
            if isinstance(held, torch.nn.Module):
                held = getattr(held, name, None)
            elif isinstance(held, (list, tuple)):
                held = held[int(name)]
            else:
                held = held[name]
        return held if isinstance(held, Tensor) else self.state[path]


@contextmanager
def _without_fast_paths() -> Generator[None, None, None]:
    """Let attention be made of functions, and not of one operator for inference."""
    mha = torch.backends.mha
    before = mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        mha.set_fastpath_enabled(before)


@contextmanager
def _without_checks() -> Generator[None, None, None]:
    """Let distributions not ask for the values of what they are made of."""
    kind = torch.distributions.Distribution
    before = kind._validate_args
    kind.set_default_validate_args(False)
    try:
        yield
    finally:
        kind.set_default_validate_args(before)


@contextmanager
def _compiling(is_compiled: bool) -> Generator[None, None, None]:
    """Let `torch.compiler.is_compiling()` say so, if it is to; to one thread at a time."""
    compiler = torch.compiler
    with _ONE_AT_A_TIME:
        before = compiler._is_compiling_flag
        compiler._is_compiling_flag = before or is_compiled
        try:
            yield
        finally:
            compiler._is_compiling_flag = before


_ONE_AT_A_TIME = threading.RLock()


class _Looked(NamedTuple):
    """What a run of a module does besides returning something; `drawing`: see `Keys`."""

    read: tuple[Path, ...]
    changed: tuple[Path, ...]
    lost: tuple[Path, ...]
    drawing: Mapping[int, int]


def _looked(*given: Any) -> tuple[_Looked, bool]:
    """Look at a run of a module; return whether it was told that it is compiled, too."""
    try:
        with _compiling(False):
            return _look(*given), False
    except ValueNeededError:
        try:
            with _compiling(True):
                return _look(*given), True
        except CaptureError:
            pass
        raise


def _look(
    module: Any, bound: Mapping[str, Any], params: Any, state: Any, inputs: Any
) -> _Looked:
    found: list[_Looked] = []

    def run(params: Any, state: Any, inputs: Any) -> Any:
        one = Run(module, nested(params), nested(state), {})
        KEYS.start(None)
        out = one({**bound, **inputs})
        now = {path: tensor.array for path, tensor in one.state.items()}
        changed = [p for p, array in now.items() if array is not one.starts[p]]
        found[:] = [_Looked((), tuple(changed), one.lost, KEYS.drawn)]
        return out, [now[path] for path in changed]

    closed = jax.make_jaxpr(run)(params, state, inputs)
    used = {id(variable) for variable in _used(closed.jaxpr)}
    own = closed.jaxpr.invars[len(params) : len(params) + len(state)]
    order = sorted(state)  # as JAX flattens a dict
    read = {path for path, variable in zip(order, own) if id(variable) in used}
    computed = {path for path, value in buffers(module).items() if not value.is_leaf}
    changed = [p for p in found[0].changed if p in read or p not in computed]
    kept = [path for path in state if path in read or path in changed]
    return found[0]._replace(read=tuple(kept), changed=tuple(changed))


def _used(jaxpr: Any) -> Iterator[Any]:
    for eqn in jaxpr.eqns:
        yield from eqn.invars
    yield from jaxpr.outvars


def bind(module: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a module by the names of its parameters; starred ones are spread."""
    bound = inspect.signature(module.forward).bind(*args, **kwargs)
    found: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found |= {f"{name}_{i}": part for i, part in enumerate(value)}
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found |= value
        else:
            found[name] = value
    return found


def unbound(module: Any, called: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """How to pass inputs that are known by name."""
    known = inspect.signature(module.forward).parameters
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    is_positional = True
    for name, value in called.items():
        parameter = known.get(name)
        kind = parameter.kind if parameter else None
        starred = kind is None and any(
            name.startswith(f"{other.name}_")
            for other in known.values()
            if other.kind is inspect.Parameter.VAR_POSITIONAL
        )
        plain = kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        if starred or (is_positional and plain and list(known)[len(args)] == name):
            args.append(value)
        else:
            is_positional = False
            kwargs[name] = value
    return args, kwargs


def holds_array(value: Any) -> bool:
    """Whether a value is an array or holds one."""
    return any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(value))


def to_jax(value: Any) -> Any:
    """A value with arrays in place of tensors, in plain containers."""
    return converted(value, to_array)


def converted(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """A value with something in place of each tensor, in plain containers.

    Other objects become dicts of what they hold, if there are tensors among it.
    """
    if isinstance(value, torch.Tensor):
        return leaf(value)
    if isinstance(value, dict):
        kept = {key: part for key, part in value.items() if part is not None}
        return {key: converted(part, leaf) for key, part in kept.items()}
    if isinstance(value, (list, tuple)):
        is_list = isinstance(value, list)
        return (list if is_list else tuple)([converted(part, leaf) for part in value])
    if _is_plain(value):
        return value
    held = {name: part for name, part in vars(value).items() if _holds_tensor(part)}
    return converted(held, leaf) if held else None


def _is_plain(value: Any) -> bool:
    return type(value).__module__ == "builtins" or not hasattr(value, "__dict__")


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if isinstance(value, (dict, list, tuple)):
        parts: Any = value.values() if isinstance(value, dict) else value
        return any(map(_holds_tensor, parts))
    return not _is_plain(value) and any(map(_holds_tensor, vars(value).values()))


def to_tensors(value: Any) -> Any:
    """A value with tensors in place of arrays."""
    if isinstance(value, dict):
        return {key: to_tensors(part) for key, part in value.items()}
    if type(value) is list:  # of results, torch has none, but inputs are what they are
        return [to_tensors(part) for part in value]
    return wrapped(value)
