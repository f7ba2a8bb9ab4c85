"""Trace a function once and describe its signature.

Comes in: a callable and arguments as the user would pass them (arrays, scalars,
`jax.ShapeDtypeStruct`, any pytree), a `jax.stages.Traced`, or a jaxpr. Goes out: the
traced jaxpr with a `Signature` of named parameters and pytrees. The function is traced,
never run. Leaves that JAX cannot trace (activation functions in an equinox module, say)
are closed over, as a static argument is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.captured import Captured
from untrace.capture.changes import Changes, lost_note
from untrace.capture.changes import note as changes_note
from untrace.capture.convention import TRACED, Convention
from untrace.capture.inputs import are_dynamic
from untrace.capture.numbering import renumbered
from untrace.capture.origins import function_name, origin
from untrace.capture.results import left_out, read_result
from untrace.capture.signature import (
    bound_arguments,
    parameters_of,
    renamed_note,
    static_keys,
    traced_arguments,
)
from untrace.capture.trees import Tree, plain
from untrace.errors import UntraceError

Recorded = Callable[
    [Callable[[], dict[str, Any]], Callable[[], Any], Callable[[Any], Any]], Any
]


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
      record: Runs the function under a recorder: takes what puts the named arguments
        together, a thunk, and what makes the result of what the thunk returns; returns
        the result.
      keep_types: Describe instances of importable classes as such. Otherwise all
        become plain containers.

    Python numbers among the arguments are inputs, as under `jax.jit`, unless the function
    cannot be traced then: flags, counts or all numbers stay what they are, as few of
    these kinds as it takes. So do the numbers that modules of equinox hold.

    Raises:
      CaptureError: If the arguments cannot be traced.
      Exception: Whatever `function` itself raises, with its own traceback.
    """

    def traced(fixed: frozenset[type]) -> Captured:
        static = static_argnums, static_argnames
        return _capture(function, args, kwargs, *static, record, keep_types, fixed)

    try:
        return traced(frozenset())
    except UntraceError:
        raise
    except Exception as error:
        # JAX has many errors for what needs to know a number, and the function its own:
        # a shape, a static argument, `assert isinstance(n, int)`.
        kinds = {type(leaf) for leaf in jax.tree.leaves((args, kwargs))}
        for fixed in _FIXED:
            if fixed & kinds and kinds - fixed:
                with contextlib.suppress(Exception):
                    return traced(fixed & kinds)
        raise error


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
        dynamic: dict[int | str, Any] = {}
        passed = {**given}

        def put_together() -> dict[str, Any]:
            parts = jax.tree.unflatten(treedef, full)
            dynamic.update({i.key: value for i, value in zip(bound, parts)})
            passed.update(dynamic)
            return {item.name: dynamic[item.key] for item in bound}

        def run() -> Any:
            return function(
                *[passed[i] for i in range(len(args))],
                **{key: passed[key] for key in kwargs},
            )

        def before() -> Changes:
            if not keep_types:  # before the run, which may change what it is given
                order = _order(full, list(dynamic.values()), traced)
                trees[:] = [_plain(dynamic[item.key], order) for item in bound]
            return Changes({item.key: passed[item.key] for item in bound})

        if record is None:
            put_together()
            changes = before()
            result = changes.returned(run())
        else:
            watched: list[Changes] = []

            def prepared() -> dict[str, Any]:
                named = put_together()
                watched.append(before())
                return named

            result = record(prepared, run, lambda value: watched[0].returned(value))
            (changes,) = watched
        read = read_result(result, function_name(function))
        # No tracer may be among them.
        described = read._replace(arrays=[])
        out[:] = [described, changes.keys, changes.has_result, changes.lost()]
        return read.arrays

    flat.__name__ = flat.__qualname__ = function_name(function)
    passed = [leaf for leaf, t in zip(leaves, traced) if t]
    with jaxapi.own_error_codes():
        jaxpr = jax.make_jaxpr(flat)(*passed)
    result, changed_keys, has_result, lost = out
    changed = [item for item in bound if item.key in changed_keys]
    parameters = parameters_of(bound, arguments, traced)
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
        result.tree,
        tuple(None if isinstance(v, jax.ShapeDtypeStruct) else v for v in passed),
        (
            *_notes(leaves, traced, static),
            *left_out(result.outline),
            *renamed_note(bound),
            *changes_note([item.name for item in changed]),
            *lost_note([item.name for item in bound if item.key in lost]),
        ),
        fixed=fixed,
        outline=result.outline,
        convention=Convention(
            function,
            tuple(bound),
            _static_values(function, args, kwargs, static),
            treedef,
            tuple([TRACED if t else leaf for leaf, t in zip(leaves, traced)]),
            result.treedef,
            result.leaves,
            tuple([item.given for item in changed]),
            has_result,
        ),
    )


def _static_values(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    static: frozenset[int | str],
) -> dict[str, Any]:
    """The static arguments, by the names that the function gives them."""
    given: dict[int | str, Any] = {**dict(enumerate(args)), **kwargs}
    bound = bound_arguments(function, len(args), list(kwargs))
    return {item.given: given[item.key] for item in bound if item.key in static}


def _order(
    leaves: Sequence[Any], arguments: Sequence[Any], traced: Sequence[bool]
) -> dict[int, int]:
    """Return which of the traced leaves arrays in the arguments are, by the `id` of these.

    Classes may convert what they hold when they are made: then the arguments hold others.
    """
    with jaxapi.outside_traces():  # taking them apart may compute, too
        held = jax.tree.leaves(arguments)
    pairs = zip(leaves, held if len(held) == len(leaves) else leaves, traced)
    pairs = [(given, leaf) for given, leaf, is_traced in pairs if is_traced]
    order = {id(leaf): i for i, (_, leaf) in enumerate(pairs)}
    return order | {id(given): i for i, (given, _) in enumerate(pairs)}


def _plain(value: Any, order: Mapping[int, int]) -> Tree:
    """Describe an argument by its tracers, in plain containers."""
    found: list[Any] = []
    tree = plain(value, lambda leaf: id(leaf) in order, found, False, False)
    return renumbered(tree, [order[id(leaf)] for leaf in found])


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
