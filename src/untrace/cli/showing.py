"""`untrace show` and `untrace verify`: recover a program, check a saved one."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
from rich.markup import escape
from rich.table import Table

from untrace.cli.calls import (
    Given,
    evaluate,
    function_at,
    is_module,
    named_function,
    opened,
)
from untrace.cli.messages import (
    DIFFERENT,
    ERR,
    VERIFIED,
    explained,
    fail,
    say,
)
from untrace.cli.sources import deliver
from untrace.cli.status import Status
from untrace.errors import OptionError, UntraceError
from untrace.optional import STEPS, Decision
from untrace.passes_watched import PassPrinter, watching
from untrace.stages import Stage, measured


@click.command()
@click.argument("target", metavar="FILE_OR_MODULE")
@click.argument("call", metavar="['F(X, Y)']", required=False)
@click.option(
    "--args",
    "types_given",
    metavar="TYPES",
    help="The arguments of a function, by their types: 'f32[8,128], i32[], n=3'.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    help="Save here instead of printing.",
)
@click.option(
    "--level",
    type=click.Choice(["api", "lax"]),
    help="Calls as they were written (api, the default for functions), or one "
    "statement per equation (lax).",
)
@click.option("--no-verify", is_flag=True, help="Do not execute, re-trace and compare.")
@click.option(
    "--isolated",
    is_flag=True,
    help="Verify once more, in a fresh process, which executes the text, too.",
)
@click.option(
    "--types", is_flag=True, help="Write the type of every result as a comment."
)
@click.option(
    "--scopes", is_flag=True, help="Write jax.named_scope where the original had it."
)
@click.option("--name", help="Name of the generated function.")
@click.option(
    "--comments",
    type=click.Choice(["docstrings", "user", "origin", "types", "both", "none"]),
    default="docstrings",
    show_default=True,
    help="Your docstrings alone; your comments and annotations, too (user); with each "
    "statement where it was written, or the types of its results; or none.",
)
@click.option(
    "--reroll",
    type=click.Choice(["auto", "none", "for", "scan"]),
    default="auto",
    show_default=True,
    help="Write statements that repeat as a loop: where the program had one, never, "
    "wherever they do; or as a scan over stacked parameters.",
)
@click.option(
    "--expand",
    multiple=True,
    metavar="NAME",
    help="Show what JAX makes of the calls of a transformation, and of no other: grad, "
    "vmap, jvp, scan, jit, custom_vjp, checkpoint, ... May be given several times.",
)
@click.option(
    "--keep-types",
    is_flag=True,
    help="Import your classes and those of libraries, instead of writing NamedTuples.",
)
@click.option(
    "--annotate",
    type=click.Choice(["none", "jaxtyping"]),
    default="none",
    show_default=True,
    help="Annotate signatures with the types of arrays (level api).",
)
@click.option(
    "--symbolic",
    is_flag=True,
    help="Name the dimensions that shapes are made of; the header lists the sizes "
    "at which that was verified (level api).",
)
@click.option(
    "--inputs",
    type=click.Choice(["drawn", "given"]),
    default="drawn",
    show_default=True,
    help="What the saved file is run with: arrays like those of the call, or those "
    "themselves, large ones in the sidecar.",
)
@click.option(
    "--anonymous",
    is_flag=True,
    help="Write no names of functions, variables, classes, keys or files.",
)
@click.option(
    "--decisions",
    is_flag=True,
    help="List all that was done only to make the text better, by number.",
)
@click.option(
    "--refuse",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="NUMBER",
    help="Do not take one of these decisions. May be given several times.",
)
@click.option(
    "--debug-passes",
    is_flag=True,
    help="Print what every pass changed, on standard error (level api).",
)
@click.option(
    "--explain",
    "lines",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="LINE",
    help="Say which of your lines a line of the printed file comes from, and which "
    "decisions shaped it, on standard error. May be given several times.",
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Try nothing after so long that would only make the text better; what takes "
    "much longer to write is stopped, and written from its equations.",
)
@click.option(
    "--time",
    "--time-passes",
    "time_passes",
    is_flag=True,
    help="Print where the processor time went, on standard error.",
)
def show(
    target: str,
    call: str | None,
    types_given: str | None,
    output: str | None,
    level: str | None,
    no_verify: bool,
    isolated: bool,
    types: bool,
    scopes: bool,
    name: str | None,
    comments: str,
    reroll: str,
    expand: tuple[str, ...],
    keep_types: bool,
    annotate: str,
    symbolic: bool,
    inputs: str,
    anonymous: bool,
    decisions: bool,
    refuse: tuple[int, ...],
    debug_passes: bool,
    lines: tuple[int, ...],
    max_seconds: float | None,
    time_passes: bool,
) -> None:
    """Print the source of a call, as JAX sees it.

    \b
    untrace show model.py 'train_step(params, batch)'
    untrace show package.module:function --args 'f32[8,128], i32[]'
    untrace show model.py:function
    untrace show issue.txt

    The call expression is evaluated in the namespace of FILE_OR_MODULE, except that the
    outermost function is traced and not run; jax, jnp and np are there in any case. The
    arguments of FILE:FUNCTION are those of --args, where shapes are enough, or what
    example_args() of the file returns. Without a function FILE was saved by untrace, or
    holds a printed jaxpr, StableHLO or an exported function; of jaxprs nothing is
    executed, and of modules only what they compute, to compare it. - is standard input,
    a program of Python if there is a call.
    """
    function, args, kwargs = _given(target, call, types_given)
    watched = watching(PassPrinter(say)) if debug_passes else contextlib.nullcontext()
    with Status() as status, measured() as whole, watched:
        make = _source(
            function,
            level=level,
            verify=not no_verify,
            isolated=isolated,
            types=types,
            scopes=scopes,
            name=name,
            comments=comments,
            reroll=reroll,
            expand=expand,
            keep_types=keep_types,
            annotate=annotate,
            symbolic=symbolic,
            example_inputs=inputs,
            anonymous=anonymous,
            refuse=refuse,
            max_seconds=max_seconds,
            progress=status.update,
        )
        with explained("" if _carries_inputs(function) else call or target):
            src = make(*args, **kwargs) if not _carries_inputs(function) else make
    if time_passes:
        ERR.print(_times(whole))
    if decisions:
        ERR.print(_decisions(src.decisions, refuse))
    for line in lines:
        try:
            say(str(src.explain(line)))
        except ValueError as error:
            fail(f"{error}.")
    deliver(src, output)


def _given(target: str, call: str | None, types: str | None) -> Given:
    """Return the function and its arguments, in whatever way they are named."""
    named = named_function(target)
    if named is not None and call is not None:
        fail(f"give either {target} or a call, not both.")
    if named is not None:
        return function_at(*named, types)
    if types is not None and call is None:
        fail(f"give the function, too, as in: untrace show {target}:f --args '...'.")
    if types is not None:
        return function_at(target, str(call), types)
    if call is not None:
        return evaluate(target, call)
    found = opened(target)
    if not isinstance(found, Path):
        return found, (), {}
    name = _saved_name(found)
    return _refuse(found) if name is None else function_at(target, name, None)


def _saved_name(path: Path) -> str | None:
    """The name of the function of a file that untrace saved, if it is one."""
    from untrace.saved_program import saved_name

    if path.suffix != ".py":
        return None
    try:
        return saved_name(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):  # whoever loads it says what is wrong
        return None


def _refuse(path: Path) -> NoReturn:
    """Say what to do with a file that is in none of the formats."""
    if (path.is_file() and path.suffix == ".py") or is_module(str(path)):
        fail(f"give a call as well, as in: untrace show {path} 'f(x)'.")
    from untrace.readers.formats import refuse_unread

    with explained():
        refuse_unread(path)
    fail(f"give a call as well, as in: untrace show {path} 'f(x)'.")


def _times(whole: Stage) -> Table:
    """Lay out where the time went."""
    table = Table(
        title=f"{whole.seconds:.2f} s of processor time", title_justify="left"
    )
    table.add_column("stage")
    for column in ("times", "seconds", "share"):
        table.add_column(column, justify="right")
    for depth, stage in whole.rows():
        share = stage.seconds / (whole.seconds or 1.0)
        numbers = str(stage.times), f"{stage.seconds:.3f}", f"{share:.0%}"
        table.add_row("  " * depth + stage.name, *numbers)
    return table


def _decisions(decisions: Sequence[Decision], refused: Collection[int]) -> Table:
    """Lay out decisions by their numbers."""
    table = Table(title="What makes the text better", title_justify="left")
    table.add_column("", justify="right")
    for column in ("step", "what it does", "for"):
        table.add_column(column, overflow="fold")
    for number, (step, subject) in enumerate(decisions, 1):
        said = (STEPS[step].__doc__ or "").partition("\n")[0]
        style = "strike" if number in refused else None
        table.add_row(str(number), step, escape(said), escape(subject), style=style)
    return table


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--isolated/--no-isolated",
    default=True,
    show_default=True,
    help="Execute the file in a fresh process, whose crash or hang is a result; or in "
    "this one, which is faster.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="End the fresh process after so long.",
)
@click.option(
    "--no-run",
    is_flag=True,
    help="Do not execute the file: list what it imports, calls or touches beyond "
    "computing with JAX, NumPy and the standard mathematics.",
)
def verify(file: str, isolated: bool, timeout: float, no_run: bool) -> None:
    """Check a saved file again: trace it and compare with its fingerprint.

    The file is EXECUTED, in a fresh process with a clean environment but with your
    rights. Look at files of others first: --no-run reads them and lists what they do
    beyond computing (exit status 1), or finds nothing (0).
    """
    from untrace.isolated import flags_for, verify_isolated
    from untrace.saved import verify_file

    if no_run:
        _list(file)

    with Status() as status:
        status.update("verifying")
        with explained():
            path = Path(file)
            if not isolated:
                os.environ.update(flags_for(path))  # before JAX looks for devices
            verdict = verify_isolated(path, timeout) if isolated else verify_file(path)
    say(str(verdict), "green" if verdict.is_verified else "red")
    sys.exit(VERIFIED if verdict.is_verified else DIFFERENT)


def _list(file: str) -> NoReturn:
    """List what a file does beyond computing."""
    from untrace.static_check import check_file

    with explained():
        found = check_file(Path(file).read_bytes(), file)
    for finding in found:
        click.echo(f"{file}:{finding.line}: {finding.text}")
    n = len(found)
    said = f"{n} thing{'s' * (n != 1)} to look at" if n else "nothing but computations"
    ERR.print(f"{file}: {said}. Nothing was executed.", markup=False)
    sys.exit(DIFFERENT if found else VERIFIED)


def _source(function: Any, **options: Any) -> Any:
    """Call `untrace.source`, telling the user which options contradict each other."""
    from untrace.api import source

    try:
        return source(function, **options)
    except OptionError as error:
        fail(f"{error}.")
    except UntraceError as error:
        fail(str(error))


def _carries_inputs(function: Any) -> bool:
    from untrace import jaxapi
    from untrace.readers.formats import Program

    is_read = isinstance(function, Program)
    return is_read or jaxapi.is_jaxpr(function) or jaxapi.is_traced(function)
