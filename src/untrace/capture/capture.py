"""Trace a function once and describe its signature.

Comes in: a callable and arguments as the user would pass them (arrays, scalars,
`jax.ShapeDtypeStruct`, any pytree), a `jax.stages.Traced`, or a jaxpr. Goes out: the
traced jaxpr with a `Signature` of named parameters and pytrees. The function is traced,
never run. Leaves that JAX cannot trace (activation functions in an equinox module, say)
are closed over, as a static argument is.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.inputs import are_dynamic
from untrace.capture.paths import argument_trees, result_tree
from untrace.capture.trees import Leaf, Node, Tree, describe, plain
from untrace.errors import CaptureError
from untrace.syntax.names import identifier


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the generated function; `kind` is one of `inspect.Parameter`."""

    name: str
    kind: Any
    tree: Tree


@dataclass(frozen=True, slots=True)
class Captured:
    """A traced computation and its signature.

    Attributes:
      jaxpr: The closed jaxpr.
      name: Name of the function.
      origin: Where it came from, for the header.
      parameters: In the order of the generated signature; leaf indices count the
        inputs of the jaxpr.
      result: Tree of the outputs of the jaxpr.
      values: The concrete leaves that were passed, or None for each abstract one.
      notes: What the header must mention.
      recording: The run of the function that was recorded (`recovery.record.Body`),
        or None.
      is_exact: Whether the example inputs of the file are these very values, whatever
        their size.
      variant: Traces and records the function again with other sizes of some axes of its
        inputs, where that was asked for; it returns None if that cannot be done.
      dimensions: The sizes that have names (`lifting.sizes.Dimensions`), or None.
      fixed: The types of Python numbers that are no inputs, since the function needs
        to know them.
    """

    jaxpr: Any
    name: str
    origin: str
    parameters: tuple[Parameter, ...]
    result: Tree
    values: tuple[Any, ...]
    notes: tuple[str, ...] = ()
    recording: Any = None
    is_exact: bool = False
    variant: Callable[[Mapping[tuple[int, int], int]], Captured | None] | None = None
    dimensions: Any = None
    fixed: frozenset[type] = frozenset()


Recorded = Callable[[Callable[[], Any], dict[str, Any]], Any]


def capture(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    record: Recorded | None = None,
    keep_types: bool = True,
) -> Captured:
    """Trace `function` at the given arguments.

    Args:
      function: What to trace.
      args: Positional arguments.
      kwargs: Keyword arguments.
      static_argnums: As in `jax.jit`.
      static_argnames: As in `jax.jit`.
      record: Runs the function under a recorder: takes a thunk and the named
        arguments, and returns the result.
      keep_types: Describe instances of importable classes as such. Otherwise all
        become plain containers.

    Python numbers among the arguments are inputs, as under `jax.jit`, unless the function
    cannot be traced then: what it branches on or computes with in Python stays what it
    is. So do the numbers that modules of equinox hold.

    Raises:
      CaptureError: If the arguments cannot be traced.
      Exception: Whatever `function` itself raises, with its own traceback.
    """

    def traced(fixed: frozenset[type]) -> Captured:
        static = static_argnums, static_argnames
        return _capture(function, args, kwargs, *static, record, keep_types, fixed)

    try:
        return traced(frozenset())
    except _NEEDS_VALUE as error:
        kinds = {type(leaf) for leaf in jax.tree.leaves((args, kwargs))}
        for fixed in _FIXED:
            if fixed & kinds and kinds - fixed:
                with contextlib.suppress(*_NEEDS_VALUE):
                    return traced(fixed & kinds)
        raise error


# What JAX raises where a function needs to know a number that it is traced without.
_NEEDS_VALUE = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.TracerArrayConversionError,
)

# What is tried then: flags, counts, and numbers that are computed with in Python.
_FIXED = (
    frozenset({bool}),
    frozenset({bool, int}),
    frozenset({bool, int, float}),
)


def _capture(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Sequence[str] | None,
    record: Recorded | None,
    keep_types: bool,
    fixed: frozenset[type],
) -> Captured:
    static = static_keys(function, args, kwargs, static_argnums, static_argnames)
    given: dict[int | str, Any] = {**dict(enumerate(args)), **kwargs}
    bound = traced_arguments(function, args, kwargs, static)
    arguments = [given[item.key] for item in bound]
    leaves, treedef = jax.tree.flatten(arguments)
    traced = are_dynamic(arguments, fixed)
    out: list[Any] = []
    trees: list[Tree] = []

    def flat(*dynamic_leaves: Any) -> list[Any]:
        rest = iter(dynamic_leaves)
        full = [next(rest) if t else leaf for t, leaf in zip(traced, leaves)]
        dynamic = {
            i.key: value for i, value in zip(bound, jax.tree.unflatten(treedef, full))
        }
        passed = {**given, **dynamic}

        if not keep_types:  # before the run, which may change what it is given
            order = {id(leaf): i for i, leaf in enumerate(dynamic_leaves)}
            trees[:] = [_plain(dynamic[item.key], order) for item in bound]

        def run() -> Any:
            return function(
                *[passed[i] for i in range(len(args))],
                **{key: passed[key] for key in kwargs},
            )

        if record is None:
            result = run()
        else:
            named = {item.name: dynamic[item.key] for item in bound}
            result = record(run, named)
        out_leaves, out_tree = jax.tree.flatten(result)
        kept = are_dynamic([result], ())
        out[:] = [out_tree, kept]
        return [leaf for leaf, is_kept in zip(out_leaves, kept) if is_kept]

    flat.__name__ = flat.__qualname__ = function_name(function)
    passed = [leaf for leaf, t in zip(leaves, traced) if t]
    with jaxapi.own_error_codes():
        jaxpr = jax.make_jaxpr(flat)(*passed)
    out_tree, kept = out
    result = _number(
        describe(jax.tree.unflatten(out_tree, list(range(len(kept))))), kept
    )
    parameters = _parameters(bound, treedef, traced)
    if trees:
        kept_trees = {item.name: tree for item, tree in zip(bound, trees)}
        parameters = tuple(
            replace(p, tree=kept_trees.get(p.name, p.tree)) for p in parameters
        )
    return Captured(
        jaxpr,
        function_name(function),
        origin(function),
        parameters,
        result,
        tuple(None if isinstance(v, jax.ShapeDtypeStruct) else v for v in passed),
        _notes(leaves, traced, static),
        fixed=fixed,
    )


def traced_arguments(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    static: frozenset[int | str],
) -> list[_Bound]:
    """List the arguments that are not static, in the order of the inputs."""
    bound = _bind(function, len(args), list(kwargs))
    return [item for item in bound if item.key not in static]


def _plain(value: Any, order: Mapping[int, int]) -> Tree:
    """Describe an argument by its tracers, in plain containers."""
    found: list[Any] = []
    tree = plain(value, lambda leaf: id(leaf) in order, found, False, False)
    return _renumber(tree, [order[id(leaf)] for leaf in found])


def capture_jaxpr(jaxpr: Any, name: str = "") -> Captured:
    """Describe a jaxpr as a function of flat arguments."""
    body, consts = jaxapi.split_jaxpr(jaxpr)
    if body.constvars and not consts:
        body = jaxapi.constvars_as_inputs(body)
        jaxpr = jaxapi.close_jaxpr(body)
    elif not jaxapi.is_closed(jaxpr):
        jaxpr = jaxapi.close_jaxpr(jaxpr, consts)
    names = _flat_names(body)
    parameters = tuple(
        Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, Leaf(i))
        for i, n in enumerate(names)
    )
    n_out = len(body.outvars)
    outputs = tuple(Leaf(i) for i in range(n_out))
    result: Tree = (
        outputs[0] if n_out == 1 else Node("tuple", None, tuple(range(n_out)), outputs)
    )
    known = str(getattr(body.debug_info, "func_name", "") or "")
    called = name or (known if known.isidentifier() else "") or "function"
    return Captured(
        jaxpr, called, "a jaxpr", parameters, result, tuple([None] * len(names)), ()
    )


def with_trees(captured: Captured) -> Captured:
    """Put the flat arguments and results of a jaxpr together, as far as paths tell."""
    body, _ = jaxapi.split_jaxpr(captured.jaxpr)
    debug = body.debug_info
    inputs = [str(path or "") for path in getattr(debug, "arg_names", None) or ()]
    outputs = [str(path or "") for path in getattr(debug, "result_paths", None) or ()]
    parameters, classes = captured.parameters, dict[tuple[str, ...], type]()
    if len(inputs) == len(parameters):
        found: list[Parameter] = []
        for position, (path, tree) in enumerate(argument_trees(inputs, classes)):
            name = _unused(identifier(path, f"x{position}"), found)
            found.append(Parameter(name, parameters[0].kind, tree))
        parameters = tuple(found)
    is_told = len(outputs) == len(body.outvars)
    result = result_tree(outputs, classes) if is_told else None
    return replace(captured, parameters=parameters, result=result or captured.result)


def capture_traced(traced: Any) -> Captured:
    """Describe a `jax.stages.Traced`, whose pytrees are known."""
    flat = capture_jaxpr(traced.jaxpr, getattr(traced, "fun_name", ""))
    args, kwargs = traced.args_info
    leaves, treedef = jax.tree.flatten((args, kwargs), is_leaf=_is_arg_info)
    if len(leaves) != len(flat.parameters):
        return flat
    numbered_args, numbered_kwargs = jax.tree.unflatten(
        treedef, list(range(len(leaves)))
    )
    names = _argument_names(traced.jaxpr, len(numbered_args), leaves, treedef)
    trees = [
        (name, describe_numbered(tree)) for name, tree in zip(names, numbered_args)
    ]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [Parameter(name, kind, tree) for name, tree in trees]
    parameters += [
        Parameter(identifier(n), keyword, describe_numbered(t))
        for n, t in numbered_kwargs.items()
    ]
    n_out = len(jax.tree.leaves(traced.out_info))
    out = jax.tree.unflatten(jax.tree.structure(traced.out_info), list(range(n_out)))
    return Captured(
        flat.jaxpr,
        flat.name,
        "a traced function",
        tuple(parameters),
        describe(out),
        flat.values,
    )


def _is_arg_info(value: Any) -> bool:
    return hasattr(value, "donated")


def _argument_names(
    jaxpr: Any, n_args: int, leaves: list[Any], treedef: Any
) -> list[str]:
    """Take the names of positional arguments from the paths that JAX kept."""
    paths = list(
        getattr(jaxapi.split_jaxpr(jaxpr)[0].debug_info, "arg_names", None) or ()
    )
    args, _ = jax.tree.unflatten(treedef, list(range(len(leaves))))
    names: list[str] = []
    for position, arg in enumerate(args):
        indices = jax.tree.leaves(arg)
        path = str(paths[indices[0]]) if indices and indices[0] < len(paths) else ""
        name = identifier(path.partition("[")[0].partition(".")[0], f"arg{position}")
        while name in names:
            name += "_"
        names.append(name)
    return names


def describe_numbered(tree: Any) -> Tree:
    """Describe a pytree whose leaves are their own indices."""
    indices = jax.tree.leaves(tree)
    described = describe(tree)
    return _renumber(described, indices)


def _renumber(tree: Tree, indices: list[int]) -> Tree:
    if isinstance(tree, Leaf):
        return Leaf(indices[tree.index])
    children = tuple([_renumber(child, indices) for child in tree.children])
    return replace(tree, children=children)


def _number(tree: Tree, kept: Sequence[bool]) -> Tree:
    """Renumber leaves after those that are not arrays have gone."""
    numbers, count = {}, 0
    for index, is_kept in enumerate(kept):
        numbers[index] = count if is_kept else None
        count += is_kept
    found = _drop(tree, numbers)
    return found if found is not None else Node("none", None, (), ())


def _drop(tree: Tree, numbers: Mapping[int, int | None]) -> Tree | None:
    if isinstance(tree, Leaf):
        number = numbers[tree.index]
        return None if number is None else Leaf(number)
    pairs = [
        (key, _drop(child, numbers)) for key, child in zip(tree.keys, tree.children)
    ]
    kept = [(key, child) for key, child in pairs if child is not None]
    if len(kept) == len(pairs):
        return replace(tree, children=tuple([child for _, child in kept]))
    kind, cls = (
        ("replaced", tree.cls)
        if tree.kind in ("fields", "items", "sparse")
        else (tree.kind, tree.cls)
    )
    if kind in ("tuple", "list"):
        keys: tuple[Any, ...] = tuple(range(len(kept)))
    else:
        keys = tuple(
            identifier(str(key)) if kind == "replaced" else key for key, _ in kept
        )
    return Node(kind, cls, keys, tuple(child for _, child in kept))


# ---- static arguments --------------------------------------------------------------


def static_keys(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Sequence[str] | None,
) -> frozenset[int | str]:
    """Return positions and keywords of static arguments, as `jax.jit` would see them."""
    nums = (
        (static_argnums,)
        if isinstance(static_argnums, int)
        else tuple(static_argnums or ())
    )
    names = (
        (static_argnames,)
        if isinstance(static_argnames, str)
        else tuple(static_argnames or ())
    )
    own_nums, own_names = jaxapi.static_arguments(function)
    nums, names = (*nums, *own_nums), (*names, *own_names)
    order = _signature_names(function)
    positions = {n % len(args) if -len(args) <= n < 0 else n for n in nums}
    positions |= {order.index(name) for name in names if name in order}
    keywords = {*names, *(order[n] for n in positions if n < len(order))}
    static = frozenset(
        [n for n in positions if n < len(args)] + [k for k in keywords if k in kwargs]
    )
    for key in static:
        _check_hashable(
            function, key, args[key] if isinstance(key, int) else kwargs[key], order
        )
    return static


def _check_hashable(
    function: Any, key: int | str, value: Any, order: list[str]
) -> None:
    try:
        hash(value)
    except TypeError:
        name = order[key] if isinstance(key, int) and key < len(order) else key
        raise CaptureError(
            f"static argument `{name}` of `{function_name(function)}` is a "
            f"{type(value).__name__}, which is not hashable, so `jax.jit` would refuse it "
            "too. Pass a hashable value (a tuple instead of a list), or do not mark it static."
        ) from None


def _signature_names(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []


# ---- signature ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bound:
    """An argument, by position or keyword, and the parameter that it is bound to."""

    name: str
    kind: Any
    key: int | str


def _parameters(
    bound: list[_Bound], treedef: Any, traced: Sequence[bool]
) -> tuple[Parameter, ...]:
    """Describe the parameters, whose leaves are numbered in the order of the inputs."""
    numbered = jax.tree.unflatten(treedef, list(range(len(traced))))
    numbers = {i: sum(traced[:i]) if t else None for i, t in enumerate(traced)}
    found: list[Parameter] = []
    for item, value in zip(bound, numbered):
        tree = _drop(describe_numbered(value), numbers)
        if tree is not None:
            name = _unused(identifier(item.name, "arg"), found)
            found.append(Parameter(name, item.kind, tree))
    return tuple(found)


def _unused(name: str, found: list[Parameter]) -> str:
    while any(parameter.name == name for parameter in found):
        name += "_"
    return name


def _bind(
    function: Callable[..., Any], n_args: int, keywords: list[str]
) -> list[_Bound]:
    """Bind arguments to parameters, in their order; `*args` and `**kwargs` spread out."""
    plain, keyword = (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    try:
        signature = inspect.signature(function)
        arguments = signature.bind(
            *range(n_args), **{key: key for key in keywords}
        ).arguments
    except (TypeError, ValueError):
        # The call itself tells the user what is wrong with the arguments.
        unnamed = [_Bound(f"arg{i}", plain, i) for i in range(n_args)]
        return [*unnamed, *(_Bound(key, keyword, key) for key in keywords)]
    found: list[_Bound] = []
    for name, key in arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found += [_Bound(f"{name}_{i}", plain, item) for i, item in enumerate(key)]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found += [_Bound(item, keyword, item) for item in key]
        else:
            found.append(_Bound(name, keyword if kind is keyword else plain, key))
    return found


def function_name(function: Any) -> str:
    """Return the name of any callable, unwrapping partials and methods."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        name = type(function).__name__
    return name


def origin(function: Any) -> str:
    """Say where a function is defined: "`name` from file.py:12"."""
    name = identifier(function_name(function), "function")
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return f"`{name}`"
    file = code.co_filename.replace("\\", "/").rpartition("/")[2]
    place = "".join(
        c if c.isascii() and (c.isalnum() or c in "._-<>") else "_" for c in file
    )
    return f"`{name}` from {place}:{code.co_firstlineno}"


def _notes(
    leaves: list[Any], traced: list[bool], static: frozenset[int | str]
) -> tuple[str, ...]:
    notes: list[str] = []
    if static:
        notes.append("Static arguments are fixed at the values they had.")
    if not all(traced):
        kinds = sorted(
            {type(leaf).__name__ for leaf, t in zip(leaves, traced) if not t}
        )
        notes.append(f"Leaves that are not arrays are fixed: {', '.join(kinds)}.")
    return tuple(notes)


def _flat_names(body: Any) -> list[str]:
    """Name the inputs of a jaxpr after its argument paths."""
    paths = list(getattr(body.debug_info, "arg_names", None) or ())
    if len(paths) != len(body.invars):
        paths = [""] * len(body.invars)
    names: list[str] = []
    for position, path in enumerate(paths):
        name = hint = identifier(path or "", f"x{position}") if path else f"x{position}"
        count = 1
        while name in names:
            count += 1
            name = f"{hint}_{count}"
        names.append(name)
    return names
