"""Programs as callables: jaxprs, traced functions, sources and saved files, too.

These know the types of their arguments, of which a function has to be told. Static
arguments are left out: their values are fixed in the program.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax

from untrace import jaxapi
from untrace.capture.captured import Captured
from untrace.capture.convention import TRACED, Convention
from untrace.capture.jaxprs import capture_jaxpr, capture_traced
from untrace.capture.trees import build, is_builtin
from untrace.errors import CallError
from untrace.interpreters.doors import is_path
from untrace.readers.formats import read
from untrace.result import Source
from untrace.saved_program import open_saved


class Program(NamedTuple):
    """A callable, and the types of its arguments.

    Attributes:
      function: Its arguments and result are pytrees.
      examples: One for each positional argument; none if the types are not known.
      keywords: One for each keyword argument.
    """

    function: Callable[..., Any]
    examples: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = {}


def program_of(what: Any) -> Program:
    """Return a program of any kind as a callable.

    Args:
      what: A callable, a jaxpr, a printed one (its text, or the path of a file in which
        it stands), a `jax.stages.Traced`, a `Source`, or the path of a file that untrace
        saved, which is executed.

    Raises:
      CallError: If it is none of these.
      LoadError: If a file cannot be read or executed.
    """
    what = read(what)
    if jaxapi.is_jaxpr(what):
        return _of_jaxpr(capture_jaxpr(what))
    if jaxapi.is_traced(what):
        return _of_traced(what)
    if isinstance(what, Source):
        return _of_source(what)
    if is_path(what):
        return _of_file(Path(what))
    if callable(what):
        return Program(what)
    raise CallError(
        f"an object of {type(what).__name__} is no program: give a function, a jaxpr, a "
        "jax.stages.Traced, an untrace.Source, or the path of a saved file"
    )


# ---- one for each kind -------------------------------------------------------------


def _of_jaxpr(captured: Captured) -> Program:
    def function(*args: Any) -> Any:
        made = _evaluated(captured, args)
        return made[0] if len(made) == 1 else tuple(made)

    return Program(_named(function, captured), tuple(_types(captured)))


def _of_traced(traced: Any) -> Program:
    captured = capture_traced(traced)
    result = jax.tree.structure(traced.out_info)

    def function(*args: Any, **kwargs: Any) -> Any:
        return result.unflatten(_evaluated(captured, jax.tree.leaves((args, kwargs))))

    tree = jax.tree.structure(traced.args_info)
    args, keywords = tree.unflatten(_types(captured))
    return Program(_named(function, captured), tuple(args), keywords)


def _of_source(source: Source) -> Program:
    captured = source.captured
    if captured.convention is not None:
        return _of_convention(captured, captured.convention)
    types = _types(captured)
    if not all(is_builtin(each.tree) for each in captured.parameters):
        return Program(source.load())
    made = [(each, build(each.tree, types, {})) for each in captured.parameters]
    return Program(source.load(), *_by_kind(made))


def _of_convention(captured: Captured, convention: Convention) -> Program:
    """Return a program that is called as the function that it was captured from."""
    keys = [item.key for item in convention.bound]
    n_positional = sum(isinstance(key, int) for key in keys)
    names = [str(key) for key in keys[n_positional:]]

    def function(*args: Any, **kwargs: Any) -> Any:
        given = [*args, *[kwargs[name] for name in names]]
        leaves = zip(jax.tree.leaves(given), convention.leaves, strict=True)
        inputs = [leaf for leaf, known in leaves if known is TRACED]
        return convention.returned(_evaluated(captured, inputs))[0]

    types = iter(_types(captured))
    leaves = [next(types) if o is TRACED else o for o in convention.leaves]
    examples = jax.tree.unflatten(convention.arguments, leaves)
    keywords = dict(zip(names, examples[n_positional:]))
    return Program(_named(function, captured), tuple(examples[:n_positional]), keywords)


def _of_file(path: Path) -> Program:
    """Execute a file that untrace saved."""
    saved = open_saved(path)
    values = saved.example_args()

    def function(*args: Any, **kwargs: Any) -> Any:
        return saved.main(*args, **kwargs)

    signature = inspect.signature(getattr(saved.module, saved.name))
    given = [(each, values[each.name]) for each in signature.parameters.values()]
    function.__name__ = function.__qualname__ = saved.name
    function.__dict__["__signature__"] = signature
    return Program(function, *_by_kind(given))


def _by_kind(
    values: Sequence[tuple[Any, Any]],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split the values of parameters into positional and keyword ones."""
    kind = inspect.Parameter.KEYWORD_ONLY
    positional = tuple([v for p, v in values if p.kind is not kind])
    return positional, {p.name: v for p, v in values if p.kind is kind}


# ---- captured programs -------------------------------------------------------------


def _evaluated(captured: Captured, inputs: Sequence[Any]) -> list[Any]:
    body, consts = jaxapi.split_jaxpr(captured.jaxpr)
    return jaxapi.eval_jaxpr(body, consts, *inputs)


def _types(captured: Captured) -> list[Any]:
    avals = jaxapi.split_jaxpr(captured.jaxpr)[0].in_avals
    return [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
        for aval in avals
    ]


def _named(function: Any, captured: Captured) -> Any:
    """Give a callable the name and the parameters of the program that it evaluates."""
    function.__name__ = function.__qualname__ = captured.name
    function.__signature__ = inspect.Signature(
        [inspect.Parameter(each.name, each.kind) for each in captured.parameters]
    )
    return function
