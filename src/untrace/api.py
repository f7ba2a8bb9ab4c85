"""The public functions: options with the function first, then a call with arguments."""

from __future__ import annotations

import functools
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.anonymity import untrace_anonymous
from untrace.capture import Captured
from untrace.capture.capture import capture
from untrace.capture.fixed_objects import fixed_note
from untrace.capture.jaxprs import capture_jaxpr, capture_traced, with_trees
from untrace.capture.resized import resized
from untrace.capture.signature import check_static
from untrace.capture.stand_ins import without_types
from untrace.capture.user_code import user_code
from untrace.checks import check_examples, check_options
from untrace.errors import UntraceError, reason
from untrace.example_draws import with_finite_results
from untrace.extension import load_entry_points
from untrace.idle import with_idle_notes
from untrace.isolated import settled
from untrace.lifting.contexts import settings_notes
from untrace.lifting.recorded.naming.transformed import program_name
from untrace.optional import deciding, writing
from untrace.options import Options
from untrace.pipeline import untrace_captured
from untrace.progress import ProgressCallback, StageCounter, telling
from untrace.readers.formats import program_in, refuse_unread
from untrace.recorded import FROM_EQUATIONS, recording
from untrace.recovery.watching import unwatched
from untrace.result import Source
from untrace.stages import stage, within
from untrace.symbolic import untrace_calls
from untrace.torch_modules import (
    WEIGHTS,
    is_torch_module,
    of_torch_module,
    refuse_static,
)


def source(
    function: Any = None,
    *,
    level: str | None = None,
    verify: bool = True,
    isolated: bool = False,
    types: bool = False,
    scopes: bool = False,
    name: str | None = None,
    keep_types: bool = False,
    comments: str = "docstrings",
    reroll: str = "auto",
    expand: str | Sequence[str] = (),
    anonymous: bool = False,
    annotate: str = "none",
    symbolic: bool = False,
    example_inputs: str = "drawn",
    max_seconds: float | None = None,
    refuse: Collection[int] = (),
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    progress: ProgressCallback | None = None,
) -> Any:
    """Recover readable, standalone, verified source code.

    Args:
      function: A callable, called as `source(f)(*args, **kwargs)` with arrays, scalars
        or `jax.ShapeDtypeStruct`s in any pytrees; or a `jax.core.ClosedJaxpr`, a
        `Jaxpr`, a `jax.stages.Traced`, what is read by untrace (a printed jaxpr,
        StableHLO, an exported or lowered function; its text or bytes, or the path of a
        file in which it stands), which need no second call;
        or a `torch.nn.Module`, called with tensors of torch (see docs/torch.md).
        Without one, `@source(level="lax")` is a decorator.
      level: "api": the calls that the function made, as they were written, with the
        user's names and functions; the default for functions. "lax": one statement per
        equation; the default for traced computations, which hold no calls any more.
      verify: Execute, re-trace and compare the result.
      isolated: Verify once more, in a fresh process that has imported JAX and nothing
        else: what this process has changed (replaced functions, settings, environment
        variables) does not count there. The text is executed there, too.
      types: Write the type of every result as a trailing comment, as
        `comments="types"` does.
      scopes: Write `jax.named_scope` where the original had it; it does not change the
        equations, but names them in compiled programs and profiles.
      name: Name of the generated function; by default that of `function`, and
        `grad_of_loss` for `jax.grad(loss)`.
      keep_types: Import the user's and libraries' classes (states of optimizers,
        modules) where that is possible. Otherwise the file defines NamedTuples.
      comments: At level "api", the user's own functions have their docstrings, unless
        it is "none". "user" writes the comments that stand before the user's statements
        and beside them, too, and the annotations of signatures that need no other names
        than the file has; "origin" writes file, line and text of the user's statement
        (the place alone if the file has changed since it was imported), "types" the
        types of results, "both" of these.
      reroll: At level "api", "auto" writes a Python loop where the program had one that
        is alike in all turns but for an item or a number; "for" wherever that many
        statements are alike; "none" nowhere. "scan" writes `jax.lax.scan` over stacked
        parameters, which is another program: its values are compared.
      expand: Names of transformations ("grad", "vmap", "jvp", ...) to look into: a call
        of `jax.grad(loss)` becomes one of a function that holds the equations that JAX
        makes of it, lifted to calls, every group under the user's line that it comes
        from, backward passes under their forward line. "grad" opens `value_and_grad`,
        too, and nothing else is opened. "jit"
        leaves out `jax.jit`. What stays a function under JAX does so here, written from
        its equations: "scan", "cond" and other loops and branches, "checkpoint",
        "custom_jvp" and "custom_vjp"; an expanded "grad" shows what it makes of their
        derivatives. An unknown name is refused with the list of all names.
      anonymous: Write none of the names of the original, for sharing: functions,
        variables, classes, fields and dict keys are renamed (keys in their order), the
        header names no file. Strings that are passed to JAX stay: specs of einsum,
        dtypes, axis names (of vmap, meshes), names of `checkpoint_name`, formats of
        `jax.debug.print`. Host functions and primitives of libraries are refused.
      annotate: At level "api", "jaxtyping" annotates the signatures of recorded
        functions with the types that their arrays had. The file then needs jaxtyping.
      symbolic: At level "api", name the dimensions that shapes are made of at the top of
        the file, `BATCH, LENGTH = ...`, and write shapes with them. The function is traced
        again at other sizes (larger and smaller by one, odd, prime and large ones, and
        numbers that its code compares with); only what is verified at each of them has a
        name, and the header lists them. At sizes that it does not list, a function may do
        something else.
      example_inputs: "drawn": `example_args()` of the file makes arrays like those that
        were given, and writes small ones out (should a program whose values are compared
        give numbers on those that were given, and none on any that were drawn, those that
        were given stay); "given" gives those themselves, large
        ones from the sidecar.
      max_seconds: After so long, tracing included, nothing is tried any more that would
        only make the text better: no calls are looked for that equations come from, what
        is not proved then is written from its equations, dimensions have no names. Text
        that is being written is stopped midway, if it takes longer still than tracing
        took (and than a second), and written from its equations. Without it, a text
        depends on no machine's speed.
      refuse: Numbers of decisions that are not to be taken: of all that only makes text
        better, such as to write a loop, to fold an expression, to leave out a result that
        nothing needs. `Source.decisions` lists them, the first is number 1.
      static_argnums: As in `jax.jit`; static arguments are fixed.
      static_argnames: As in `jax.jit`.
      progress: Called as `progress(stage, done, total)` at the start of every stage, while
        it is done and at its end: "tracing" (equations), "writing" (calls, or equations),
        "verifying" (equations). Total is 0 where nobody knows it.

    Returns:
      For a function, a callable that takes its arguments and returns a `Source`; for a
      traced computation, the `Source`.

    Raises:
      CaptureError: If the arguments cannot be traced.
      LiftingError: If an equation cannot be written; the message says which and why.
      LoadError: If a text or file cannot be read; `ParseError` says where.
      ValueError: If an option has an unknown value, or contradicts another; or what
        `jax.jit` raises for static arguments that the function does not have.

    >>> import jax.numpy as jnp
    >>> src = source(lambda x: jnp.sin(x) * 2.0)(jnp.ones(3))
    >>> src.report.strength
    'identical'
    """
    if function is None:  # `@source(level="lax")`
        given = {name: value for name, value in locals().items() if name != "function"}
        return functools.partial(source, **given)
    load_entry_points()
    if is_torch_module(function):
        refuse_static(static_argnums, static_argnames)
        return of_torch_module(
            function,
            lambda program: source(
                program,
                level=level,
                verify=verify,
                isolated=isolated,
                types=types,
                scopes=scopes,
                name=name,
                keep_types=keep_types,
                comments=comments,
                reroll=reroll,
                expand=expand,
                anonymous=anonymous,
                annotate=annotate,
                symbolic=symbolic,
                example_inputs=example_inputs,
                max_seconds=max_seconds,
                refuse=refuse,
                progress=progress,
            ),
            keeps_weights=not anonymous,
        )
    read = program_in(function)
    if read is not None:
        function = read.jaxpr
    refuse_unread(function)
    if level is None:
        is_traced = jaxapi.is_jaxpr(function) or jaxapi.is_traced(function)
        level = "lax" if is_traced else "api"
    opened = frozenset((expand,) if isinstance(expand, str) else expand)
    # Types are comments, by whatever name they were asked for.
    types = types or comments in ("types", "both")
    options = Options(
        level,
        verify,
        types,
        scopes,
        name,
        keep_types,
        comments,
        reroll,
        annotate,
        opened,
        quotes=bool(opened) and not anonymous,
        symbolic=symbolic,
        isolated=isolated,
    )
    check_options(options, function, anonymous)
    check_examples(example_inputs, anonymous)
    check_static(function, static_argnums, static_argnames)
    from_equations = untrace_anonymous if anonymous else untrace_captured
    from_calls = untrace_anonymous if anonymous else untrace_calls

    def named() -> Options:
        given = name or (None if anonymous else program_name(function))
        return replace(options, name=given)

    def written(captured: Captured, counter: StageCounter) -> Source:
        notes = (*settings_notes(), *captured.notes)
        if keep_types and captured.convention is not None and not anonymous:
            notes = (*notes, *fixed_note(captured.convention.arguments))
        weights = getattr(function, WEIGHTS, ())
        is_exact = captured.is_exact or example_inputs == "given"
        captured = replace(captured, notes=notes, weights=weights, is_exact=is_exact)
        recover = from_equations if captured.recording is None else from_calls

        def rewritten(given: Captured) -> Source:
            return writing(lambda: recover(given, named(), counter))

        made = with_finite_results(rewritten(captured), rewritten, anonymous)

        def at_lower_level(note: str) -> Source:
            notes = (*captured.notes, note)
            lower = replace(captured, recording=None, variant=None, notes=notes)
            lower = lower if keep_types else without_types(lower)
            return writing(
                lambda: from_equations(lower, replace(named(), level="lax"), counter)
            )

        return settled(made, at_lower_level, isolated, counter)

    def finished(captured: Captured) -> Source:
        with telling(progress) as counter:
            return decided(captured, counter)

    def decided(captured: Captured, counter: StageCounter) -> Source:
        with deciding() as taken:
            made = written(captured, counter)
        decisions = tuple(taken)
        refused = [one for n, one in enumerate(decisions, 1) if n in refuse]
        if refused:
            with within(None), deciding(refused):  # decisions are to be the same ones
                made = written(captured, counter)
        is_recorded = captured.recording is not None
        made = with_idle_notes(made, options, is_recorded)
        return replace(made, decisions=decisions)

    if jaxapi.is_jaxpr(function):
        with within(max_seconds), _apart(), jaxapi.wide_enough(function):
            captured = with_trees(capture_jaxpr(function))
            if read is not None:
                notes = (*captured.notes, *read.notes)
                captured = replace(captured, notes=notes, origin=read.origin)
            return finished(captured)
    if jaxapi.is_traced(function):
        with within(max_seconds), _apart():
            captured = capture_traced(function)
            return finished(captured if keep_types else without_types(captured))

    def traced(
        args: tuple[Any, ...], kwargs: Mapping[str, Any], is_recorded: bool
    ) -> Captured:
        bodies, record = recording(opened) if is_recorded else ([], None)
        # A recording holds tracers.
        leaks = jax.check_tracer_leaks(False) if is_recorded else nullcontext()
        with leaks, jaxapi.noting_scopes(scopes):
            captured = capture(
                function,
                args,
                kwargs,
                static_argnums,
                static_argnames,
                record,
                keep_types and not anonymous,
            )
        if bodies:
            return replace(captured, recording=bodies[0])
        if keep_types:
            return captured
        return without_types(captured)

    def first_traced(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Captured:
        """Trace once; without recording it if the function fails only while recorded."""
        if level != "api":
            return traced(args, kwargs, False)
        try:
            return traced(args, kwargs, True)
        except UntraceError:
            raise
        except Exception as error:
            plain = None
            with suppress(Exception):
                plain = traced(args, kwargs, False)
            if plain is None:
                raise
            note = f"{FROM_EQUATIONS}: recording them raised {reason(error)}"
            return replace(plain, notes=(*plain.notes, note))

    def with_arguments(*args: Any, **kwargs: Any) -> Source:
        def variant(
            sizes: Mapping[tuple[int, int], int], is_recorded: bool
        ) -> Captured | None:
            """Trace at other sizes, if the function allows them."""
            try:
                static = static_argnums, static_argnames
                given = resized(function, args, kwargs, sizes, *static, captured.fixed)
                other = traced(*given, is_recorded)
            except Exception:  # the user's function says no in its own ways
                return None
            return None if is_recorded and other.recording.error else other

        with within(max_seconds), _apart():
            with (
                telling(progress) as counter,
                user_code(),
                stage("trace and record" if level == "api" else "trace"),
            ):
                counter("tracing")
                captured = first_traced(args, kwargs)
            if captured.recording is not None:
                captured = replace(captured, variant=variant if symbolic else None)
            return finished(captured)

    return with_arguments


@contextmanager
def _apart() -> Generator[None, None, None]:
    """Be no part of a function that is traced or recorded around this call."""
    with unwatched(), jaxapi.outside_traces(), jaxapi.rare_collection():
        yield


sourcerize = source
