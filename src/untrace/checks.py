"""Refuse options with unknown values, and options that contradict each other."""

from __future__ import annotations

import importlib.util
from typing import Any

from untrace import jaxapi
from untrace.errors import OptionError
from untrace.options import Options
from untrace.recovery.transformations import EXPANDABLE

LEVELS = ("api", "lax")
REROLL = ("auto", "none", "for", "scan")
COMMENTS = ("docstrings", "user", "origin", "types", "both", "none")
EXAMPLES = ("drawn", "given")
ANNOTATE = ("none", "jaxtyping")


def check_options(options: Options, function: Any, is_anonymous: bool) -> None:
    """Refuse what cannot be asked for.

    Raises:
      OptionError: If an option has an unknown value, or contradicts another.
      TypeError: If there is no source to recover.
    """
    _check_choice("comments", options.comments, COMMENTS)
    for unknown in sorted(options.expand - EXPANDABLE):
        known = ", ".join(sorted(EXPANDABLE))
        raise OptionError(f"cannot expand {unknown!r}; it must be one of {known}")
    _check_choice("reroll", options.reroll, REROLL)
    _check_choice("level", options.level, LEVELS)
    _check_choice("annotate", options.annotate, ANNOTATE)
    is_traced = jaxapi.is_jaxpr(function) or jaxapi.is_traced(function)
    if not (callable(function) or is_traced):
        raise TypeError(
            f"cannot recover source from a {type(function).__name__}; pass a function, "
            "a jaxpr, the result of `jax.jit(f).trace(...)` or `.lower(...)`, a printed "
            "jaxpr, StableHLO or a module of torch"
        )
    if options.isolated and not options.verify:
        raise OptionError("isolated=True verifies the source; leave verify=True")
    if is_anonymous:
        _check_anonymous(options)
    _check_annotate(options.annotate, options.level)
    if options.symbolic:
        _check_symbolic(options, function if is_traced else None)


def check_examples(example_inputs: str, is_anonymous: bool) -> None:
    """Refuse example inputs that cannot be asked for.

    Raises:
      OptionError: If the option has an unknown value, or contradicts another.
    """
    _check_choice("example_inputs", example_inputs, EXAMPLES)
    if is_anonymous and example_inputs == "given":
        raise OptionError(
            'example_inputs="given" saves your inputs, which anonymous=True leaves out; '
            "pass one of them"
        )


def _check_choice(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise OptionError(f"{name} must be one of {', '.join(known)}, not {value!r}")


def _check_annotate(annotate: str, level: str) -> None:
    """Refuse annotations that cannot be written, or not be executed."""
    if annotate == "none":
        return
    if level != "api":
        raise OptionError(
            f'annotate="{annotate}" needs the calls of the program: level="api"'
        )
    if importlib.util.find_spec(annotate) is None:
        raise OptionError(
            f'annotate="{annotate}" needs a package that is not installed here, without '
            f"which the file cannot be verified: `pip install {annotate}`"
        )


def _check_symbolic(options: Options, traced: Any) -> None:
    """Refuse named dimensions where they could not be found or proved."""
    if traced is not None and _has_names(traced):
        return
    if traced is not None:
        raise OptionError(
            "symbolic=True traces the function again at other sizes, and what is traced, "
            "printed, lowered or exported has fixed ones: pass the function itself, or "
            "trace, lower or export it with `jax.export.symbolic_shape`"
        )
    if options.level != "api" or options.expand:
        what = "expand" if options.expand else f'level="{options.level}"'
        raise OptionError(
            f"symbolic=True needs the calls of the program, which {what} does not write: "
            'pass level="api" and no expand, or trace the function with '
            "`jax.export.symbolic_shape`"
        )
    if not options.verify:
        raise OptionError(
            "symbolic=True names what is verified at other sizes; leave verify=True"
        )


def _has_names(traced: Any) -> bool:
    """Whether a traced computation was traced with symbolic dimensions."""
    closed = traced.jaxpr if jaxapi.is_traced(traced) else traced
    avals = jaxapi.split_jaxpr(closed)[0].in_avals
    return any(
        map(jaxapi.is_symbolic, (n for a in avals for n in getattr(a, "shape", ())))
    )


def _check_anonymous(options: Options) -> None:
    """Refuse what contradicts `anonymous=True`."""
    named = {
        'comments="user" writes the comments': options.comments == "user",
        f'comments="{options.comments}" quotes lines and files': options.shows_origins,
        "keep_types=True imports classes by their names": options.keep_types,
        "scopes=True writes the names of scopes": options.scopes,
    }
    for what, is_asked in named.items():
        if is_asked:
            raise OptionError(
                f"{what} of the original, which anonymous=True removes; pass one of them"
            )
