"""Call a generated function as the original is called, with the user's own types."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.capture import Captured
from untrace.capture.convention import TRACED, Convention
from untrace.capture.inputs import are_dynamic, is_stateful
from untrace.capture.signature import bound_arguments
from untrace.capture.trees import build
from untrace.errors import CallError
from untrace.verification.compare import are_same_values
from untrace.verification.identity import identity

MAX_TREES = 64
"""How many trees of arguments are remembered: objects may be made anew for every call."""
_AGAIN = "Recover it again with such an argument."


def drop_in(
    module: ModuleType, name: str, captured: Captured, classes: Mapping[Any, str]
) -> Callable[..., Any]:
    """Return a function that takes and returns what the original does.

    Leaves are handed over one by one, so all transformations of JAX work as on the
    original. Arguments of the file's own classes are taken, too, and then the result is
    that of the file. What was recovered from a jaxpr is returned as it is.

    Args:
      module: The generated module, executed.
      name: Its main function.
      captured: The computation that it was generated from.
      classes: Names of its classes, by what they stand for.
    """
    function: Callable[..., Any] = getattr(module, name)
    convention = captured.convention
    if convention is None:
        return function
    own = {key: getattr(module, cls) for key, cls in classes.items()}
    parameters = captured.parameters
    n_positional = sum(p.kind is not p.kind.KEYWORD_ONLY for p in parameters)
    keywords = [p.name for p in parameters[n_positional:]]

    def in_file(inputs: list[Any]) -> list[Any]:
        return [build(p.tree, inputs, own) for p in parameters]

    numbers = list(range(len(captured.values)))
    trees = [jax.tree.structure(argument) for argument in in_file(numbers)]
    avals = jaxapi.split_jaxpr(captured.jaxpr)[0].in_avals
    arguments = _Arguments(convention, [_is_wide(aval) for aval in avals])

    @functools.wraps(convention.function, assigned=("__doc__",), updated=())
    def loaded(*args: Any, **kwargs: Any) -> Any:
        try:
            values = arguments.values(args, kwargs)
            given = in_file(arguments.inputs(values))
        except CallError as error:
            if _are_of_file(function, args, kwargs, trees):
                return function(*args, **kwargs)
            raise CallError(f"`{name}`: {error}") from None
        named = dict(zip(keywords, given[n_positional:]))
        made = function(*given[:n_positional], **named)
        kept = are_dynamic([made], ())
        outputs = [leaf for leaf, k in zip(jax.tree.leaves(made), kept) if k]
        result, changed = convention.returned(outputs)
        for item, value in zip(convention.bound, values):
            if item.given in changed:
                update(value, changed[item.given])
        return result

    loaded.__name__ = loaded.__qualname__ = name
    loaded.__module__ = module.__name__
    loaded.__dict__["__wrapped__"] = function  # for those who look for the source
    with contextlib.suppress(TypeError, ValueError):
        loaded.__dict__["__signature__"] = inspect.signature(convention.function)
    return loaded


class _Arguments:
    """Finds the inputs of a program in what its original is called with.

    Methods raise `CallError` where the program has something else fixed.
    """

    def __init__(self, convention: Convention, are_wide: Sequence[bool]) -> None:
        self.convention = convention
        self.are_wide = are_wide  # the types of the inputs, of 64 bits
        self.names = [item.given for item in convention.bound]
        self.defaults = _defaults(convention.function)
        self.is_plain = _is_plain(convention.arguments)
        # Those that were found to be the same. What nodes hold may call others equal.
        self.trees: dict[Any, Any] = {}

    def values(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The values of the arguments that are not static."""
        bound = bound_arguments(self.convention.function, len(args), list(kwargs))
        given: dict[str, Any] = {
            item.given: args[item.key]
            if isinstance(item.key, int)
            else kwargs[item.key]
            for item in bound
        }
        fixed = {**self.defaults, **self.convention.static}
        for name in [*self.names, *self.convention.static]:
            if name not in given and name not in self.defaults:
                raise CallError(f"argument `{name}` is missing.")
            given.setdefault(name, self.defaults.get(name))
        for name in given.keys() - set(self.names):
            if name not in fixed:
                raise CallError(f"there was no argument `{name}`. {_AGAIN}")
            _expect(f"argument `{name}`", fixed[name], given[name])
        values = [given[name] for name in self.names]
        self._check_trees(values)
        return values

    def inputs(self, values: Sequence[Any]) -> list[Any]:
        """The leaves of arguments that are inputs of the program."""
        found: list[Any] = []
        known = self.convention.leaves
        for leaf, wanted in zip(jax.tree.leaves(list(values)), known, strict=True):
            if wanted is TRACED:
                found.append(_array(leaf, self.are_wide[len(found)]))
            else:
                _expect("a leaf of the arguments", wanted, leaf)
        return found

    def _check_trees(self, values: Sequence[Any]) -> None:
        tree = jax.tree.structure(list(values))
        wanted = self.convention.arguments
        if self.is_plain and tree == wanted:
            return
        key = identity(tree)
        if key in self.trees:
            return
        for name, one, other in zip(self.names, wanted.children(), tree.children()):
            if not are_same_values(one, other):
                raise CallError(
                    f"argument `{name}` is another tree than the program was traced "
                    f"with:\n  traced  {one}\n  given   {other}\n{_AGAIN}"
                )
        if len(self.trees) >= MAX_TREES:
            self.trees.clear()
        self.trees[key] = tree  # which keeps what the key tells by its address


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return {}
    return {n: p.default for n, p in parameters.items() if p.default is not p.empty}


def _is_plain(tree: Any) -> bool:
    """Whether a tree has Python's containers alone, and its dicts plain strings as keys."""
    node = tree.node_data()
    if node is None:
        return True
    kind, rest = node
    is_plain = kind in (tuple, list, type(None)) or (
        kind is dict and all(type(key) is str for key in rest)
    )
    return is_plain and all(map(_is_plain, tree.children()))


def _expect(what: str, known: Any, value: Any) -> None:
    if value is not known and not are_same_values(known, value):
        raise CallError(
            f"{what} is fixed at {known!r} in this program, and cannot be {value!r}. "
            f"{_AGAIN}"
        )


_WIDE = frozenset({"int64", "uint64", "float64", "complex128"})


def _is_wide(aval: Any) -> bool:
    return str(getattr(aval, "dtype", "")) in _WIDE


def as_inputs(leaves: Sequence[Any], avals: Sequence[Any]) -> list[Any]:
    """Flat arguments as a program was traced with them: arrays of JAX, also for numbers."""
    return [_array(leaf, _is_wide(aval)) for leaf, aval in zip(leaves, avals)]


def _array(leaf: Any, is_wide: bool) -> Any:
    """An input as the program was traced with it: an array of JAX, also for a number.

    It stays a known value while others are traced: a loop over a number can be
    differentiated then.
    """
    is_plain = isinstance(leaf, bool | int | float | complex | np.ndarray | np.generic)
    if not is_plain or getattr(leaf, "dtype", None) == jax.dtypes.float0:
        return leaf
    with contextlib.ExitStack() as stack:
        stack.enter_context(jax.ensure_compile_time_eval())
        if is_wide:
            stack.enter_context(jax.enable_x64(True))  # which the file enters, too
        return jnp.asarray(leaf)


def _are_of_file(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    trees: list[Any],
) -> bool:
    """Whether arguments are those that the file's function takes."""
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return False
    return all(map(_are_alike, map(jax.tree.structure, given.values()), trees))


def _are_alike(tree: Any, other: Any) -> bool:
    """Whether two trees are the same but for NamedTuples of a file run twice."""
    node, mate = tree.node_data(), other.node_data()
    if node is None or mate is None:
        return node is mate and tree.num_leaves == other.num_leaves
    is_own = all(issubclass(cls, tuple) for cls, _ in (node, mate))
    one, two = (
        (cls.__name__, getattr(cls, "_fields", None)) for cls, _ in (node, mate)
    )
    if not (one == two if is_own else node == mate):
        return False
    children, mates = tree.children(), other.children()
    return len(children) == len(mates) and all(map(_are_alike, children, mates))


def update(value: Any, new: Any) -> None:
    """Put new state into modules and variables of flax.nnx, as the original does."""
    nnx = sys.modules["flax.nnx"]
    olds, news = (jax.tree.leaves(v, is_leaf=is_stateful) for v in (value, new))
    for old, made in zip(olds, news, strict=True):
        if isinstance(old, nnx.Variable):
            old.set_raw_value(made.get_raw_value())
        elif is_stateful(old):
            nnx.update(old, nnx.state(made))
