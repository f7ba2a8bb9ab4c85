"""Describe jaxprs and traced functions: their arguments are flat, or known by paths."""

from __future__ import annotations

import inspect
import itertools
from dataclasses import replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.captured import Captured
from untrace.capture.outline import outline
from untrace.capture.parameters import Parameter
from untrace.capture.paths import argument_trees, result_tree
from untrace.capture.signature import legal_names, unused
from untrace.capture.trees import Leaf, Node, Tree, describe, describe_each
from untrace.syntax.names import identifier, is_name


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
    called = name or (known if is_name(known) else "") or "function"
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
            name = unused(identifier(path, f"x{position}"), [p.name for p in found])
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
        return replace(flat, notes=tuple(_told(traced)))
    numbered_args, numbered_kwargs = jax.tree.unflatten(
        treedef, list(range(len(leaves)))
    )
    names = _argument_names(traced.jaxpr, leaves, treedef)
    trees = describe_each([*numbered_args, *numbered_kwargs.values()])
    n_args = len(numbered_args)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    keyword = inspect.Parameter.KEYWORD_ONLY
    keywords = legal_names(numbered_kwargs, names)
    parameters = [Parameter(n, kind, tree) for n, tree in zip(names, trees[:n_args])]
    parameters += [
        Parameter(n, keyword, tree) for n, tree in zip(keywords, trees[n_args:])
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
        tuple(_told(traced)),
        outline=outline(out, itertools.repeat(True)),
    )


def _told(traced: Any) -> list[str]:
    """Say what the jaxpr of a traced function does not hold."""
    told = jaxapi.told_to_jit(traced)
    if not told:
        return []
    return [
        f"Not written: what `jax.jit` was told besides ({', '.join(told)}). Pass the "
        "jitted function itself to keep it."
    ]


def _is_arg_info(value: Any) -> bool:
    return hasattr(value, "donated")


def _argument_names(jaxpr: Any, leaves: list[Any], treedef: Any) -> list[str]:
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
